#include "search/saturate/spec_store.h"

#include <algorithm>
#include <utility>

#include "base/fail.h"
#include "base/hash.h"
#include "base/short_lock.h"
#include "kernel/cost.h"

namespace luminal::search {
namespace {

enum Operation : uint32_t { kCompose, kExport, kSiblings, kJoin, kMark, kFold, kRepeated };
constexpr size_t kHead = 4;  // of a key, before the names

}  // namespace

size_t SpecStore::KeyHash::operator()(const Key& key) const {
  return static_cast<size_t>(hash_bytes(key.data(), key.size() * sizeof(uint32_t)));
}

SpecStore::SpecStore(MathMode mode) : mode_(mode), chunks_(kMostChunks) {}

SpecId SpecStore::intern(const kernel::KernelSpec& spec) {
  const std::scoped_lock lock(mutex_);
  return intern_alone(spec);
}

SpecId SpecStore::intern_alone(const kernel::KernelSpec& spec) {
  const size_t next = size_;
  const auto [known, fresh] = ids_.try_emplace(spec, static_cast<SpecId>(next));
  if (!fresh) return known->second;
  const size_t chunk = next / std::tuple_size_v<Chunk>;
  LUMINAL_CHECK(chunk < kMostChunks, "{} specs in one store", next);
  if (!chunks_[chunk]) chunks_[chunk] = std::make_unique<Chunk>();
  entry(known->second).spec = spec;
  size_ = next + 1;
  return known->second;
}

template <class Make>
const SpecStore::Made* SpecStore::remember(uint32_t operation, SpecId a, int slot, SpecId b, Names a_names,
                                           Names b_names, Make make) {
  // Names become the position of their first occurrence: the same key for the same pattern.
  static thread_local Key asked;  // keeps its memory
  asked.assign({operation, a, static_cast<uint32_t>(slot), b});
  const auto name = [&](size_t i) { return i < a_names.size() ? a_names[i] : b_names[i - a_names.size()]; };
  for (size_t i = 0; i < a_names.size() + b_names.size(); ++i) {
    uint32_t first = 0;
    while (name(first) != name(i)) ++first;
    asked.push_back(first);
  }
  const auto result_of = [](const std::optional<Made>& made) { return made ? &*made : nullptr; };
  {
    const auto lock = short_lock(mutex_);
    if (const auto known = made_.find(asked); known != made_.end()) return result_of(known->second);
  }
  Key key = asked;
  auto result =
      make(std::span(key).subspan(kHead, a_names.size()), std::span(key).subspan(kHead + a_names.size()));
  const auto lock = short_lock(mutex_);
  const auto [kept, fresh] = made_.try_emplace(std::move(key));  // another thread may have been faster
  if (fresh && result) kept->second = Made{intern_alone(result->spec), std::move(result->slots)};
  return result_of(kept->second);
}

const SpecStore::Made* SpecStore::compose(SpecId consumer, int slot, SpecId producer, Names consumer_names,
                                          Names producer_names) {
  return remember(kCompose, consumer, slot, producer, consumer_names, producer_names, [&](Names a, Names b) {
    return kernel::compose(at(consumer), slot, at(producer), a, b, limits());
  });
}

const SpecStore::Made* SpecStore::compose_exporting(SpecId consumer, std::span<const int> slots,
                                                    SpecId producer, Names consumer_names,
                                                    Names producer_names) {
  const int most = limits().slots + 1;
  int key = 0;
  for (const int slot : slots) key = key * most + slot + 1;
  return remember(kExport, consumer, key, producer, consumer_names, producer_names, [&](Names a, Names b) {
    return kernel::compose_exporting(at(consumer), slots, at(producer), a, b, limits());
  });
}

const SpecStore::Made* SpecStore::merge_siblings(SpecId a, SpecId b, Names a_names, Names b_names) {
  return remember(kSiblings, a, 0, b, a_names, b_names, [&](Names first, Names second) {
    return kernel::merge_siblings(at(a), at(b), first, second, limits());
  });
}

namespace {

std::optional<kernel::Composed> own_slots(kernel::Canonical canonical) {
  kernel::Composed result{std::move(canonical.spec), {}};
  for (const int slot : canonical.slots) result.slots.push_back({false, slot});
  return result;
}

}  // namespace

const SpecStore::Made* SpecStore::join(SpecId spec, Names names) {
  std::vector<uint32_t> sorted(names.begin(), names.end());
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) == sorted.end()) return nullptr;
  return remember(kJoin, spec, 0, spec, names, {}, [&](Names pattern, Names) {
    return own_slots(kernel::canonical(at(spec).parts(), pattern, mode_));
  });
}

