#include "luminal/training/gradients.h"

#include <cmath>

#include "training/step_builder.h"

namespace luminal::training {
namespace {

GraphTensor widened(const GraphTensor& x) { return x.cast(accumulation_dtype(x.dtype())); }

/// The norm of all tensors as one vector.
GraphTensor total_norm(const std::vector<GraphTensor>& gradients, double type) {
  GraphTensor total;
  for (const GraphTensor& gradient : gradients) {
    const GraphTensor size = widened(gradient).abs();
    const GraphTensor part = std::isinf(type) ? size.max()
                             : type == 2      ? size.square().sum()
                                              : size.pow(type).sum();
    if (!total.valid())
      total = part;
    else
      total = std::isinf(type) ? maximum(total, part) : total + part;
  }
  if (std::isinf(type)) return total;
  return type == 2 ? total.sqrt() : total.pow(1 / type);
}

}  // namespace

ClippedGradients clip_grad_norm(const std::vector<GraphTensor>& gradients, double max_norm, double norm_type,
                                Where where) {
  const CallSite site("clip_grad_norm", where);
  if (gradients.empty()) fail("[clip_grad_norm] there are no gradients; give at least one");
  check_not_negative("clip_grad_norm", "max_norm", max_norm);
  if (!(norm_type > 0))
    fail("[clip_grad_norm] norm_type={} is out of range; give a number above 0, or infinity", norm_type);
  ClippedGradients result{.gradients = {}, .norm = total_norm(gradients, norm_type)};
  const GraphTensor factor = minimum(max_norm / (result.norm + 1e-6), 1);
  for (const GraphTensor& gradient : gradients)
    result.gradients.push_back(
        (widened(gradient) * factor.cast(accumulation_dtype(gradient.dtype()))).cast(gradient.dtype()));
  return result;
}

std::vector<GraphTensor> clip_grad_value(const std::vector<GraphTensor>& gradients, double value,
                                         Where where) {
  const CallSite site("clip_grad_value", where);
  check_not_negative("clip_grad_value", "value", value);
  std::vector<GraphTensor> clipped;
  for (const GraphTensor& gradient : gradients) clipped.push_back(gradient.clip(-value, value));
  return clipped;
}

GradientAccumulator::GradientAccumulator(Graph& cx, const std::vector<GraphTensor>& gradients, int64_t steps,
                                         Where where) {
  const CallSite site("GradientAccumulator", where);
  if (steps < 1) fail("[GradientAccumulator] steps is {}; give 1 or more", steps);
  count_ = zero_state(cx, "count", {Dtype::I64, {}});
  const GraphTensor count = count_ + 1;
  ready_ = count.ge(steps);
  count_.assign(ready_.where(0, count));
  for (const GraphTensor& gradient : gradients) {
    const GraphTensor wide = widened(gradient);
    const GraphTensor sum = sums_.emplace_back(zero_state(cx, "sum", wide.type()));
    const GraphTensor total = sum + wide;
    sum.assign(ready_.where(0, total));
    means_.push_back(total * (1.0 / static_cast<double>(steps)));
  }
}

void GradientAccumulator::serialize(nn::Serializer& s) const {
  s.buffer("count", count_);
  for (size_t i = 0; i < sums_.size(); ++i) s.buffer(std::to_string(i) + "/sum", sums_[i]);
}

}  // namespace luminal::training
