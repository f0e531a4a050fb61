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

/// Winners are numbered from the end of the tensor, so that the first in row-major order has the greatest
/// number; the others have 0.
void first_max_reduce_gradient(Gradient& g) {
  const auto& axes = ops::reduced_axes(g.attributes());
  const GraphTensor& x = g.input(0);
  const GraphTensor less = x.lt(ops::spread(g.output(), axes, x.dims()));
  const Expression from_end = element_count(x.dims()) - Expression::flat_index();
  const GraphTensor rank = where(less, 0, x.graph().iota(from_end, x.dims()));
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
