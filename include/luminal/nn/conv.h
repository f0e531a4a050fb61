#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "luminal/convolution.h"
#include "luminal/nn/module.h"

/// Convolutions and pools as modules: PyTorch's names, defaults and weight layouts.
namespace luminal::nn {

/// Shapes: x [N, in, spatial...] -> [N, out, ...]; weight [out, in / groups, kernel...], bias [out]. Initial
/// values: U(-1/sqrt(f), 1/sqrt(f)), f = in / groups * kernel elements.  Errors: ShapeError.
template <size_t N>
struct Conv {
  using Sizes = std::array<int64_t, N>;
  struct Options {
    Sizes stride = filled<N>(1), padding{}, dilation = filled<N>(1);
    int64_t groups = 1;
    bool bias = true;
    Dtype dtype = Dtype::F32;
  };
  GraphTensor weight;
  std::optional<GraphTensor> bias;
  ConvOptions<N> geometry;

  Conv(GraphSite cx, int64_t in, int64_t out, Sizes kernel, const Options& options);
  Conv(GraphSite cx, int64_t in, int64_t out, Sizes kernel) : Conv(cx, in, out, kernel, Options()) {}
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where = Where::current()) const;
  void serialize(Serializer& s) const {
    s.tensor("weight", weight);
    if (bias) s.tensor("bias", *bias);
  }
};
using Conv1d = Conv<1>;
using Conv2d = Conv<2>;
using Conv3d = Conv<3>;

/// Shapes: x [N, in, spatial...] -> [N, out, ...]; weight [in, out / groups, kernel...], bias [out]. Initial
/// values: as PyTorch's, with f = out / groups * kernel elements.  Errors: ShapeError.
template <size_t N>
struct ConvTranspose {
  using Sizes = std::array<int64_t, N>;
  struct Options {
    Sizes stride = filled<N>(1), padding{}, output_padding{}, dilation = filled<N>(1);
    int64_t groups = 1;
    bool bias = true;
    Dtype dtype = Dtype::F32;
  };
  GraphTensor weight;
  std::optional<GraphTensor> bias;
  ConvTransposeOptions<N> geometry;

  ConvTranspose(GraphSite cx, int64_t in, int64_t out, Sizes kernel, const Options& options);
  ConvTranspose(GraphSite cx, int64_t in, int64_t out, Sizes kernel)
      : ConvTranspose(cx, in, out, kernel, Options()) {}
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where = Where::current()) const;
  void serialize(Serializer& s) const {
    s.tensor("weight", weight);
    if (bias) s.tensor("bias", *bias);
  }
};
using ConvTranspose1d = ConvTranspose<1>;
using ConvTranspose2d = ConvTranspose<2>;
using ConvTranspose3d = ConvTranspose<3>;

/// A pool with windows of one size; the stride is the kernel's size unless given.
/// Shapes: [N, C, spatial...] -> [N, C, out...].
template <size_t N, GraphTensor (*Function)(const GraphTensor&, const PoolOptions<N>&, Where)>
struct Pool {
  PoolOptions<N> options;
  explicit Pool(int64_t kernel) { options.kernel = filled<N>(kernel); }
  explicit Pool(PoolOptions<N> pool) : options(pool) {}
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where = Where::current()) const {
    return Function(x, options, where);
  }
  void serialize(Serializer&) const {}
};
using MaxPool1d = Pool<1, max_pool1d>;
using MaxPool2d = Pool<2, max_pool2d>;
using MaxPool3d = Pool<3, max_pool3d>;
using AvgPool1d = Pool<1, avg_pool1d>;
using AvgPool2d = Pool<2, avg_pool2d>;
using AvgPool3d = Pool<3, avg_pool3d>;

/// The last axes brought to these sizes by means. Shapes: [N, C, spatial...] -> [N, C, sizes...].
template <size_t N>
struct AdaptiveAvgPool {
  std::array<int64_t, N> sizes;
  explicit AdaptiveAvgPool(std::array<int64_t, N> to) : sizes(to) {}
  explicit AdaptiveAvgPool(int64_t to) : sizes(filled<N>(to)) {}
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where = Where::current()) const {
    return adaptive_avg_pool(x, Shape(sizes.begin(), sizes.end()), where);
  }
  void serialize(Serializer&) const {}
};
using AdaptiveAvgPool1d = AdaptiveAvgPool<1>;
using AdaptiveAvgPool2d = AdaptiveAvgPool<2>;
using AdaptiveAvgPool3d = AdaptiveAvgPool<3>;

/// The axes after the first two at `factor` times their size, as torch.nn.Upsample.
/// Shapes: [N, C, spatial...] -> [N, C, factor * spatial...].
struct Upsample {
  int64_t factor;
  InterpolateOptions options;
  explicit Upsample(int64_t times, InterpolateOptions how = {}) : factor(times), options(how) {}
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where = Where::current()) const {
    return upsample(x, factor, options, where);
  }
  void serialize(Serializer&) const {}
};

}  // namespace luminal::nn
