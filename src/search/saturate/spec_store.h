#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "kernel/compose.h"
#include "kernel/laws.h"
#include "kernel/spec.h"

namespace luminal::search {

/// Handle of an interned spec: equal specs, equal handles, counted from 0.
using SpecId = uint32_t;

/// Interned specs, and what is made of them, computed once: composition takes far longer than looking it up,
/// and graphs repeat themselves. Arguments are named by numbers of which only the equality counts.
/// Thread safety: several threads may compose, join and ask for operations at once; how specs are numbered then
/// depends on who comes first. Laws are asked by one thread at a time.
class SpecStore {
 public:
  explicit SpecStore(MathMode mode = MathMode::Relaxed);
  SpecId intern(const kernel::KernelSpec& spec);
  [[nodiscard]] const kernel::KernelSpec& at(SpecId id) const { return entry(id).spec; }
  [[nodiscard]] size_t size() const { return size_; }

  using From = kernel::Composed::From;
  struct Made {
    SpecId spec = 0;
    std::vector<From> slots;
  };
  using Names = std::span<const uint32_t>;
  /// As kernel::compose and its sisters; null where they are not defined. Valid as long as the store.
  const Made* compose(SpecId consumer, int slot, SpecId producer, Names consumer_names, Names producer_names);
  const Made* compose_exporting(SpecId consumer, std::span<const int> slots, SpecId producer,
                                Names consumer_names, Names producer_names);
  const Made* merge_siblings(SpecId a, SpecId b, Names a_names, Names b_names);

  /// The spec with slots of equal names joined; null if all names differ.
  const Made* join(SpecId spec, Names names);
  /// Whether exchanging two slots leaves the spec what it is.
  bool symmetric(SpecId spec, int i, int j);

  /// Laws of one spec (kernel/laws.h).
  std::optional<int> identity_of(SpecId spec, MathMode mode);
  bool is_copy(SpecId spec);
  /// kernel::typical_operations.
  double operations(SpecId spec);
  /// Nothing is reduced, and little is computed: laws look through such a producer.
  bool is_elementwise(SpecId spec);
  /// Whether regrouping what its reductions fold changes no bit: integers wrap, maxima round nothing. The
  /// result's dtype does not tell: it may be an integer made of a sum of floats.
  bool is_exact(SpecId spec);
  /// The spec with `slot` always reading the constant that `producer` is; null if it is none.
  const Made* fold_constant(SpecId spec, int slot, SpecId producer);
  struct Split {
    SpecId outer = 0, inner = 0;
    std::vector<int> outer_slots, inner_slots;
  };
  const Split* leave_sum(SpecId spec) { return split(spec, &kernel::leave_sum); }
  const Split* leave_sum_constants(SpecId spec) { return split(spec, &kernel::leave_sum_constants); }
  const Split* leave_max(SpecId spec) { return split(spec, &kernel::leave_max); }
  const Made* reduce_repeated(SpecId spec);

 private:
  /// An operation, its specs and slot, and the pattern of equal names.
  using Key = std::vector<uint32_t>;
  struct KeyHash {  // not noexcept, so that the map keeps hashes beside its keys
    size_t operator()(const Key& key) const;
  };
  /// Interned while the mutex is held.
  SpecId intern_alone(const kernel::KernelSpec& spec);
  template <class Make>
  const Made* remember(uint32_t operation, SpecId a, int slot, SpecId b, Names a_names, Names b_names,
                       Make make);

  [[nodiscard]] kernel::ComposeLimits limits() const { return {.mode = mode_}; }

  struct Entry {
    kernel::KernelSpec spec;
    std::atomic<double> operations = -1;  ///< below 0: not counted yet
  };
  /// Entries stay where they are while others come: who has a number may read its entry.
  using Chunk = std::array<Entry, 1024>;
  static constexpr size_t kMostChunks = 1 << 14;
  [[nodiscard]] Entry& entry(SpecId id) const {
    constexpr size_t kSize = std::tuple_size_v<Chunk>;
    return (*chunks_[id / kSize])[id % kSize];
  }

  MathMode mode_;
  std::mutex mutex_;                            ///< of all below
  std::vector<std::unique_ptr<Chunk>> chunks_;  ///< kMostChunks from the start: others read it meanwhile
  std::atomic<size_t> size_ = 0;
  std::unordered_map<kernel::KernelSpec, SpecId> ids_;
  std::unordered_map<Key, std::optional<Made>, KeyHash> made_;
  const Made* marked(SpecId spec, int slot);

  using SplitLaw = std::optional<kernel::Split> (*)(const kernel::KernelSpec&);
  const Split* split(SpecId spec, SplitLaw law);

  std::map<std::pair<SpecId, SplitLaw>, std::optional<Split>> splits_;
};

}  // namespace luminal::search
