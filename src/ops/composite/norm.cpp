#include "ops/composite/build.h"

// Normalisation over axes. f16 and bf16 are computed in f32 and rounded once.
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

}  // namespace luminal
