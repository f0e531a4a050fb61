#include "ops/composite/build.h"

// Cumulative sums, products and maxima along an axis of any size, known or not.
//
// Short axes: after the step of width d = 1, 2, 4 ... each element holds what the last 2d elements combine to
// (Hillis and Steele 1986). Axes whose size has no small bound are cut into blocks: each block is scanned so,
// what the blocks before it combine to comes from one reduction over a window of block totals.
namespace luminal {

using namespace composite;

namespace {

constexpr int64_t kBlock = 128;      // of an axis without a small bound
constexpr int64_t kMaxSteps = 4096;  // longest axis scanned without blocks if its size is symbolic

struct Monoid {
  const OpDef* reduction;
  Number neutral;
  GraphTensor (*combine)(const GraphTensor& later, const GraphTensor& earlier);
};

GraphTensor moved(const GraphTensor& x, int axis, const Expression& by, Number fill) {
  return x.pad_along(axis, by, 0, fill).slice_along(axis, 0, x.dim(axis));
}

GraphTensor scan_short(GraphTensor x, int axis, int64_t bound, const Monoid& monoid) {
  for (int64_t width = 1; width < bound; width *= 2)
    x = monoid.combine(x, moved(x, axis, width, monoid.neutral));
  return x;
}

/// What the elements before each one along `axis` combine to.
GraphTensor exclusive_by_windows(const GraphTensor& x, int axis, const Monoid& monoid) {
  const Expression size = x.dim(axis), window = size.max(1);
  const GraphTensor padded = x.pad_along(axis, window, 0, monoid.neutral);
  GraphTensor windows = padded.with_view(padded.view().pool(axis, window)).slice_along(axis, 0, size);
  // The latest of equal maxima stands first, as in `combine`.
  windows = windows.with_view(windows.view().flip(axis + 1));
  if (monoid.reduction == &kMaxReduce) return maximum_over(windows, {axis + 1}, false, Ties::First);
  return reduced(*monoid.reduction, windows, {axis + 1}, false);
}

GraphTensor scan_blocks(const GraphTensor& x, int axis, const Monoid& monoid) {
  const Expression size = x.dim(axis), padded_size = size.ceil_div(kBlock) * kBlock;
  const GraphTensor padded = x.pad_along(axis, 0, padded_size - size, monoid.neutral);
  const GraphTensor inside = scan_short(padded.split_dims(axis, kBlock), axis + 1, kBlock, monoid);
  const GraphTensor totals = inside.slice_along(axis + 1, kBlock - 1, kBlock).squeeze(axis + 1);
  const GraphTensor before = exclusive_by_windows(totals, axis, monoid).unsqueeze(axis + 1);
  return monoid.combine(inside, before).merge_dims(axis, axis + 1).slice_along(axis, 0, size);
}

GraphTensor scan(const GraphTensor& x, int axis, const Monoid& monoid) {
  const Expression& size = x.dim(axis);
  if (size.constant()) return scan_short(x, axis, *size.constant(), monoid);
  const int64_t bound = size.range().max;
  return bound <= kMaxSteps ? scan_short(x, axis, bound, monoid) : scan_blocks(x, axis, monoid);
}

GraphTensor plus(const GraphTensor& later, const GraphTensor& earlier) {
  return elementwise(kAdd, {later, earlier});
}
GraphTensor times(const GraphTensor& later, const GraphTensor& earlier) {
  return elementwise(kMul, {later, earlier});
}
/// Of equal values the later one gets the gradient, as in PyTorch.
GraphTensor greater(const GraphTensor& later, const GraphTensor& earlier) {
  return greater_of(later, earlier, Ties::First);
}

/// Sums and products accumulate: integers in i64, f16 and bf16 in f32.
GraphTensor accumulated(const GraphTensor& x, int axis, const Monoid& monoid) {
  if (!is_float(x.dtype())) return scan(x.cast(Dtype::I64), axis_of(x, axis), monoid);
  return scan(widened(x), axis_of(x, axis), monoid).cast(x.dtype());
}

}  // namespace

GraphTensor GraphTensor::cumsum(int axis, Where at) const {
  const CallSite site("cumsum", at);
  return accumulated(*this, axis, {&kSumReduce, 0, plus});
}

GraphTensor GraphTensor::cumprod(int axis, Where at) const {
  const CallSite site("cumprod", at);
  return accumulated(*this, axis, {&kProdReduce, 1, times});
}

GraphTensor GraphTensor::cummax(int axis, Where at) const {
  const CallSite site("cummax", at);
  if (dtype() == Dtype::Bool) return truth(cast(Dtype::U8).cummax(axis));
  return scan(*this, axis_of(*this, axis), {&kMaxReduce, least_value(dtype()), greater});
}

}  // namespace luminal
