#include "scalar/monoid.h"

#include <array>

#include "base/fail.h"
#include "scalar/element.h"
#include "scalar/typing.h"

namespace luminal {
namespace {

template <Monoid>
struct Operation;
template <>
struct Operation<Monoid::Add> : element::Add {};
template <>
struct Operation<Monoid::Mul> : element::Mul {};
template <>
struct Operation<Monoid::Max> : element::Maximum {};
template <>
struct Operation<Monoid::Min> : element::Minimum {};

template <Monoid monoid, class Value>
struct Fold {
  using Comparable = std::conditional_t<is_stored_float<Value>, float, Value>;
  using Acc = std::conditional_t<is_float(dtype_of<Value>()) && !info(monoid).selects, double, Comparable>;

  static Acc widen(Value v) { return static_cast<Acc>(static_cast<Comparable>(v)); }

  static void fill(void* accumulators, int64_t count) {
    auto* acc = static_cast<Acc*>(accumulators);
    const Acc neutral = neutral_element(monoid, dtype_of<Acc>()).template as<Acc>();
    for (int64_t i = 0; i < count; ++i) acc[i] = neutral;
  }
  static void fold_each(void* accumulators, const void* values, int64_t count) {
    auto* __restrict acc = static_cast<Acc*>(accumulators);
    const auto* __restrict v = static_cast<const Value*>(values);
    for (int64_t i = 0; i < count; ++i) acc[i] = Operation<monoid>::apply(acc[i], widen(v[i]));
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
          lane = Operation<monoid>::apply(lane, widen(v[i + k]));
        }
      for (const Acc lane : lanes) total = Operation<monoid>::apply(total, lane);
    }
    for (; i < count; ++i) total = Operation<monoid>::apply(total, widen(v[i]));
  }
  static void finish(const void* accumulators, void* values, int64_t count) {
    const auto* acc = static_cast<const Acc*>(accumulators);
    auto* v = static_cast<Value*>(values);
    for (int64_t i = 0; i < count; ++i) v[i] = static_cast<Value>(acc[i]);
  }
};

template <Monoid monoid>
FoldLoops loops_of(Dtype dtype) {
  return visit_dtype(dtype, []<class T>(T) -> FoldLoops {
    if constexpr (folds(monoid, dtype_of<T>())) {
      using Loops = Fold<monoid, T>;
      return {dtype_of<typename Loops::Acc>(), &Loops::fill, &Loops::fold_each, &Loops::fold_all,
              &Loops::finish};
    } else {
      return {};
    }
  });
}

}  // namespace

Number neutral_element(Monoid monoid, Dtype dtype) {
  const double neutral = info(monoid).neutral;
  if (std::isfinite(neutral)) return static_cast<int64_t>(neutral);
  if (is_float(dtype)) return neutral;
  return neutral < 0 ? info(dtype).least : info(dtype).greatest;
}

uint64_t neutral_bits(Monoid monoid, Dtype dtype) { return bits_of(dtype, neutral_element(monoid, dtype)); }

FoldLoops fold_loops(Monoid monoid, Dtype dtype) {
  LUMINAL_CHECK(folds(monoid, dtype), "{} of {}", name(monoid), name(dtype));
  switch (monoid) {
    case Monoid::Add:
      return loops_of<Monoid::Add>(dtype);
    case Monoid::Mul:
      return loops_of<Monoid::Mul>(dtype);
    case Monoid::Max:
      return loops_of<Monoid::Max>(dtype);
    case Monoid::Min:
      return loops_of<Monoid::Min>(dtype);
  }
  return {};
}

}  // namespace luminal
