#include "luminal/training/loss.h"

#include <type_traits>

#include "base/place.h"
#include "training/loss_terms.h"

namespace luminal::training {

GraphTensor predicted(std::string_view loss, const GraphTensor& input) {
  if (!is_float(input.dtype()))
    fail<DtypeError>("[{}] the input is {} and must be floats; cast it, or swap input and target", loss,
                     input.type().to_string());
  return input.cast(accumulation_dtype(input.dtype()));
}

GraphTensor matching(std::string_view loss, const GraphTensor& input, const GraphTensor& target) {
  if (input.dims() != target.dims())
    fail<ShapeError>("[{}] input {} and target {} must have the same dims; reshape one of them", loss,
                     input.type().to_string(), target.type().to_string());
  return target.cast(accumulation_dtype(input.dtype()));
}

GraphTensor reduced(std::string_view loss, const GraphTensor& losses, Reduce reduce) {
  switch (reduce) {
    case Reduce::Mean:
      return losses.mean();
    case Reduce::Sum:
      return losses.sum();
    case Reduce::None:
      return losses;
    case Reduce::BatchMean:
      if (losses.rank() == 0)
        fail<ShapeError>("[{}] a single number has no batch to average over; give [N, ...]", loss);
      return losses.sum() / Operand(losses.dim(0));
  }
  throw InternalError("a reduction that is none of the four");
}

GraphTensor mse(const GraphTensor& input, const GraphTensor& target, Reduce reduce, Where where) {
  const CallSite site("mse", where);
  return reduced("mse", (predicted("mse", input) - matching("mse", input, target)).square(), reduce);
}

GraphTensor rmse(const GraphTensor& input, const GraphTensor& target, Where where) {
  const CallSite site("rmse", where);
  const GraphTensor square = (predicted("rmse", input) - matching("rmse", input, target)).square().mean();
  // The root's slope at 0 is infinite, and the gradient of a perfect fit would be NaN.
  const GraphTensor positive = square.gt(0);
  return positive.where(positive.where(square, 1).sqrt(), square);
}

GraphTensor mae(const GraphTensor& input, const GraphTensor& target, Reduce reduce, Where where) {
  const CallSite site("mae", where);
  return reduced("mae", (predicted("mae", input) - matching("mae", input, target)).abs(), reduce);
}

GraphTensor huber(const GraphTensor& input, const GraphTensor& target, double delta, Reduce reduce,
                  Where where) {
  const CallSite site("huber", where);
  if (!(delta > 0)) fail("[huber] delta={} is out of range; give a number above 0", delta);
  const GraphTensor d = predicted("huber", input) - matching("huber", input, target), size = d.abs();
  return reduced("huber", size.le(delta).where(d.square() * 0.5, (size - delta / 2) * delta), reduce);
}

GraphTensor smooth_l1(const GraphTensor& input, const GraphTensor& target, double beta, Reduce reduce,
                      Where where) {
  const CallSite site("smooth_l1", where);
  if (!(beta >= 0)) fail("[smooth_l1] beta={} is out of range; give 0 or more", beta);
  if (beta == 0) return mae(input, target, reduce);
  const GraphTensor d = predicted("smooth_l1", input) - matching("smooth_l1", input, target), size = d.abs();
  return reduced("smooth_l1", size.lt(beta).where(d.square() * (0.5 / beta), size - beta / 2), reduce);
}

GraphTensor kl_div(const GraphTensor& input, const GraphTensor& target, const KlDivOptions& options,
                   Where where) {
  const CallSite site("kl_div", where);
  const GraphTensor x = predicted("kl_div", input), y = matching("kl_div", input, target);
  if (options.log_target) return reduced("kl_div", y.exp() * (y - x), options.reduce);
  const GraphTensor present = y.gt(0);  // 0 log 0 counts 0, in the gradient as well
  const GraphTensor entropy = present.where(y * present.where(y, 1).log(), 0);
  return reduced("kl_div", entropy - y * x, options.reduce);
}

namespace {

GraphTensor weighted(const GraphTensor& losses, const GraphTensor& weight) {
  return weight.valid() ? losses * weight.cast(losses.dtype()) : losses;
}

/// log(1 + exp(-x)): no overflow on either side, and one branch at 0, so that its slope there is -1/2.
GraphTensor minus_log_sigmoid(const GraphTensor& x) {
  const GraphTensor positive = x.gt(0);
  return positive.where(0, -x) + (-positive.where(x, -x)).exp().log1p();
}

}  // namespace

GraphTensor binary_cross_entropy(const GraphTensor& probabilities, const GraphTensor& target,
                                 const BinaryCrossEntropyOptions& options, Where where) {
  const CallSite site("binary_cross_entropy", where);
  constexpr std::string_view kName = "binary_cross_entropy";
  if (options.pos_weight.valid())
    fail("[{}] pos_weight belongs to logits; use binary_cross_entropy_with_logits, or weight", kName);
  const GraphTensor p = predicted(kName, probabilities), y = matching(kName, probabilities, target);
  const auto bounded_log = [](const GraphTensor& x) { return maximum(x.log(), -100.0); };
  const GraphTensor losses = -(y * bounded_log(p) + (1 - y) * bounded_log(1 - p));
  return reduced(kName, weighted(losses, options.weight), options.reduce);
}

GraphTensor binary_cross_entropy_with_logits(const GraphTensor& logits, const GraphTensor& target,
                                             const BinaryCrossEntropyOptions& options, Where where) {
  const CallSite site("binary_cross_entropy_with_logits", where);
  constexpr std::string_view kName = "binary_cross_entropy_with_logits";
  const GraphTensor x = predicted(kName, logits), y = matching(kName, logits, target);
  // -(w y log s(x) + (1 - y) log(1 - s(x))), with log(1 - s(x)) = log s(x) - x.
  GraphTensor share = minus_log_sigmoid(x);
  if (options.pos_weight.valid()) share = share * (1 + (options.pos_weight.cast(x.dtype()) - 1) * y);
  return reduced(kName, weighted((1 - y) * x + share, options.weight), options.reduce);
}

GraphTensor focal(const GraphTensor& logits, const GraphTensor& target, const FocalOptions& options,
                  Where where) {
  const CallSite site("focal", where);
  if (!(options.gamma >= 0)) fail("[focal] gamma={} is out of range; give 0 or more", options.gamma);
  const GraphTensor x = predicted("focal", logits), y = matching("focal", logits, target);
  const GraphTensor entropy = (1 - y) * x + minus_log_sigmoid(x);
  const GraphTensor p = x.sigmoid();
  const GraphTensor missed = 1 - (p * y + (1 - p) * (1 - y));
  GraphTensor losses = entropy * (options.gamma == 2 ? missed.square() : missed.pow(options.gamma));
  if (options.alpha >= 0) losses = losses * (y * options.alpha + (1 - y) * (1 - options.alpha));
  return reduced("focal", losses, options.reduce);
}

void check_classes(std::string_view what, const TensorData& targets, int64_t classes, int64_t ignore_index) {
  visit_dtype(targets.dtype, [&](auto element) {
    if constexpr (std::is_integral_v<decltype(element)>) {
      const auto values = targets.as<decltype(element)>();
      for (size_t i = 0; i < values.size(); ++i) {
        const auto value = static_cast<int64_t>(values[i]);
        if ((value >= 0 && value < classes) || value == ignore_index) continue;
        fail(
            "[{}] the target at {} is {}, which is none of the {} classes 0..{}; fix the data{}, or give it "
            "the ignored index {}",
            what, place_of(i, targets.dims), value, classes, classes - 1,
            value == classes ? " (classes count from 0)" : "", ignore_index);
      }
    }
  });
}

void check_targets(std::span<const int32_t> targets, int64_t classes, int64_t ignore_index) {
  check_classes("targets", TensorData::of<int32_t>({std::ssize(targets)}, targets), classes, ignore_index);
}
void check_targets(std::span<const int64_t> targets, int64_t classes, int64_t ignore_index) {
  check_classes("targets", TensorData::of<int64_t>({std::ssize(targets)}, targets), classes, ignore_index);
}

}  // namespace luminal::training
