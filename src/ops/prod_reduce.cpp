#include <algorithm>

#include "luminal/gradient.h"
#include "luminal/graph.h"
#include "luminal/ops.h"
#include "ops/reduction.h"

namespace luminal {
namespace {

/// Products of what stands before each element of the last axis; differentiable to any order.
GraphTensor products_before(const GraphTensor& x) {
  const int last = x.rank() - 1;
  return x.pad_along(last, 1, 0, 1).slice_along(last, 0, x.dim(last)).cumprod(last);
}

/// Product of all other elements along the last axis; dividing by the element would fail at zeros.
GraphTensor products_of_others(const GraphTensor& x) {
  const int last = x.rank() - 1;
  return products_before(x) * products_before(x.flip(last)).flip(last);
}

/// Kept axes first, reduced ones last and merged: then the rule works on one axis.
void product_gradient(Gradient& g) {
  const GraphTensor& x = g.input(0);
  const auto& axes = ops::reduced_axes(g.attributes());
  if (axes.empty()) return g.to(0, g.upstream());
  std::vector<int> order;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) order.push_back(axis);
  Shape rows;
  for (const int axis : order) rows.push_back(x.dim(axis));
  order.insert(order.end(), axes.begin(), axes.end());
  Expression size = 1;
  for (const int64_t axis : axes) size *= x.dim(static_cast<int>(axis));
  rows.push_back(size);

  const GraphTensor permuted = x.cast(accumulation_dtype(x.dtype())).permute(order);
  const GraphTensor others = products_of_others(permuted.reshape(rows)).reshape(permuted.dims());
  std::vector<int> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int>(i);
  g.to(0, (others.permute(back) * ops::spread(g.upstream(), axes, x.dims())).cast(x.dtype()));
}

}  // namespace

const OpDef kProdReduce = {
    .name = "prod_reduce",
    .arity = 1,
    .infer = ops::reduced_types("prod_reduce", Monoid::Mul),
    .monoid = Monoid::Mul,
    .gradient = product_gradient,
    .samples = {-ops::kInfinity, -2, -1, -0.0, 0, 0.5, 1, 3, 127, ops::kInfinity, ops::kNaN},
    .doc = "Product over the axes; f16 and bf16 accumulate in f32 or wider, integers wrap; 1 over nothing.",
};

}  // namespace luminal
