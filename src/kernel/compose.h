#pragma once
#include <optional>

#include "kernel/canonical.h"

namespace luminal::kernel {

/// Caps that keep composed kernels within what registers and caches can hold, and with that the time that
/// composing one takes: it grows with the operations and formulas of a spec. They are checked on both specs
/// and on how often the producer would be instantiated before anything is composed, and on the result.
/// How much a whole cone of compositions may compute anew is limited where fusion candidates grow (search/cover/fusion.h).
struct ComposeLimits {
  int slots = 12;
  int operations = 400;  ///< scalar operations in all bodies; an exponential is about twenty
  int exports = 4;
  double evaluations = 4;  ///< of the producer per element, at most, if it does more than a few operations
  /// Nodes of all index formulas and predicates of both specs together; a masked convolution has about 60.
  int64_t formulas = 400;
  /// What a producer that stands in several places comes to, in operations and formulas beyond their limits:
  /// equal parts become one only when all is composed.
  int repeats = 4;
  MathMode mode = MathMode::Relaxed;  ///< see canonical()
};

/// A composed spec. `slots[k]` tells where slot k of `spec` came from: consumer slot c as {false, c},
/// producer slot p as {true, p}.
struct Composed {
  struct From {
    bool producer = false;
    int slot = 0;
    friend bool operator==(const From&, const From&) = default;
  };
  KernelSpec spec;
  std::vector<From> slots;
};

/// The kernel that computes `consumer` with `producer`'s first output inlined where the consumer reads
/// `slot`. Defined when every producer coordinate is a function of axes bound at the place of use: an
/// elementwise producer (through any index map, a padded read becomes valid ? g(..) : fill), a reduction
/// indexed by outer axes (rows), a reduction indexed by a reduced or local axis (nested), an elementwise
/// consumer reading one to one (epilogue). Empty if it is not defined, breaks a limit, or a spec has nothing
/// to compute (an axis or tensor without elements). `arguments_consumer/producer` name the tensors behind the
/// slots, so that a tensor both read gets one slot.
[[nodiscard]] std::optional<Composed> compose(const KernelSpec& consumer, int slot,
                                              const KernelSpec& producer,
                                              std::span<const uint32_t> consumer_arguments = {},
                                              std::span<const uint32_t> producer_arguments = {},
                                              const ComposeLimits& limits = {});

/// As compose, and the producer's outputs are stored too (exports, the last outputs). `slots`: by output of the
/// producer, the slot that reads it, or -1. Defined where each element of the producer is computed exactly once.
[[nodiscard]] std::optional<Composed> compose_exporting(const KernelSpec& consumer,
                                                        std::span<const int> slots,
                                                        const KernelSpec& producer,
                                                        std::span<const uint32_t> consumer_arguments = {},
                                                        std::span<const uint32_t> producer_arguments = {},
                                                        const ComposeLimits& limits = {});

/// Two kernels over equal parallel axes as one with the outputs of both (a's first).
[[nodiscard]] std::optional<Composed> merge_siblings(const KernelSpec& a, const KernelSpec& b,
                                                     std::span<const uint32_t> a_arguments = {},
                                                     std::span<const uint32_t> b_arguments = {},
                                                     const ComposeLimits& limits = {});

}  // namespace luminal::kernel
