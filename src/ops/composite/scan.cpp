#include <algorithm>

#include "ops/composite/build.h"

// Cumulative sums have an op of their own. Products and maxima along an axis of any size, known or not, in O(n):
//
// Short axes: after the step of width d = 1, 2, 4 ... each element holds what the last 2d elements combine to
// (Hillis and Steele 1986). Longer ones are cut into blocks: each block is scanned so, the totals of the
// blocks are scanned in the same way (Blelloch 1990), and each block takes what stands before it. An axis
// whose size has no bound takes as many levels as the longest axis would.
namespace luminal {

using namespace composite;

namespace {

constexpr int64_t kBlock = 128;
constexpr int64_t kLongestAxis = int64_t{1} << 35;  // elements; more do not fit in any memory

/// A monoid over tensors.
struct Scan {
  Monoid monoid;
  GraphTensor (*combine)(const GraphTensor& later, const GraphTensor& earlier);
};

GraphTensor moved(const GraphTensor& x, int axis, const Expression& by, Number fill) {
  return x.pad_along(axis, by, 0, fill).slice_along(axis, 0, x.dim(axis));
}

GraphTensor scan_short(GraphTensor x, int axis, int64_t bound, const Scan& by) {
  for (int64_t width = 1; width < bound; width *= 2)
    x = by.combine(x, moved(x, axis, width, neutral_element(by.monoid, x.dtype())));
  return x;
}

GraphTensor scan(const GraphTensor& x, int axis, int64_t bound, const Scan& by) {
  if (bound <= 2 * kBlock) return scan_short(x, axis, bound, by);
  const Expression size = x.dim(axis), blocks = size.ceil_div(kBlock);
  const Number neutral = neutral_element(by.monoid, x.dtype());
  const GraphTensor padded = x.pad_along(axis, 0, blocks * kBlock - size, neutral);
  const GraphTensor inside = scan_short(padded.split_dims(axis, kBlock), axis + 1, kBlock, by);
  const GraphTensor totals = inside.slice_along(axis + 1, kBlock - 1, kBlock).squeeze(axis + 1);
  const GraphTensor up_to = scan(totals, axis, (bound + kBlock - 1) / kBlock, by);
  const GraphTensor before = moved(up_to, axis, 1, neutral).unsqueeze(axis + 1);
  return by.combine(inside, before).merge_dims(axis, axis + 1).slice_along(axis, 0, size);
}

GraphTensor scan(const GraphTensor& x, int axis, const Scan& by) {
  return scan(x, axis, std::min(x.dim(axis).range().max, kLongestAxis), by);
}

GraphTensor times(const GraphTensor& later, const GraphTensor& earlier) {
  return elementwise(kMul, {later, earlier});
}
/// Of equal values the later one gets the gradient, as in PyTorch.
GraphTensor greater(const GraphTensor& later, const GraphTensor& earlier) {
  return greater_of(later, earlier, Ties::First);
}

constexpr Scan kProducts{Monoid::Mul, times}, kMaxima{Monoid::Max, greater};

/// `x` with 1 or -1 in place of every number that stands behind an infinity; zeros and NaN stay. A scan
/// multiplies stretches of a row, and one of finite elements may underflow: times an infinity before it, that
/// would be NaN.
GraphTensor signs_behind_infinity(const GraphTensor& x, int axis) {
  const GraphTensor place = negated(positions(x, axis));
  const GraphTensor candidates =
      select(x.isinf(), place, scalar(place, neutral_element(Monoid::Max, place.dtype())));
  const GraphTensor first = maximum_over(candidates, {axis}, true, Ties::First);
  const GraphTensor signs = select(not_nan(x), x.sign(), x).stop_gradient();
  return select(less(place, first), signs, x);
}

/// What the products of `dtype` are computed in: f32 in f64, as in PyTorch, so that 1e30 * 1e30 * 1e-30 is
/// not infinite.
Dtype product_dtype(Dtype dtype) { return dtype == Dtype::F32 ? Dtype::F64 : accumulation_dtype(dtype); }

}  // namespace

GraphTensor GraphTensor::cumsum(int axis, Where at) const {
  const CallSite site("cumsum", at);
  const GraphTensor x = is_float(dtype()) ? *this : cast(Dtype::I64);
  return apply(kCumsum, {x}, {{"axis", int64_t{axis_of(*this, axis)}}, {"reverse", false}});
}

GraphTensor GraphTensor::cumprod(int axis, Where at) const {
  const CallSite site("cumprod", at);
  if (!is_float(dtype())) return scan(cast(Dtype::I64), axis_of(*this, axis), kProducts);
  const int along = axis_of(*this, axis);
  const GraphTensor x = signs_behind_infinity(*this, along).cast(product_dtype(dtype()));
  return scan(x, along, kProducts).cast(dtype());
}

GraphTensor GraphTensor::cummax(int axis, Where at) const {
  const CallSite site("cummax", at);
  if (dtype() == Dtype::Bool) return truth(cast(Dtype::U8).cummax(axis));
  return scan(*this, axis_of(*this, axis), kMaxima);
}

}  // namespace luminal
