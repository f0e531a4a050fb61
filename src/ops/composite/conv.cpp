#include "ops/composite/build.h"

// Convolution and pooling: the input padded and seen through windows (views), then a multiply and a sum, or a
// maximum, over the windows. No patch is ever copied.
namespace luminal {

using namespace composite;

namespace {

using Pair = std::array<int64_t, 2>;

void check_geometry(const Pair& kernel, const Pair& stride, const Pair& padding, const Pair& dilation) {
  for (size_t i = 0; i < 2; ++i) {
    if (kernel[i] < 1) reject("the kernel is {} x {}; give sizes above 0", kernel[0], kernel[1]);
    if (stride[i] < 1) reject("the stride is {} x {}; give steps above 0", stride[0], stride[1]);
    if (padding[i] < 0) reject("the padding is {} x {}; give at least 0", padding[0], padding[1]);
    if (dilation[i] < 1) reject("the dilation is {} x {}; give at least 1", dilation[0], dilation[1]);
  }
}

/// [N, C, H, W] as windows [N, C, OH, OW, KH, KW].
GraphTensor windows(const GraphTensor& x, const std::array<Expression, 2>& kernel, const Pair& stride,
                    const Pair& padding, const Pair& dilation, Number fill) {
  const GraphTensor padded =
      x.pad({{0, 0}, {0, 0}, {padding[0], padding[0]}, {padding[1], padding[1]}}, fill);
  for (int i = 0; i < 2; ++i) {
    const auto k = static_cast<size_t>(i);
    const Expression reach = (kernel[k] - 1) * dilation[k] + 1;
    if (Expression::known_less(padded.dim(2 + i), reach))
      reject("a window of {} (kernel {}, dilation {}) does not fit in the {} of {} with padding {}; pad more",
             reach.to_string(), kernel[k].to_string(), dilation[k], padded.dim(2 + i).to_string(),
             x.type().to_string(), padding[k]);
  }
  const ShapeTracker view =
      padded.view().pool(3, kernel[1], stride[1], dilation[1]).pool(2, kernel[0], stride[0], dilation[0]);
  return padded.with_view(view.permute({0, 1, 2, 4, 3, 5}));
}

/// Images with a batch axis; `added` tells that it was missing.
GraphTensor batched(const GraphTensor& x, bool& added) {
  added = x.rank() == 3;
  if (x.rank() != 4 && !added)
    reject("x is {}; give [batch, channels, height, width] or [channels, height, width]",
           x.type().to_string());
  return added ? x.unsqueeze(0) : x;
}

void check_channels(const GraphTensor& x, const GraphTensor& weight, int64_t groups) {
  if (weight.rank() != 4)
    reject("weight is {}; give [out channels, channels / groups, kernel height, kernel width]",
           weight.type().to_string());
  if (groups < 1) reject("groups is {}; give a number above 0", groups);
  const auto out = weight.dim(0).constant();
  if (out && *out % groups != 0)
    reject("weight {} has {} output channels, which {} groups do not divide; choose groups that do",
           weight.type().to_string(), *out, groups);
  const Expression wanted = weight.dim(1) * groups;
  if (!Expression::known_equal(x.dim(1), wanted))
    reject("x {} has {} channels and weight {} wants {} ({} x {} groups); weight must be [out, {}, kh, kw]",
           x.type().to_string(), x.dim(1).to_string(), weight.type().to_string(), wanted.to_string(),
           weight.dim(1).to_string(), groups, (x.dim(1) / groups).to_string());
}

}  // namespace

GraphTensor conv2d(const GraphTensor& x, const GraphTensor& weight, const Conv2dOptions& options, Where at) {
  const CallSite site("conv2d", at);
  const auto [images, filters] = promoted(Operand(x), Operand(weight), Promotion::Arithmetic);
  bool added = false;
  const GraphTensor input = batched(images, added);
  check_channels(input, filters, options.groups);
  check_geometry({1, 1}, options.stride, options.padding, options.dilation);
  const GraphTensor seen =
      windows(input, {filters.dim(2), filters.dim(3)}, options.stride, options.padding, options.dilation, 0);
  GraphTensor result;
  if (options.groups == 1) {
    const GraphTensor patches =
        seen.unsqueeze(1).permute({0, 1, 3, 4, 2, 5, 6});        // [N, 1, OH, OW, C, KH, KW]
    const GraphTensor taps = filters.unsqueeze(1).unsqueeze(1);  // [O, 1, 1, C, KH, KW]
    result = product_sum(patches, taps, {4, 5, 6});
  } else {
    const GraphTensor patches = seen.split_dims(1, filters.dim(1))  // [N, G, 1, OH, OW, C/G, KH, KW]
                                    .unsqueeze(2)
                                    .permute({0, 1, 2, 4, 5, 3, 6, 7});
    const GraphTensor taps =
        filters
            .split_dims(0, filters.dim(0) / options.groups)  // [G, O/G, 1, 1, C/G, KH, KW]
            .unsqueeze(2)
            .unsqueeze(2);
    result = product_sum(patches, taps, {5, 6, 7}).merge_dims(1, 2);
  }
  return added ? result.squeeze(0) : result;
}

namespace {

struct PoolGeometry {
  Pair stride;
  GraphTensor seen;
  bool added;
};

/// Windows of an image for pooling. Errors: ShapeError as PyTorch's, where a window could lie in the padding
/// whole.
PoolGeometry pool_windows(const GraphTensor& x, const Pool2dOptions& options, Number fill) {
  PoolGeometry result{options.stride, {}, false};
  for (size_t i = 0; i < 2; ++i)
    if (result.stride[i] == 0) result.stride[i] = options.kernel[i];
  const GraphTensor images = batched(x, result.added);
  check_geometry(options.kernel, result.stride, options.padding, options.dilation);
  for (size_t i = 0; i < 2; ++i)
    if (options.padding[i] * 2 > options.kernel[i])
      reject("the padding {} is more than half the kernel {}, so a window could hold padding only; pad less",
             options.padding[i], options.kernel[i]);
  result.seen = windows(images, {options.kernel[0], options.kernel[1]}, result.stride, options.padding,
                        options.dilation, fill);
  return result;
}

}  // namespace

GraphTensor max_pool2d(const GraphTensor& x, const Pool2dOptions& options, Where at) {
  const CallSite site("max_pool2d", at);
  const GraphTensor values = numeric(x);
  const PoolGeometry geometry = pool_windows(values, options, least_value(values.dtype()));
  const GraphTensor result = maximum_over(geometry.seen, {4, 5}, false, Ties::First);
  return geometry.added ? result.squeeze(0) : result;
}

GraphTensor avg_pool2d(const GraphTensor& x, const Pool2dOptions& options, Where at) {
  const CallSite site("avg_pool2d", at);
  const PoolGeometry geometry = pool_windows(widened(x), options, 0);
  const GraphTensor result =
      (reduced(kSumReduce, geometry.seen, {4, 5}, false) / (options.kernel[0] * options.kernel[1]))
          .cast(floating_dtype(x.dtype()));
  return geometry.added ? result.squeeze(0) : result;
}

}  // namespace luminal
