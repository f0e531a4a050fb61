#include "egraph/core/state.h"

#include <bit>
#include <cmath>

#include "base/fail.h"
#include "egraph/core/explain.h"
#include "egraph/core/limits.h"
#include "egraph/core/snapshot.h"

namespace luminal::egraph {

void check_budget(const Budget& budget) {
  if (budget.seconds > 0) return;  // not so of NaN
  fail("[egraph] a budget of {} seconds is none; give more than 0, or leave it out where time has no limit",
       budget.seconds);
}

EngineState::EngineState() : to_canonical([this](SortId sort, Value v) { return canonical(sort, v); }) {}
EngineState::~EngineState() = default;

uint64_t EngineState::total_rows() const {
  uint64_t rows = 0;
  for (const FunctionInfo& info : functions) rows += info.table.live_rows();
  return rows;
}

void EngineState::poll_limits() const { limits->poll(); }

void EngineState::check_limits() const {
  if (limits != nullptr) limits->check();
}

void EngineState::require_memory(size_t bytes, double seconds) const {
  if (limits != nullptr) limits->require(seconds, bytes);
}

size_t EngineState::size_bytes() const {
  size_t bytes = ids.size_bytes() + literals.size_bytes() + snapshot_bytes + host_bytes + text_bytes;
  if (log != nullptr) bytes += log->size_bytes();
  for (const FunctionInfo& info : functions) {
    bytes += info.table.size_bytes();
    for (const JoinIndex& index : info.indexes) bytes += index.size_bytes();
  }
  return bytes;
}

// --- Literals. Integers of up to 31 bits are stored in place, zigzag: 0, -1, 1, -2 ... so that small ones of
// either sign are dense; the top bit tells interned ones.

namespace {
constexpr uint32_t kInterned = uint32_t{1} << 31;
}

Value Literals::of(int64_t x) {
  const uint64_t zigzag = (static_cast<uint64_t>(x) << 1) ^ static_cast<uint64_t>(x >> 63);
  if (zigzag < kInterned) return static_cast<Value>(zigzag);
  const auto [entry, fresh] = integer_of_.try_emplace(x, static_cast<Value>(integers_.size()) | kInterned);
  if (fresh) integers_.push_back(x);
  return entry->second;
}

int64_t Literals::as_i64(Value v) const {
  if ((v & kInterned) != 0) return integers_[v & ~kInterned];
  return static_cast<int64_t>(v >> 1) ^ -static_cast<int64_t>(v & 1);
}

Value Literals::of(double x) {
  // What compares equal is one value, whichever came first: programs must not see that order.
  const uint64_t bits = std::isnan(x) ? 0x7ff8000000000000ULL : std::bit_cast<uint64_t>(x == 0 ? 0.0 : x);
  const auto [entry, fresh] = float_of_.try_emplace(bits, static_cast<Value>(floats_.size()));
  if (fresh) floats_.push_back(std::bit_cast<double>(bits));
  return entry->second;
}

double Literals::as_f64(Value v) const { return floats_[v]; }

// With an entry of a hash table for each, about.
size_t Literals::size_bytes() const {
  constexpr size_t kEntry = 48;
  return (integers_.size() + floats_.size()) * kEntry + strings_.size() * 2 * kEntry + string_bytes_;
}

Value Literals::of(std::string_view x) {
  const auto known = string_of_.find(x);
  if (known != string_of_.end()) return known->second;
  const Value v = static_cast<Value>(strings_.size());
  strings_.emplace_back(x);
  string_bytes_ += x.size();
  string_of_.emplace(strings_.back(), v);
  return v;
}

}  // namespace luminal::egraph
