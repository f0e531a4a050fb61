#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "luminal/nn/module.h"

/// Normalisation. f16 and bf16 are computed in f32 and rounded once.
namespace luminal::nn {

/// (x - mean) / sqrt(variance + eps) * weight + bias over the last axes, `shape` of them.
/// Shapes: x [..., shape] -> the same; weight, bias [shape].  Errors: ShapeError if x does not end in
/// `shape`. Source: Ba, Kiros, Hinton 2016.
struct LayerNorm {
  struct Options {
    double eps = 1e-5;
    bool elementwise_affine = true;
    bool bias = true;
    Dtype dtype = Dtype::F32;
  };
  std::optional<GraphTensor> weight, bias;
  std::vector<int64_t> shape;
  double eps;

  LayerNorm(GraphSite cx, std::vector<int64_t> shape, const Options& options);
  LayerNorm(GraphSite cx, std::vector<int64_t> sizes) : LayerNorm(cx, std::move(sizes), Options()) {}
  LayerNorm(GraphSite cx, int64_t size, const Options& options) : LayerNorm(cx, std::vector{size}, options) {}
  LayerNorm(GraphSite cx, int64_t size) : LayerNorm(cx, std::vector{size}, Options()) {}
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where = Where::current()) const;
  void serialize(Serializer& s) const;
};

/// x / sqrt(mean(x^2) + eps) * weight over the last axes, `shape` of them. An absent eps is the machine
/// epsilon of the dtype that is computed in, as in PyTorch.  Source: Zhang and Sennrich 2019.
struct RMSNorm {
  struct Options {
    std::optional<double> eps = {};
    bool elementwise_affine = true;
    Dtype dtype = Dtype::F32;
  };
  std::optional<GraphTensor> weight;
  std::vector<int64_t> shape;
  std::optional<double> eps;

  RMSNorm(GraphSite cx, std::vector<int64_t> shape, const Options& options);
  RMSNorm(GraphSite cx, std::vector<int64_t> sizes) : RMSNorm(cx, std::move(sizes), Options()) {}
  RMSNorm(GraphSite cx, int64_t size, const Options& options) : RMSNorm(cx, std::vector{size}, options) {}
  RMSNorm(GraphSite cx, int64_t size) : RMSNorm(cx, std::vector{size}, Options()) {}
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where = Where::current()) const;
  void serialize(Serializer& s) const;
};

/// Groups of channels, each normalised over its channels and all positions.
/// Shapes: x [N, C, ...] -> the same; weight, bias [C].  Errors: ShapeError if groups do not divide channels.
/// Source: Wu and He 2018.
struct GroupNorm {
  struct Options {
    double eps = 1e-5;
    bool affine = true;
    Dtype dtype = Dtype::F32;
  };
  std::optional<GraphTensor> weight, bias;
  int64_t groups, channels;
  double eps;

  GroupNorm(GraphSite cx, int64_t groups, int64_t channels, const Options& options);
  GroupNorm(GraphSite cx, int64_t groups_, int64_t channels_)
      : GroupNorm(cx, groups_, channels_, Options()) {}
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where = Where::current()) const;
  void serialize(Serializer& s) const;
};

/// Channels normalised over batch and positions. While training, `forward` uses the batch's statistics and
/// declares that each run moves the running ones (graph state) towards them; otherwise it uses the running
/// ones. A batch to train on with one value for each channel has no variance: known sizes are refused, as in
/// PyTorch; where a named dim turns out so, the batch moves running_mean and leaves running_var as it is. An
/// empty one moves nothing and is not counted.
/// Shapes: x [N, C] or [N, C, ...] -> the same; all weights [C].  Errors: ShapeError if the channels differ,
/// or if a batch to train on is known to have one value for each channel. Source: Ioffe and Szegedy 2015.
struct BatchNorm {
  struct Options {
    double eps = 1e-5;
    /// Share of the batch in the running statistics (their variance divides by the count less 1); absent: the
    /// mean over all batches so far.
    std::optional<double> momentum = 0.1;
    bool affine = true;
    bool track_running_stats = true;
    Dtype dtype = Dtype::F32;
  };
  std::optional<GraphTensor> weight, bias;
  std::optional<GraphTensor> running_mean, running_var, num_batches_tracked;
  std::optional<double> momentum;
  int64_t channels;
  double eps;
  Mode mode;

  BatchNorm(GraphSite cx, int64_t channels, const Options& options);
  BatchNorm(GraphSite cx, int64_t channels_) : BatchNorm(cx, channels_, Options()) {}
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where = Where::current()) const;
  void serialize(Serializer& s) const;

 private:
  void track(const GraphTensor& mean, const GraphTensor& variance, const Expression& count) const;
};
/// One for all ranks; PyTorch's names.
using BatchNorm1d = BatchNorm;
using BatchNorm2d = BatchNorm;
using BatchNorm3d = BatchNorm;

}  // namespace luminal::nn