/// The spec with one slot made unlike all others: canonical forms of two such specs are equal exactly if the
/// slots play the same part.
const SpecStore::Made* SpecStore::marked(SpecId spec, int slot) {
  return remember(kMark, spec, slot, spec, {}, {}, [&](Names, Names) {
    kernel::SpecParts parts = at(spec).parts();
    parts.slots[static_cast<size_t>(slot)].elements += 1;
    return own_slots(kernel::canonical(std::move(parts), {}, mode_));
  });
}

bool SpecStore::symmetric(SpecId spec, int i, int j) {
  const auto slots = at(spec).slots();
  if (i == j || !(slots[static_cast<size_t>(i)] == slots[static_cast<size_t>(j)])) return false;
  const Made *first = marked(spec, i), *second = marked(spec, j);
  if (first->spec != second->spec) return false;
  for (size_t k = 0; k < first->slots.size(); ++k) {
    const int from = first->slots[k].slot, to = second->slots[k].slot;
    if (to != (from == i ? j : from == j ? i : from)) return false;
  }
  return true;
}

std::optional<int> SpecStore::identity_of(SpecId spec, MathMode mode) {
  return kernel::identity_of(at(spec), mode);
}
double SpecStore::operations(SpecId spec) {
  Entry& own = entry(spec);
  double operations = own.operations.load(std::memory_order_relaxed);
  if (operations < 0)
    own.operations.store(operations = kernel::typical_operations(own.spec), std::memory_order_relaxed);
  return operations;
}
bool SpecStore::is_copy(SpecId spec) { return kernel::is_copy(at(spec)); }
bool SpecStore::is_elementwise(SpecId spec) {
  constexpr size_t kMostNodes = 16, kMostOperands = 4;
  return std::ranges::all_of(at(spec).values(), [](const kernel::Value& v) {
    return !v.monoid && v.body.nodes().size() <= kMostNodes && v.operands.size() <= kMostOperands;
  });
}
bool SpecStore::is_exact(SpecId spec) {
  return std::ranges::none_of(at(spec).values(), [](const kernel::Value& v) {
    return v.monoid && !info(*v.monoid).selects && is_float(v.dtype());
  });
}

const SpecStore::Made* SpecStore::reduce_repeated(SpecId spec) {
  return remember(kRepeated, spec, 0, spec, {}, {},
                  [&](Names, Names) { return kernel::reduce_repeated(at(spec)); });
}

const SpecStore::Made* SpecStore::fold_constant(SpecId spec, int slot, SpecId producer) {
  const auto value = kernel::constant_of(at(producer));
  if (!value) return nullptr;
  return remember(kFold, spec, slot, producer, {}, {},
                  [&](Names, Names) { return kernel::fold_constant(at(spec), slot, *value); });
}

const SpecStore::Split* SpecStore::split(SpecId spec, SplitLaw law) {
  const auto [known, fresh] = splits_.try_emplace({spec, law});
  if (fresh)
    if (const auto split = law(at(spec))) {
      const SpecId outer = intern(split->outer), inner = intern(split->inner);
      known->second = Split{outer, inner, split->outer_slots, split->inner_slots};
    }
  return known->second ? &*known->second : nullptr;
}

}  // namespace luminal::search
