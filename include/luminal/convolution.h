// A guard and no #pragma once: graph_tensor.h, which is needed here, includes this header at its end.
#ifndef LUMINAL_CONVOLUTION_H
#define LUMINAL_CONVOLUTION_H
#include <array>
#include <cstdint>

#include "luminal/graph_tensor.h"

/// Convolutions, pools and resizing over one, two or three spatial axes, as views, products and sums: no
/// patch is ever copied. Names, defaults and layouts are PyTorch's; images may come without the batch axis.
///
///   auto y = conv2d(x, w, {.stride = {2, 2}, .padding = {1, 1}});
///   auto z = max_pool2d(y, {.kernel = {2, 2}});
namespace luminal {

template <size_t N>
[[nodiscard]] constexpr std::array<int64_t, N> filled(int64_t value) {
  std::array<int64_t, N> result{};
  for (int64_t& each : result) each = value;
  return result;
}

template <size_t N>
struct ConvOptions {
  std::array<int64_t, N> stride = filled<N>(1), padding{}, dilation = filled<N>(1);
  int64_t groups = 1;
};
using Conv1dOptions = ConvOptions<1>;
using Conv2dOptions = ConvOptions<2>;
using Conv3dOptions = ConvOptions<3>;

/// Convolution (cross-correlation, as in PyTorch).
/// Shapes: x [N, C, spatial...], weight [O, C / groups, kernel...] -> [N, O, (size + 2 padding - dilation
/// (kernel - 1) - 1) / stride + 1 ...].  Dtypes: f16 and bf16 accumulate in f32.  Errors: ShapeError if
/// ranks, channels or groups do not fit or a window is larger than the padded input.
[[nodiscard]] GraphTensor conv1d(const GraphTensor& x, const GraphTensor& weight,
                                 const Conv1dOptions& options = {}, Where where = Where::current());
[[nodiscard]] GraphTensor conv2d(const GraphTensor& x, const GraphTensor& weight,
                                 const Conv2dOptions& options = {}, Where where = Where::current());
[[nodiscard]] GraphTensor conv3d(const GraphTensor& x, const GraphTensor& weight,
                                 const Conv3dOptions& options = {}, Where where = Where::current());

template <size_t N>
struct ConvTransposeOptions {
  std::array<int64_t, N> stride = filled<N>(1), padding{}, output_padding{}, dilation = filled<N>(1);
  int64_t groups = 1;
};

/// The map that convolution with this weight takes gradients back by ("deconvolution").
/// Shapes: x [N, C, spatial...], weight [C, O / groups, kernel...] -> [N, O, (size - 1) stride - 2 padding +
/// dilation (kernel - 1) + output_padding + 1 ...].  Errors: ShapeError.
/// Cost: reads kernel / stride elements per axis and output, not kernel: each of the `stride` phases of the
/// output is a convolution of its own (Shi et al. 2016).
[[nodiscard]] GraphTensor conv_transpose1d(const GraphTensor& x, const GraphTensor& weight,
                                           const ConvTransposeOptions<1>& options = {},
                                           Where where = Where::current());
[[nodiscard]] GraphTensor conv_transpose2d(const GraphTensor& x, const GraphTensor& weight,
                                           const ConvTransposeOptions<2>& options = {},
                                           Where where = Where::current());
[[nodiscard]] GraphTensor conv_transpose3d(const GraphTensor& x, const GraphTensor& weight,
                                           const ConvTransposeOptions<3>& options = {},
                                           Where where = Where::current());

template <size_t N>
struct PoolOptions {
  std::array<int64_t, N> kernel = filled<N>(2), stride{},  ///< stride 0: the kernel's size
      padding{}, dilation = filled<N>(1);
  bool ceil_mode = false;  ///< a last window that starts inside the input counts, though it reaches beyond
  bool count_include_pad = true;  ///< avg_pool: padding counts as zeros in the mean
};
using Pool1dOptions = PoolOptions<1>;
using Pool2dOptions = PoolOptions<2>;
using Pool3dOptions = PoolOptions<3>;

/// Shapes: [N, C, spatial...] -> [N, C, out...]. Padding counts as minus infinity; the gradient goes to the
/// first maximum.  Errors: ShapeError if the padding is more than half the kernel.
[[nodiscard]] GraphTensor max_pool1d(const GraphTensor& x, const Pool1dOptions& options = {},
                                     Where where = Where::current());
[[nodiscard]] GraphTensor max_pool2d(const GraphTensor& x, const Pool2dOptions& options = {},
                                     Where where = Where::current());
[[nodiscard]] GraphTensor max_pool3d(const GraphTensor& x, const Pool3dOptions& options = {},
                                     Where where = Where::current());
/// The same with the mean, padding counting as zeros.
[[nodiscard]] GraphTensor avg_pool1d(const GraphTensor& x, const Pool1dOptions& options = {},
                                     Where where = Where::current());
[[nodiscard]] GraphTensor avg_pool2d(const GraphTensor& x, const Pool2dOptions& options = {},
                                     Where where = Where::current());
[[nodiscard]] GraphTensor avg_pool3d(const GraphTensor& x, const Pool3dOptions& options = {},
                                     Where where = Where::current());
/// The last axes brought to `sizes`: place i of n is the mean of elements floor(i N / n) to ceil((i + 1) N /
/// n). Shapes: [..., spatial...] -> [..., sizes...], one size for each of the last axes.
[[nodiscard]] GraphTensor adaptive_avg_pool(const GraphTensor& x, Shape sizes,
                                            Where where = Where::current());

enum class Interpolation { Nearest, NearestExact, Linear, Cubic };
struct InterpolateOptions {
  Interpolation mode = Interpolation::Nearest;
  bool align_corners = false;  ///< Linear and Cubic: the outermost samples lie on the outermost elements
};
/// The last axes resampled to `sizes`, as torch.nn.functional.interpolate(size=...): Linear is its linear,
/// bilinear and trilinear, Cubic its bicubic (Keys 1981 with a = -0.75).
/// Shapes: [..., spatial...] -> [..., sizes...].  Errors: ShapeError, DtypeError unless x is float.
[[nodiscard]] GraphTensor interpolate(const GraphTensor& x, Shape sizes,
                                      const InterpolateOptions& options = {}, Where where = Where::current());
/// interpolate() to `factor` times the size, all axes after the first two.
[[nodiscard]] GraphTensor upsample(const GraphTensor& x, int64_t factor,
                                   const InterpolateOptions& options = {}, Where where = Where::current());

}  // namespace luminal

#endif  // LUMINAL_CONVOLUTION_H
