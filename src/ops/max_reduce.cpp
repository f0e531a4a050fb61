#include <algorithm>
#include <limits>

#include "luminal/gradient.h"
#include "luminal/graph.h"
#include "luminal/ops.h"
#include "ops/reduction.h"
#include "ops/ties.h"

namespace luminal {
namespace {

/// Everything that is not less than the maximum shares equally (with a NaN, that is every element).
void split_max_reduce_gradient(Gradient& g) {
  const auto& axes = ops::reduced_axes(g.attributes());
  const GraphTensor& x = g.input(0);
  const GraphTensor less = x.lt(ops::spread(g.output(), axes, x.dims()));
  const GraphTensor winners =
      less.logical_not().cast(x.dtype()).sum(std::vector<int>(axes.begin(), axes.end()));
  g.to(0, where(less, 0, ops::spread(g.upstream() / winners, axes, x.dims())));
}

/// Elements of a row are numbered from its end, so that the first of several winners has the greatest number; the others
/// have 0. In 32 bits wherever a row has no more elements: twice as many fit into a vector.
void first_max_reduce_gradient(Gradient& g) {
  const auto& axes = ops::reduced_axes(g.attributes());
  const GraphTensor& x = g.input(0);
  Shape row;
  std::vector<int64_t> kept;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (std::ranges::find(axes, axis) != axes.end())
      row.push_back(x.dim(axis));
    else
      kept.push_back(axis);
  const Expression length = element_count(row);
  const Dtype numbers = length.range().max <= std::numeric_limits<int32_t>::max() ? Dtype::I32 : Dtype::I64;
  const GraphTensor from_end = x.graph().iota(length - Expression::flat_index(), row, numbers);
  const GraphTensor less = x.lt(ops::spread(g.output(), axes, x.dims()));
  const GraphTensor rank = where(less, 0, ops::spread(from_end, kept, x.dims()));
  const GraphTensor first = rank.max(std::vector<int>(axes.begin(), axes.end()));
  g.to(0, where(rank.lt(ops::spread(first, axes, x.dims())), 0, ops::spread(g.upstream(), axes, x.dims())));
}

}  // namespace

const OpDef kMaxReduce = {
    .name = "max_reduce",
    .arity = 1,
    .traits = Trait::Monotone,
    .infer = ops::with_ties("max_reduce", ops::reduced_types("max_reduce", Monoid::Max)),
    .monoid = Monoid::Max,
    .gradient =
        [](Gradient& g) {
          ops::splits_ties(g.attributes()) ? split_max_reduce_gradient(g) : first_max_reduce_gradient(g);
        },
    .samples = {-ops::kInfinity, -128, -1, -0.0, 0, 0.5, 1, 127, ops::kInfinity, ops::kNaN},
    .variants = {{{"ties", std::string("split")}}, {{"ties", std::string("first")}}},
    .doc =
        "Greatest element over the axes, NaN if any is NaN; minus infinity (the least integer, false) over "
        "nothing.",
};

}  // namespace luminal
