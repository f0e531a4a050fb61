#pragma once
#include <algorithm>
#include <atomic>
#include <limits>
#include <optional>

#include "base/cancel.h"
#include "egraph/core/state.h"

namespace luminal::egraph {

[[nodiscard]] inline double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// What steps that can't stop half-way take at worst, about: they do not begin if that is more than is left.
inline constexpr double kIndexSecondsPerRow = 30e-9;  ///< for each of its columns
inline constexpr double kCompactionSecondsPerRow = 30e-9, kResizeSecondsPerSlot = 10e-9;
inline constexpr double kCopySecondsPerByte = 1e-9;
inline constexpr size_t kIndexBytesPerRow = 16;

/// Errors: Error for a time that is no positive number.
void check_budget(const Budget& budget);

/// Thrown where work ends in its middle because a budget is spent; caught where that budget was given. Not an
/// Error, so that nobody takes it for a failure of the program.
struct Stopped {
  StopReason reason;
};

/// What is left of a budget, and why work must end. While a LimitsScope holds, the engine's primitives,
/// joins, plans and copies ask it too.
class Limits {
 public:
  /// Within `outer`, if there is one: whatever ends that ends this.
  Limits(const EngineState& state, const Budget& budget, const Limits* outer = nullptr,
         const std::atomic<bool>* interrupt = nullptr)
      : state_(state), budget_(budget), interrupt_(interrupt), begin_(Clock::now()) {
    if (outer != nullptr) {
      budget_.nodes = std::min(budget_.nodes, outer->budget_.nodes);
      budget_.bytes = std::min(budget_.bytes, outer->budget_.bytes);
      const double left = outer->budget_.seconds - seconds_between(outer->begin_, begin_);
      budget_.seconds = std::min(budget_.seconds, left);
      if (interrupt_ == nullptr) interrupt_ = outer->interrupt_;
    }
    limits_time_ = budget_.seconds < 1e9;
    limits_size_ = budget_.nodes != std::numeric_limits<uint64_t>::max() ||
                   budget_.bytes != std::numeric_limits<uint64_t>::max();
  }

  bool exceeded() { return is_spent(limits_size_); }
  [[nodiscard]] std::optional<StopReason> reason() const { return stop_; }
  void stop(StopReason reason) {
    if (!stop_) stop_ = reason;
  }
  /// Other threads may ask.
  [[nodiscard]] bool out_of_time() const { return !has_time_for(0) || is_interrupted(); }
  [[nodiscard]] bool has_time_for(double seconds) const {
    return !limits_time_ || seconds_between(begin_, Clock::now()) + seconds < budget_.seconds;
  }
  /// False, and the run must stop, if a step that can't stop half-way would take more than is left.
  bool allows(double seconds, size_t bytes) {
    if (!has_time_for(seconds)) stop_ = StopReason::TimeBudget;
    if (bytes != 0 && !has_room_for(bytes)) stop_ = StopReason::ByteBudget;
    return !stop_;
  }

  /// Throws Stopped if the budget is spent. Cheap: where there are many tables (each `let` of a program is one), it looks
  /// at their sizes only now and then.
  void check() {
    if (is_spent(limits_size_ && sizes_are_due())) throw Stopped{*stop_};
  }
  /// As `check`, but looks only now and then: for what takes less than a few microseconds.
  void poll() {
    constexpr uint32_t kPolls = 64;
    if (++polls_ % kPolls == 0) check();
  }
  /// Throws Stopped if a step that can't stop half-way would take more than is left.
  void require(double seconds, size_t bytes) {
    if (!allows(seconds, bytes)) throw Stopped{*stop_};
  }

  [[nodiscard]] bool has_room_for(size_t bytes) const {
    return !limits_size_ || state_.size_bytes() + bytes <= budget_.bytes;
  }
  /// For rebuilds, which make an e-graph smaller, unless merges add rows: only then the size counts.
  [[nodiscard]] bool rebuild_must_stop(uint64_t rows_before) {
    if (out_of_time()) {
      stop(is_interrupted() ? StopReason::Interrupted : StopReason::TimeBudget);
      return true;
    }
    return limits_size_ && state_.total_rows() > rows_before && exceeded();
  }

  /// How many matches may be applied before the next look at the budget, if each adds at most
  /// `rows_per_match` rows: whole blocks while there is room, single batches when it gets tight.
  [[nodiscard]] size_t matches_before_check(size_t rows_per_match) const {
    if (!limits_size_) return kBlock;
    constexpr uint64_t kBytesPerRow = 256;  // a wide row, its slot and indexes
    const auto left = [](uint64_t most, uint64_t used) { return most > used ? most - used : 0; };
    const uint64_t rows = std::min(left(budget_.nodes, state_.total_rows()),
                                   left(budget_.bytes, state_.size_bytes()) / kBytesPerRow);
    const uint64_t matches = rows / std::max<size_t>(1, rows_per_match) / kBatch * kBatch;
    return static_cast<size_t>(std::clamp<uint64_t>(matches, kBatch, kBlock));
  }

 private:
  bool is_spent(bool looks_at_sizes) {
    if (stop_) return true;
    if (!has_time_for(0)) stop_ = StopReason::TimeBudget;
    if (is_interrupted()) stop_ = StopReason::Interrupted;
    if (looks_at_sizes) {
      if (state_.total_rows() >= budget_.nodes) stop_ = StopReason::NodeBudget;
      if (state_.size_bytes() >= budget_.bytes) stop_ = StopReason::ByteBudget;
    }
    return stop_.has_value();
  }
  /// So often that a check comes to a look at some hundreds of tables, however many there are.
  bool sizes_are_due() {
    constexpr size_t kTables = 256;
    if (checks_to_skip_ > 0) {
      --checks_to_skip_;
      return false;
    }
    checks_to_skip_ = state_.functions.size() / kTables;
    return true;
  }

  /// By the caller's flag, or because the work of this thread is to stop (base/cancel.h).
  [[nodiscard]] bool is_interrupted() const {
    return (interrupt_ != nullptr && interrupt_->load(std::memory_order_relaxed)) || is_cancelled();
  }

  const EngineState& state_;
  Budget budget_;
  const std::atomic<bool>* interrupt_;
  Clock::time_point begin_;
  bool limits_time_ = false, limits_size_ = false;
  uint32_t polls_ = 0;
  size_t checks_to_skip_ = 0;
  std::optional<StopReason> stop_;
};

/// While it lives, the engine works within these limits; with null, without any.
class LimitsScope {
 public:
  LimitsScope(EngineState& state, Limits* limits) : state_(state), before_(state.limits) {
    state_.limits = limits;
  }
  LimitsScope(const LimitsScope&) = delete;
  LimitsScope& operator=(const LimitsScope&) = delete;
  ~LimitsScope() { state_.limits = before_; }

 private:
  EngineState& state_;
  Limits* before_;
};

}  // namespace luminal::egraph
