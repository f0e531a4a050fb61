#include <cmath>

#include "ops/composite/build.h"

// Reductions. Sums and products of integers and bool are i64, as in PyTorch.
namespace luminal {

using namespace composite;

namespace {

GraphTensor as_summable(const GraphTensor& x) { return is_float(x.dtype()) ? x : x.cast(Dtype::I64); }

/// The mean of floats: the sum by the count, which may be a formula.
GraphTensor mean_over(const GraphTensor& x, const std::vector<int>& axes, bool keepdims) {
  return reduced(kSumReduce, x, axes, keepdims) / extent_of(x, axes);
}

/// x less the first element along the axes, which the mean of its deviations does not depend on: of a row of one number,
/// however great, nothing is left, and numbers far from 0 lose no digits.
/// Source: Chan, Golub, LeVeque, "Algorithms for computing the sample variance", 1983 (shifted data).
GraphTensor shifted(const GraphTensor& x, const std::vector<int>& axes) {
  GraphTensor first = x;
  for (const int axis : axes) {
    const auto size = x.dim(axis).constant();
    if (size == 0) return x;
    // A named size may be 0: an axis has an element then all the same.
    first = (size ? first : first.pad_along(axis, 0, 1)).slice_along(axis, 0, 1);
  }
  return x - first.stop_gradient();
}

}  // namespace

GraphTensor GraphTensor::sum(Axes axes, bool keepdims, Where at) const {
  const CallSite site("sum", at);
  return reduced(kSumReduce, as_summable(*this), axes.resolve(rank(), label()), keepdims);
}

GraphTensor GraphTensor::prod(Axes axes, bool keepdims, Where at) const {
  const CallSite site("prod", at);
  return reduced(kProdReduce, as_summable(*this), axes.resolve(rank(), label()), keepdims);
}

GraphTensor GraphTensor::mean(Axes axes, bool keepdims, Where at) const {
  const CallSite site("mean", at);
  const std::vector<int> over = axes.resolve(rank(), label());
  if (!is_float(dtype()))  // exact up to the division
    return reduced(kSumReduce, as_summable(*this), over, keepdims) / extent_of(*this, over);
  return mean_over(widened(*this), over, keepdims)
      .cast(dtype());  // a sum of f16 may pass 65504, its mean not
}

GraphTensor GraphTensor::max(Axes axes, bool keepdims, Ties ties, Where at) const {
  const CallSite site("max", at);
  if (dtype() == Dtype::Bool) return any(std::move(axes), keepdims);
  return maximum_over(*this, axes.resolve(rank(), label()), keepdims, ties);
}

GraphTensor GraphTensor::min(Axes axes, bool keepdims, Ties ties, Where at) const {
  const CallSite site("min", at);
  if (dtype() == Dtype::Bool) return all(std::move(axes), keepdims);
  return reversed(maximum_over(reversed(*this), axes.resolve(rank(), label()), keepdims, ties));
}

GraphTensor GraphTensor::any(Axes axes, bool keepdims, Where at) const {
  const CallSite site("any", at);
  const GraphTensor bits =
      truth(*this).cast(Dtype::U8);  // of which the least, 0, is the maximum over nothing
  return truth(maximum_over(bits, axes.resolve(rank(), label()), keepdims, Ties::First));
}

GraphTensor GraphTensor::all(Axes axes, bool keepdims, Where at) const {
  const CallSite site("all", at);
  return inverted(inverted(truth(*this)).any(std::move(axes), keepdims));
}

GraphTensor GraphTensor::var(Axes axes, bool keepdims, int correction, Where at) const {
  const CallSite site("var", at);
  const std::vector<int> over = axes.resolve(rank(), label());
  const GraphTensor x = shifted(widened(*this), over);
  const GraphTensor squares = (x - mean_over(x, over, true)).square();
  const Expression degrees = (extent_of(x, over) - correction).max(0);
  return (reduced(kSumReduce, squares, over, keepdims) / degrees).cast(floating_dtype(dtype()));
}

GraphTensor GraphTensor::std(Axes axes, bool keepdims, int correction, Where at) const {
  const CallSite site("std", at);
  return widened(*this).var(std::move(axes), keepdims, correction).sqrt().cast(floating_dtype(dtype()));
}

GraphTensor GraphTensor::logsumexp(Axes axes, bool keepdims, Where at) const {
  const CallSite site("logsumexp", at);
  const std::vector<int> over = axes.resolve(rank(), label());
  const GraphTensor x = widened(*this);
  // An infinite maximum would make inf - inf; 0 does as well there. The sum is 0 only if every x is minus
  // infinity, and at least 1 otherwise: the 1 put in for it keeps the gradient of such a row finite.
  const GraphTensor top = maximum_over(x, over, true, Ties::First).stop_gradient();
  const GraphTensor base = select(top.isfinite(), top, scalar(top, 0));
  const GraphTensor total = reduced(kSumReduce, (x - base).exp(), over, true);
  const GraphTensor empty = less(total, std::numeric_limits<float>::min());
  GraphTensor result = select(empty, scalar(x, -HUGE_VAL), select(empty, scalar(x, 1), total).log() + base);
  if (!keepdims)
    for (auto axis = over.rbegin(); axis != over.rend(); ++axis) result = result.squeeze(*axis);
  return result.cast(floating_dtype(dtype()));
}

namespace {

/// The p-norm for finite p other than 0.
GraphTensor power_norm(const GraphTensor& x, double p, const std::vector<int>& axes, bool keepdims) {
  if (p == 1) return reduced(kSumReduce, x.abs(), axes, keepdims);
  const GraphTensor total = reduced(kSumReduce, p == 2 ? x.square() : x.abs().pow(p), axes, keepdims);
  // The root has an infinite slope at 0, where PyTorch's gradient is 0: that branch takes no part.
  const GraphTensor zero = total.eq(0);
  const GraphTensor safe = select(zero, scalar(total, 1), total);
  return select(zero, scalar(total, p > 0 ? 0 : HUGE_VAL), p == 2 ? safe.sqrt() : safe.pow(1 / p));
}

}  // namespace

GraphTensor GraphTensor::norm(double p, Axes axes, bool keepdims, Where at) const {
  const CallSite site("norm", at);
  const std::vector<int> over = axes.resolve(rank(), label());
  if (std::isnan(p))
    reject<Error>("p is nan; give a number, or an infinity for the greatest (least) magnitude");
  const GraphTensor x = widened(*this);
  const auto compute = [&] {
    if (p == HUGE_VAL) return maximum_over(x.abs(), over, keepdims, Ties::Split);
    if (p == -HUGE_VAL) return reversed(maximum_over(reversed(x.abs()), over, keepdims, Ties::Split));
    if (p == 0) return reduced(kSumReduce, x.ne(0).cast(x.dtype()), over, keepdims);
    return power_norm(x, p, over, keepdims);
  };
  return compute().cast(floating_dtype(dtype()));
}

namespace {

/// The first place of the greatest value along `axis`; NaN counts as greatest.
GraphTensor first_greatest(const GraphTensor& x, int axis, bool keepdims) {
  if (x.dim(axis) == Expression(0))
    reject("axis {} of {} has no elements, so none is the greatest; give an axis of size 1 or more", axis,
           x.type().to_string());
  const GraphTensor top = maximum_over(x, {axis}, true, Ties::First);
  GraphTensor found = inverted(less(x, top));
  if (is_float(x.dtype())) found = both(found, inverted(both(not_nan(x), inverted(not_nan(top)))));
  // Places counted from the end, so that the greatest is the first.
  const Expression last = x.dim(axis) - 1;
  const GraphTensor place = negated(positions(x, axis)) + last;
  return negated(maximum_over(select(found, place, scalar(place, -1)), {axis}, keepdims, Ties::First)) + last;
}

}  // namespace

GraphTensor GraphTensor::argmax(int axis, bool keepdims, Where at) const {
  const CallSite site("argmax", at);
  const GraphTensor x = dtype() == Dtype::Bool ? cast(Dtype::U8) : *this;
  return first_greatest(x, axis_of(x, axis), keepdims);
}

GraphTensor GraphTensor::argmin(int axis, bool keepdims, Where at) const {
  const CallSite site("argmin", at);
  const GraphTensor x = dtype() == Dtype::Bool ? cast(Dtype::U8) : *this;
  return first_greatest(reversed(x), axis_of(x, axis), keepdims);
}

}  // namespace luminal
