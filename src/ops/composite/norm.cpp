#include "ops/composite/build.h"

// Normalisation over axes. f16 and bf16 are computed in f32 and rounded once.
//
// Range: the sum of a row and the sum of its squared deviations (rms_norm: squares) must be finite in the
// dtype that is computed in. Where the sum is not, layer_norm gives NaN, where only the squares are not, 0.
// An element of the row taken off before the mean would serve constant rows of any size, but reads each row
// through a second view, for which the cover needs a second kernel; what other ways cost stands in
// docs/performance.md.
namespace luminal {

using namespace composite;

namespace {

GraphTensor centered(const GraphTensor& x, const std::vector<int>& axes) {
  return x - reduced(kSumReduce, x, axes, true) / extent_of(x, axes);
}

GraphTensor by_root_mean_square(const GraphTensor& x, const std::vector<int>& axes, double epsilon) {
  const GraphTensor mean_square = reduced(kSumReduce, x.square(), axes, true) / extent_of(x, axes);
  return x * (mean_square + epsilon).rsqrt();
}

}  // namespace

GraphTensor GraphTensor::mean_norm(Axes axes, Where at) const {
  const CallSite site("mean_norm", at);
  return centered(widened(*this), axes.resolve(rank(), label())).cast(floating_dtype(dtype()));
}

GraphTensor GraphTensor::std_norm(Axes axes, double epsilon, Where at) const {
  const CallSite site("std_norm", at);
  return by_root_mean_square(widened(*this), axes.resolve(rank(), label()), epsilon)
      .cast(floating_dtype(dtype()));
}

GraphTensor GraphTensor::rms_norm(Axes axes, double epsilon, Where at) const {
  const CallSite site("rms_norm", at);
  return by_root_mean_square(widened(*this), axes.resolve(rank(), label()), epsilon)
      .cast(floating_dtype(dtype()));
}

GraphTensor GraphTensor::layer_norm(Axes axes, double epsilon, Where at) const {
  const CallSite site("layer_norm", at);
  const std::vector<int> over = axes.resolve(rank(), label());
  return by_root_mean_square(centered(widened(*this), over), over, epsilon).cast(floating_dtype(dtype()));
}

GraphTensor GraphTensor::normalize(double p, Axes axes, double epsilon, Where at) const {
  const CallSite site("normalize", at);
  const GraphTensor x = widened(*this);
  const GraphTensor length = x.norm(p, std::move(axes), true);
  return (x / greater_of(length, scalar(length, epsilon), Ties::First)).cast(floating_dtype(dtype()));
}

namespace {

/// Axis 1 and what is behind it.
void require_channels(const GraphTensor& x) {
  if (x.rank() < 2) reject("{} has no channels; give [batch, channels, ...]", x.type().to_string());
}

/// [C] as [C, 1, ...], to stand beside [N, C, ...].
GraphTensor by_channel(const GraphTensor& each, const GraphTensor& x, std::string_view what) {
  if (each.rank() != 1 || !Expression::known_equal(each.dim(0), x.dim(1)))
    reject("the {} is {} for the {} channels (axis 1) of {}; give one number for each", what,
           each.type().to_string(), x.dim(1).to_string(), x.type().to_string());
  GraphTensor result = each;
  for (int axis = 2; axis < x.rank(); ++axis) result = result.unsqueeze(result.rank());
  return result;
}

}  // namespace

GraphTensor GraphTensor::group_norm(int64_t groups, double epsilon, Where at) const {
  const CallSite site("group_norm", at);
  require_channels(*this);
  const Expression channels = dim(1);
  if (groups < 1 || (channels.constant() && *channels.constant() % groups != 0))
    reject("{} groups do not divide the {} channels of {}; choose groups that do", groups,
           channels.to_string(), type().to_string());
  GraphTensor grouped = split_dims(1, channels / groups);
  std::vector<int> over;
  for (int axis = 2; axis < grouped.rank(); ++axis) over.push_back(axis);
  return grouped.layer_norm(over, epsilon).merge_dims(1, 2);
}

GraphTensor GraphTensor::batch_norm(double epsilon, Where at) const {
  const CallSite site("batch_norm", at);
  require_channels(*this);
  std::vector<int> over{0};
  for (int axis = 2; axis < rank(); ++axis) over.push_back(axis);
  return layer_norm(over, epsilon);
}

GraphTensor GraphTensor::batch_norm(const GraphTensor& mean, const GraphTensor& variance, double epsilon,
                                    Where at) const {
  const CallSite site("batch_norm", at);
  require_channels(*this);
  const GraphTensor x = widened(*this);
  const GraphTensor scale = (by_channel(variance, x, "variance").cast(x.dtype()) + epsilon).rsqrt();
  return ((x - by_channel(mean, x, "mean").cast(x.dtype())) * scale).cast(floating_dtype(dtype()));
}

}  // namespace luminal
