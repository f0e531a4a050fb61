#pragma once
#include <array>
#include <cstdint>

#include "luminal/graph_tensor.h"
#include "ops/elementwise.h"

/// What the reductions share: accumulation loops from a monoid, and moving gradients back over reduced axes.
///
///   struct Sum {
///     template <class A> static constexpr A neutral() { return 0; }
///     template <class A> static constexpr A apply(A a, A b) { return add(a, b); }
///   };
///   .combine = combiners<Takes::Numbers, Sum, PreciseAccumulator>()
namespace luminal::ops {

/// Sums and products of floats accumulate in f64, so that the oracle's error is that of its last rounding.
template <class T>
using PreciseAccumulator = std::conditional_t<takes_type<T, Takes::Floats>(), double, T>;
/// Maxima are exact in the type that is compared.
template <class T>
using ExactAccumulator = Compute<T>;

template <class Monoid, class Value, class Acc>
struct Fold {
  static Acc widen(Value v) { return static_cast<Acc>(static_cast<Compute<Value>>(v)); }

  static void fill(void* accumulators, int64_t count) {
    auto* acc = static_cast<Acc*>(accumulators);
    for (int64_t i = 0; i < count; ++i) acc[i] = Monoid::template neutral<Acc>();
  }
  static void fold_each(void* accumulators, const void* values, int64_t count) {
    auto* __restrict acc = static_cast<Acc*>(accumulators);
    const auto* __restrict v = static_cast<const Value*>(values);
    for (int64_t i = 0; i < count; ++i) acc[i] = Monoid::apply(acc[i], widen(v[i]));
  }
  /// Several independent chains, so that neither the latency of one operation nor a single lane limits the
  /// loop; how values are grouped depends on the count alone, and so does the result.
  static void fold_all(void* accumulator, const void* values, int64_t count) {
    constexpr int64_t kLanes = 16;
    auto& total = *static_cast<Acc*>(accumulator);
    const auto* v = static_cast<const Value*>(values);
    int64_t i = 0;
    if (count >= 2 * kLanes) {
      std::array<Acc, kLanes> lanes;
      for (int64_t k = 0; k < kLanes; ++k) lanes[static_cast<size_t>(k)] = widen(v[k]);
      for (i = kLanes; i + kLanes <= count; i += kLanes)
        for (int64_t k = 0; k < kLanes; ++k) {
          Acc& lane = lanes[static_cast<size_t>(k)];
          lane = Monoid::apply(lane, widen(v[i + k]));
        }
      for (const Acc lane : lanes) total = Monoid::apply(total, lane);
    }
    for (; i < count; ++i) total = Monoid::apply(total, widen(v[i]));
  }
  static void finish(const void* accumulators, void* values, int64_t count) {
    const auto* acc = static_cast<const Acc*>(accumulators);
    auto* v = static_cast<Value*>(values);
    for (int64_t i = 0; i < count; ++i) v[i] = static_cast<Value>(acc[i]);
  }
};

template <Takes set, class Monoid, template <class> class Accumulator>
Combiners combiners() {
  return [](Dtype dtype) -> Combiner {
    if (!takes(set, dtype)) return {};
    return visit_dtype(dtype, []<class T>(T) -> Combiner {
      if constexpr (takes_type<T, set>()) {
        using Acc = Accumulator<T>;
        using Loops = Fold<Monoid, T, Acc>;
        return {dtype_of<Acc>(), &Loops::fill, &Loops::fold_each, &Loops::fold_all, &Loops::finish};
      } else {
        return {};
      }
    });
  };
}

[[nodiscard]] inline const std::vector<int64_t>& reduced_axes(const Attributes& attributes) {
  return attributes.get<std::vector<int64_t>>("axes");
}

/// A reduced tensor broadcast back to the dims it came from.
[[nodiscard]] GraphTensor spread(GraphTensor reduced, const std::vector<int64_t>& axes, const Shape& dims);

}  // namespace luminal::ops
