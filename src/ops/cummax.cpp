#include <array>
#include <limits>

#include "luminal/gradient.h"
#include "luminal/graph.h"
#include "luminal/ops.h"
#include "ops/cumulative.h"

namespace luminal {
namespace {

template <class T>
struct Maxima {
  using State = ops::Compute<T>;
  static constexpr size_t kInputs = 1;

  static State start() {
    if constexpr (std::numeric_limits<State>::has_infinity)
      return -std::numeric_limits<State>::infinity();
    else
      return std::numeric_limits<State>::lowest();
  }
  static State step(State greatest, const T* const* in, int64_t at) {
    return ops::maximum(greatest, ops::widened_element(in[0][at]));
  }
  static State join(State before, State after) { return ops::maximum(before, after); }
};

/// What is sent to a maximum goes to the latest element that is equal to it, as in PyTorch; NaN is one of its own.
void cummax_gradient(Gradient& g) {
  const ops::Walkway way = ops::Walkway::of(g.attributes());
  const GraphTensor& x = g.input(0);
  GraphTensor place = x.graph().arange(x.dim(way.axis));
  for (int axis = way.axis + 1; axis < x.rank(); ++axis) place = place.unsqueeze(axis - way.axis);
  if (way.reverse) place = -place;
  const GraphTensor or_none = x.eq(g.output()).where(place, std::numeric_limits<int64_t>::min());
  const GraphTensor latest = way.walk(kCummax, std::array{x.isnan().where(place, or_none)});
  const Dtype wide = accumulation_dtype(x.dtype());
  const GraphTensor zeros = x.graph().full(x.dims(), 0, wide), to = way.reverse ? -latest : latest;
  g.to(0, zeros.scatter_add(way.axis, to, g.upstream().cast(wide)).cast(x.dtype()));
}

}  // namespace

const OpDef kCummax = {
    .name = "cummax",
    .arity = 1,
    .traits = Trait::Overwrites,
    .infer = ops::cumulative_types("cummax", 1),
    .evaluate = ops::walk_along_axis<Maxima>,
    .gradient = cummax_gradient,
    .variants = ops::cumulative_variants(),
    .doc =
        "Greatest of each element and all before it along an axis, or all behind it (reverse); NaN from the "
        "first NaN on.",
};

}  // namespace luminal
