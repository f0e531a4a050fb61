#include "luminal/nn/norm.h"

#include <limits>
#include <numeric>

#include "nn/weights.h"

namespace luminal::nn {
namespace {

void check_shape(const GraphSite& cx, std::string_view module, const std::vector<int64_t>& shape,
                 Dtype dtype) {
  const CallSite site(module, cx.where);
  if (shape.empty()) fail<ShapeError>("[{}] the shape is empty; give the sizes of the last axes", module);
  for (const int64_t size : shape) check_size(module, "size", size);
  check_float(module, dtype);
}

/// The last axes, as many as `shape` has.
Axes last_axes(std::string_view module, const GraphTensor& x, const std::vector<int64_t>& shape) {
  const int count = static_cast<int>(shape.size());
  bool fits = x.rank() >= count;
  for (int i = 0; fits && i < count; ++i) fits = known_to_be(x.dim(i - count), shape[static_cast<size_t>(i)]);
  if (!fits)
    fail<ShapeError>("[{}] x is {} and must end in [{}], over which it is normalised", module,
                     x.type().to_string(), fmt::join(shape, ", "));
  std::vector<int> axes(shape.size());
  std::iota(axes.begin(), axes.end(), -count);
  return axes;
}

GraphTensor scaled(GraphTensor x, const std::optional<GraphTensor>& weight,
                   const std::optional<GraphTensor>& bias) {
  if (weight) x = x * widened(*weight);
  if (bias) x = x + widened(*bias);
  return x;
}

/// [C] as it lies along axis 1 of something of this rank.
GraphTensor per_channel(const GraphTensor& weight, int rank) {
  GraphTensor result = widened(weight);
  for (int axis = 2; axis < rank; ++axis) result = result.unsqueeze(-1);
  return result;
}

void check_channels(std::string_view module, const GraphTensor& x, int64_t channels) {
  if (x.rank() < 2 || !known_to_be(x.dim(1), channels))
    fail<ShapeError>("[{}] x is {} and must be [N, {}] or [N, {}, ...]", module, x.type().to_string(),
                     channels, channels);
}

void serialize_affine(Serializer& s, const std::optional<GraphTensor>& weight,
                      const std::optional<GraphTensor>& bias) {
  if (weight) s.tensor("weight", *weight);
  if (bias) s.tensor("bias", *bias);
}

}  // namespace

LayerNorm::LayerNorm(GraphSite cx, std::vector<int64_t> sizes, const Options& options)
    : shape(std::move(sizes)), eps(options.eps) {
  check_shape(cx, "LayerNorm", shape, options.dtype);
  if (!options.elementwise_affine) return;
  weight = constant_weight(cx, "weight", shape, 1, options.dtype);
  if (options.bias) bias = constant_weight(cx, "bias", shape, 0, options.dtype);
}

GraphTensor LayerNorm::forward(const GraphTensor& x, Where where) const {
  const CallSite site("LayerNorm", where);
  return scaled(widened(x).layer_norm(last_axes("LayerNorm", x, shape), eps), weight, bias).cast(x.dtype());
}

void LayerNorm::serialize(Serializer& s) const { serialize_affine(s, weight, bias); }

RMSNorm::RMSNorm(GraphSite cx, std::vector<int64_t> sizes, const Options& options)
    : shape(std::move(sizes)), eps(options.eps) {
  check_shape(cx, "RMSNorm", shape, options.dtype);
  if (options.elementwise_affine) weight = constant_weight(cx, "weight", shape, 1, options.dtype);
}

GraphTensor RMSNorm::forward(const GraphTensor& x, Where where) const {
  const CallSite site("RMSNorm", where);
  const GraphTensor wide = widened(x);
  const double epsilon = eps.value_or(wide.dtype() == Dtype::F64 ? std::numeric_limits<double>::epsilon()
                                                                 : std::numeric_limits<float>::epsilon());
  return scaled(wide.rms_norm(last_axes("RMSNorm", x, shape), epsilon), weight, {}).cast(x.dtype());
}

void RMSNorm::serialize(Serializer& s) const { serialize_affine(s, weight, {}); }

GroupNorm::GroupNorm(GraphSite cx, int64_t group_count, int64_t channel_count, const Options& options)
    : groups(group_count), channels(channel_count), eps(options.eps) {
  const CallSite site("GroupNorm", cx.where);
  check_size("GroupNorm", "groups", groups);
  check_size("GroupNorm", "channels", channels);
  check_float("GroupNorm", options.dtype);
  if (channels % groups != 0)
    fail<ShapeError>("[GroupNorm] {} groups do not divide {} channels; give a divisor", groups, channels);
  if (!options.affine) return;
  weight = constant_weight(cx, "weight", {channels}, 1, options.dtype);
  bias = constant_weight(cx, "bias", {channels}, 0, options.dtype);
}

GraphTensor GroupNorm::forward(const GraphTensor& x, Where where) const {
  const CallSite site("GroupNorm", where);
  check_channels("GroupNorm", x, channels);
  GraphTensor y = widened(x).group_norm(groups, eps);
  if (weight) y = y * per_channel(*weight, x.rank()) + per_channel(*bias, x.rank());
  return y.cast(x.dtype());
}

void GroupNorm::serialize(Serializer& s) const { serialize_affine(s, weight, bias); }

BatchNorm::BatchNorm(GraphSite cx, int64_t channel_count, const Options& options)
    : momentum(options.momentum), channels(channel_count), eps(options.eps) {
  const CallSite site("BatchNorm", cx.where);
  check_size("BatchNorm", "channels", channels);
  check_float("BatchNorm", options.dtype);
  if (momentum && !(*momentum >= 0 && *momentum <= 1))
    fail("[BatchNorm] momentum={} is out of range; give the batch's share, from 0 to 1", *momentum);
  if (options.affine) {
    weight = constant_weight(cx, "weight", {channels}, 1, options.dtype);
    bias = constant_weight(cx, "bias", {channels}, 0, options.dtype);
  }
  if (!options.track_running_stats) return;
  running_mean = constant_weight(cx, "running_mean", {channels}, 0, options.dtype);
  running_var = constant_weight(cx, "running_var", {channels}, 1, options.dtype);
  num_batches_tracked =
      make_weight(cx, "num_batches_tracked", Dtype::I64, {}, [] { return TensorData(Dtype::I64, {}); });
}

void BatchNorm::track(const GraphTensor& mean, const GraphTensor& variance, const Expression& count) const {
  const Dtype dtype = mean.dtype();
  Graph cx = mean.graph();
  const GraphTensor values = cx.constant(count, Dtype::I64);
  const GraphTensor old_batches = latest(*num_batches_tracked);
  // What a batch of too few values does not tell is not moved: no NaN comes to stay.
  const bool some = count.range().min >= 1, several = count.range().min >= 2;
  const GraphTensor batches = some ? old_batches + 1 : old_batches + values.gt(0).cast(Dtype::I64);
  const GraphTensor share =
      momentum ? cx.constant(*momentum, dtype)
               : cx.constant(1.0, dtype) / (some ? batches : maximum(batches, 1)).cast(dtype);
  const auto move = [&](const GraphTensor& running, const GraphTensor& seen, bool always, int64_t least) {
    const GraphTensor old = latest(running).cast(dtype);
    GraphTensor moved = old * (1 - share) + seen.stop_gradient() * share;
    if (!always) moved = luminal::where(values.ge(least).expand(old.dims()), moved, old);
    running.assign(moved.cast(running.dtype()));
  };
  // The sample variance, as PyTorch stores it: divided by the count less 1.
  const GraphTensor counted = values.cast(dtype);
  const GraphTensor less_1 = several ? counted - 1 : maximum(counted - 1, 1);
  move(*running_mean, mean, some, 1);
  move(*running_var, variance * (counted / less_1), several, 2);
  num_batches_tracked->assign(batches);
}

GraphTensor BatchNorm::forward(const GraphTensor& x, Where where) const {
  const CallSite site("BatchNorm", where);
  check_channels("BatchNorm", x, channels);
  const GraphTensor wide = widened(x);
  GraphTensor mean, variance;
  if (mode.training() || !running_mean) {
    std::vector<int> axes{0};
    Expression count = x.dim(0);
    for (int axis = 2; axis < x.rank(); ++axis) {
      axes.push_back(axis);
      count = count * x.dim(axis);
    }
    if (mode.training() && known_to_be(count, 1))
      fail<ShapeError>(
          "[BatchNorm] x {} has one value for each channel, so there is no variance to train on; "
          "give a larger batch, or call nn::eval first",
          x.type().to_string());
    mean = wide.mean(axes);
    // Channels of finite sums need no shift, which `var` pays for with a second look at each channel.
    variance = (wide - wide.mean(axes, true)).square().mean(axes);
    if (mode.training() && running_mean) track(mean, variance, count);
  } else {
    mean = running_mean->cast(wide.dtype());
    variance = running_var->cast(wide.dtype());
  }
  GraphTensor y = wide.batch_norm(mean, variance, eps);
  if (weight) y = y * per_channel(*weight, x.rank());
  if (bias) y = y + per_channel(*bias, x.rank());
  return y.cast(x.dtype());
}

void BatchNorm::serialize(Serializer& s) const {
  serialize_affine(s, weight, bias);
  if (running_mean) {
    s.buffer("running_mean", *running_mean);
    s.buffer("running_var", *running_var);
    s.buffer("num_batches_tracked", *num_batches_tracked);
  }
  s.mode(mode);
}

}  // namespace luminal::nn
