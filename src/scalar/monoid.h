#pragma once
#include <cstdint>

#include "luminal/monoid.h"

namespace luminal {

[[nodiscard]] uint64_t neutral_bits(Monoid monoid, Dtype dtype);

/// A monoid over arrays of one dtype. Accumulators are arrays of `accumulator` dtype: sums and products of
/// floats are folded in f64, so that their error is that of the last rounding; what selects is exact in the
/// type that is compared.
struct FoldLoops {
  Dtype accumulator = Dtype::F32;
  void (*fill)(void* accumulators, int64_t count) = nullptr;  ///< neutral elements
  /// acc[i] = acc[i] op v[i]
  void (*fold_each)(void* accumulators, const void* values, int64_t count) = nullptr;
  /// acc = acc op v[0] op v[1] ...
  void (*fold_all)(void* accumulator, const void* values, int64_t count) = nullptr;
  void (*finish)(const void* accumulators, void* values, int64_t count) = nullptr;  ///< to the values' dtype
};
/// Of a dtype that the monoid folds.
[[nodiscard]] FoldLoops fold_loops(Monoid monoid, Dtype dtype);

}  // namespace luminal
