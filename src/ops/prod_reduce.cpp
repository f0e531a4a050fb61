#include <algorithm>

#include "luminal/gradient.h"
#include "luminal/graph.h"
#include "luminal/ops.h"
#include "ops/reduction.h"

namespace luminal {
namespace {

struct Product {
  template <class A>
  static constexpr A neutral() {
    return 1;
  }
  template <class A>
  static constexpr A apply(A a, A b) {
    return ops::multiply(a, b);
  }
};

/// Element i of the last axis becomes the product of those before it (behind it, if `reversed`), by doubling:
/// log2(size) shifted multiplications, which differentiate to any order.
GraphTensor products_beside(const GraphTensor& x, int64_t size, bool reversed) {
  const auto shifted = [&](const GraphTensor& t, int64_t by) {
    const int last = t.rank() - 1;
    return reversed ? t.slice_along(last, by, size).pad_along(last, 0, by, 1)
                    : t.slice_along(last, 0, size - by).pad_along(last, by, 0, 1);
  };
  GraphTensor products = shifted(x, 1);
  for (int64_t width = 1; width < size; width *= 2) products = products * shifted(products, width);
  return products;
}

/// Product of all other elements along the last axis; dividing by the element would fail at zeros.
GraphTensor products_of_others(const GraphTensor& x) {
  const int last = x.rank() - 1;
  const Expression size = x.dim(last);
  if (const auto known = size.constant()) {
    if (*known <= 1) return x.graph().ones(x.dims(), x.dtype());
    return products_beside(x, *known, false) * products_beside(x, *known, true);
  }
  // A size that is known at run time only: all pairs, the element itself replaced by 1.
  Shape pairs = x.dims();
  pairs.push_back(size);
  const GraphTensor itself = x.graph().eye(size, Dtype::Bool).expand(pairs);
  return where(itself, 1, x.expand_dim(last, size)).prod(last + 1);
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

  const GraphTensor permuted = x.permute(order);
  const GraphTensor others = products_of_others(permuted.reshape(rows)).reshape(permuted.dims());
  std::vector<int> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int>(i);
  g.to(0, others.permute(back) * ops::spread(g.upstream(), axes, x.dims()));
}

}  // namespace

const OpDef kProdReduce = {
    .name = "prod_reduce",
    .arity = 1,
    .traits = Trait::Reduction,
    .infer = ops::reduced_types("prod_reduce", ops::Takes::Numbers),
    .combine = ops::combiners<ops::Takes::Numbers, Product, ops::PreciseAccumulator>(),
    .gradient = product_gradient,
    .samples = {-ops::kInfinity, -2, -1, -0.0, 0, 0.5, 1, 3, 127, ops::kInfinity, ops::kNaN},
    .doc = "Product over the axes; f16 and bf16 accumulate in f32 or wider, integers wrap; 1 over nothing.",
};

}  // namespace luminal
