#include <algorithm>

#include "ops/composite/window.h"

// Convolution over any number of spatial axes: the input padded and seen through windows (views), then a
// multiply and a sum. Transposed convolution is, for each phase of the output, a convolution with every
// stride-th tap: no zeros are put between the elements and none are read.
namespace luminal {

using namespace composite;

namespace {

constexpr const char* kKernel[] = {"", "kernel", "kh, kw", "kd, kh, kw"};

/// The axes first .. first + count - 1.
std::vector<int> axes_from(size_t first, size_t count) {
  std::vector<int> axes(count);
  for (size_t i = 0; i < count; ++i) axes[i] = static_cast<int>(first + i);
  return axes;
}

void append(std::vector<int>& order, const std::vector<int>& axes) {
  order.insert(order.end(), axes.begin(), axes.end());
}

GraphTensor with_units(GraphTensor x, int axis, size_t count) {
  for (size_t i = 0; i < count; ++i) x = x.unsqueeze(axis);
  return x;
}

void check_channels(const GraphTensor& x, const GraphTensor& weight, size_t axes, int64_t groups) {
  if (weight.rank() != static_cast<int>(axes) + 2)
    reject("weight is {}; give [out channels, channels / groups, {}]", weight.type().to_string(),
           kKernel[axes]);
  if (groups < 1) reject("groups is {}; give a number above 0", groups);
  const auto out = weight.dim(0).constant();
  if (out && *out % groups != 0)
    reject("weight {} has {} output channels, which {} groups do not divide; choose groups that do",
           weight.type().to_string(), *out, groups);
  const Expression wanted = weight.dim(1) * groups;
  if (!Expression::known_equal(x.dim(1), wanted))
    reject("x {} has {} channels, but weight {} expects {} ({} x {} groups); weight must be [out, {}, {}]",
           x.type().to_string(), x.dim(1).to_string(), weight.type().to_string(), wanted.to_string(),
           weight.dim(1).to_string(), groups, (x.dim(1) / groups).to_string(), kKernel[axes]);
}

/// `seen` [N, C, out..., kernel...] times `filters` [O, C / groups, kernel...], summed.
GraphTensor contracted(const GraphTensor& seen, const GraphTensor& filters, size_t n, int64_t groups) {
  if (groups == 1) {
    std::vector<int> order{0, 1};  // to [N, 1, out..., C, kernel...]
    append(order, axes_from(3, n));
    order.push_back(2);
    append(order, axes_from(3 + n, n));
    const GraphTensor patches = seen.unsqueeze(1).permute(order);
    return product_sum(patches, with_units(filters, 1, n), axes_from(2 + n, n + 1));
  }
  std::vector<int> order{0, 1, 2};  // to [N, G, 1, out..., C/G, kernel...]
  append(order, axes_from(4, n));
  order.push_back(3);
  append(order, axes_from(4 + n, n));
  const GraphTensor patches = seen.split_dims(1, filters.dim(1)).unsqueeze(2).permute(order);
  const GraphTensor taps = with_units(filters.split_dims(0, filters.dim(0) / groups), 2, n);
  return product_sum(patches, taps, axes_from(3 + n, n + 1)).merge_dims(1, 2);
}

Shape kernel_of(const GraphTensor& weight) { return {weight.dims().begin() + 2, weight.dims().end()}; }

template <size_t N>
GraphTensor convolve(const GraphTensor& x, const GraphTensor& weight, const ConvOptions<N>& options) {
  const auto [images, filters] = promoted(Operand(x), Operand(weight), Promotion::Arithmetic);
  bool added = false;
  const GraphTensor input = batched(images, N, added);
  check_channels(input, filters, N, options.groups);
  const WindowGeometry geometry{kernel_of(filters), listed(options.stride), listed(options.padding),
                                listed(options.dilation)};
  check_geometry(geometry);
  const GraphTensor result = contracted(windows(input, geometry, {}, 0), filters, N, options.groups);
  return added ? result.squeeze(0) : result;
}

}  // namespace

GraphTensor conv1d(const GraphTensor& x, const GraphTensor& weight, const Conv1dOptions& options, Where at) {
  const CallSite site("conv1d", at);
  return convolve(x, weight, options);
}
GraphTensor conv2d(const GraphTensor& x, const GraphTensor& weight, const Conv2dOptions& options, Where at) {
  const CallSite site("conv2d", at);
  return convolve(x, weight, options);
}
GraphTensor conv3d(const GraphTensor& x, const GraphTensor& weight, const Conv3dOptions& options, Where at) {
  const CallSite site("conv3d", at);
  return convolve(x, weight, options);
}

// --- Transposed: output t of an axis sums x[i] * w[k] with i * stride + k * dilation = t. With k = q *
// stride + r and dilation 1, phase r = t % stride takes the taps q and the elements t / stride - q.

namespace {

/// The axis with `gap` zeros between its elements.
GraphTensor stretched(const GraphTensor& x, int axis, int64_t gap) {
  const Expression size = x.dim(axis);
  return x.unsqueeze(axis + 1)
      .pad_along(axis + 1, 0, gap)
      .merge_dims(axis, axis + 1)
      .slice_along(axis, 0, (size - 1) * (gap + 1) + 1);
}

/// Weights [C, O / G, kernel...] cut into phases, [C, O / G, taps, phases, ...], the taps in reverse order.
struct Phases {
  GraphTensor weight;
  WindowGeometry geometry;  ///< by which the input is seen: as many taps, everything they reach
};

Phases phases_of(GraphTensor weight, const std::vector<int64_t>& stride,
                 const std::vector<int64_t>& dilation) {
  const size_t n = stride.size();
  Phases result;
  for (size_t i = 0; i < n; ++i) {
    const int axis = 2 + 2 * static_cast<int>(i);
    int64_t step = dilation[i];
    if (stride[i] > 1 && step > 1) {  // taps that belong to no phase as a whole: zeros between them
      weight = stretched(weight, axis, step - 1);
      step = 1;
    }
    const Expression taps = weight.dim(axis).ceil_div(stride[i]);
    weight =
        weight.pad_along(axis, 0, taps * stride[i] - weight.dim(axis)).split_dims(axis, stride[i]).flip(axis);
    result.geometry.kernel.push_back(taps);
    result.geometry.stride.push_back(1);
    result.geometry.dilation.push_back(step);
    result.geometry.padding.push_back(0);
  }
  result.weight = weight;
  return result;
}

/// Everything that input and taps reach together, before padding is cut off: [N, O, places * stride ...].
GraphTensor spread_out(const GraphTensor& x, const Phases& phases, int64_t groups) {
  const size_t n = phases.geometry.axes();
  RangePairs amounts(2);
  for (size_t i = 0; i < n; ++i) {
    const Expression beside = phases.geometry.reach(i) - 1;
    amounts.emplace_back(beside, beside);
  }
  const GraphTensor seen = windows(x.pad(amounts), phases.geometry, {}, 0);
  const Expression channels = x.dim(1) / groups;
  // [N, G, C/G, places..., taps...] to [N, G, 1, place, 1, place, 1 ..., C/G, taps...]
  std::vector<int> order{0, 1};
  append(order, axes_from(3, n));
  order.push_back(2);
  append(order, axes_from(3 + n, n));
  GraphTensor patches = seen.split_dims(1, channels).permute(order).unsqueeze(2);
  for (size_t i = n; i-- > 0;) patches = patches.unsqueeze(4 + static_cast<int>(i));
  // [G, C/G, O/G, tap, phase ...] to [G, O/G, 1, phase, 1, phase ..., C/G, taps...]
  order = {0, 2};
  for (size_t i = 0; i < n; ++i) order.push_back(4 + 2 * static_cast<int>(i));
  order.push_back(1);
  for (size_t i = 0; i < n; ++i) order.push_back(3 + 2 * static_cast<int>(i));
  GraphTensor taps = phases.weight.split_dims(0, channels).permute(order);
  for (size_t i = n; i-- > 0;) taps = taps.unsqueeze(2 + static_cast<int>(i));
  GraphTensor result = product_sum(patches, taps, axes_from(3 + 2 * n, n + 1)).merge_dims(1, 2);
  for (size_t i = 0; i < n; ++i) result = result.merge_dims(2 + static_cast<int>(i), 3 + static_cast<int>(i));
  return result;
}

template <size_t N>
void check_transpose(const GraphTensor& x, const GraphTensor& weight,
                     const ConvTransposeOptions<N>& options) {
  if (weight.rank() != static_cast<int>(N) + 2)
    reject("weight is {}; give [channels, out channels / groups, {}]", weight.type().to_string(), kKernel[N]);
  if (options.groups < 1) reject("groups is {}; give a number above 0", options.groups);
  if (!Expression::known_equal(x.dim(1), weight.dim(0)))
    reject("x {} has {} channels, but weight {} has {}; weight must be [{}, out / groups, ...]",
           x.type().to_string(), x.dim(1).to_string(), weight.type().to_string(), weight.dim(0).to_string(),
           x.dim(1).to_string());
  const auto channels = weight.dim(0).constant();
  if (channels && *channels % options.groups != 0)
    reject("{} groups do not divide the {} channels of x {}; choose groups that do", options.groups,
           *channels, x.type().to_string());
  for (size_t i = 0; i < N; ++i)
    if (options.output_padding[i] < 0 ||
        options.output_padding[i] >= std::max(options.stride[i], options.dilation[i]))
      reject("the output padding {} is not below the stride {} or the dilation {}; give a smaller one",
             options.output_padding[i], options.stride[i], options.dilation[i]);
}

template <size_t N>
GraphTensor convolve_transposed(const GraphTensor& x, const GraphTensor& weight,
                                const ConvTransposeOptions<N>& options) {
  const auto [images, filters] = promoted(Operand(x), Operand(weight), Promotion::Arithmetic);
  bool added = false;
  const GraphTensor input = batched(images, N, added);
  const WindowGeometry plain{filters.rank() == static_cast<int>(N) + 2 ? kernel_of(filters) : Shape(N, 1),
                             listed(options.stride), listed(options.padding), listed(options.dilation)};
  check_geometry(plain);
  check_transpose(input, filters, options);
  GraphTensor result = spread_out(input, phases_of(filters, plain.stride, plain.dilation), options.groups);
  for (size_t i = 0; i < N; ++i) {
    const int axis = 2 + static_cast<int>(i);
    const Expression end = (input.dim(axis) - 1) * options.stride[i] + plain.reach(i) +
                           options.output_padding[i] - options.padding[i];
    if (Expression::known_less(end, options.padding[i]))
      reject("padding {} leaves nothing of axis {} of x {}; pad less", options.padding[i], axis,
             x.type().to_string());
    result = result.pad_along(axis, 0, options.output_padding[i]).slice_along(axis, options.padding[i], end);
  }
  return added ? result.squeeze(0) : result;
}

}  // namespace

GraphTensor conv_transpose1d(const GraphTensor& x, const GraphTensor& weight,
                             const ConvTransposeOptions<1>& options, Where at) {
  const CallSite site("conv_transpose1d", at);
  return convolve_transposed(x, weight, options);
}
GraphTensor conv_transpose2d(const GraphTensor& x, const GraphTensor& weight,
                             const ConvTransposeOptions<2>& options, Where at) {
  const CallSite site("conv_transpose2d", at);
  return convolve_transposed(x, weight, options);
}
GraphTensor conv_transpose3d(const GraphTensor& x, const GraphTensor& weight,
                             const ConvTransposeOptions<3>& options, Where at) {
  const CallSite site("conv_transpose3d", at);
  return convolve_transposed(x, weight, options);
}

}  // namespace luminal
