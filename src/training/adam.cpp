#include "luminal/training/optimizer.h"
#include "training/step_builder.h"

namespace luminal::training {
namespace {

enum class Decay { IntoGradient, Decoupled };

/// The powers of both betas after this step, kept as state: cheaper than a power each time.
struct Corrections {
  GraphTensor first, second;  ///< 1 - beta^t, f64

  Corrections(StepBuilder& step, double beta1, double beta2) {
    const GraphTensor power1 = step.scalar("beta1_power", 1), power2 = step.scalar("beta2_power", 1);
    const GraphTensor next1 = power1 * beta1, next2 = power2 * beta2;
    step.assign(power1, next1);
    step.assign(power2, next2);
    first = 1 - next1;
    second = 1 - next2;
  }
};

struct Moments {
  GraphTensor first, second;
};

/// Both moments of parameter i with this step's gradient.
Moments moments(StepBuilder& step, size_t i, const GraphTensor& gradient, double beta1, double beta2) {
  const GraphTensor m = step.state(i, "exp_avg"), v = step.state(i, "exp_avg_sq");
  const Moments next{m * beta1 + gradient * (1 - beta1), v * beta2 + gradient.square() * (1 - beta2)};
  step.assign(m, next.first);
  step.assign(v, next.second);
  return next;
}

template <class Options>
void check_betas(std::string_view name, const Options& options) {
  check_decay(name, "beta1", options.beta1);
  check_decay(name, "beta2", options.beta2);
  check_not_negative(name, "weight_decay", options.weight_decay);
}

template <class Options>
void build(StepBuilder& step, const Options& options, Decay decay) {
  const Corrections corrections(step, options.beta1, options.beta2);
  const GraphTensor size = step.rate() / corrections.first, root = corrections.second.rsqrt();
  for (size_t i = 0; i < step.size(); ++i) {
    GraphTensor parameter = step.parameter(i), gradient = step.gradient(i);
    const Dtype dtype = parameter.dtype();
    if (options.weight_decay != 0 && decay == Decay::IntoGradient)
      gradient = gradient + parameter * options.weight_decay;
    if (options.weight_decay != 0 && decay == Decay::Decoupled)
      parameter = parameter * (1 - step.rate() * options.weight_decay).cast(dtype);
    const auto [first, second] = moments(step, i, gradient, options.beta1, options.beta2);
    GraphTensor square = second;
    if (options.amsgrad) {
      const GraphTensor greatest = step.state(i, "max_exp_avg_sq");
      square = maximum(greatest, second);
      step.assign(greatest, square);
    }
    const GraphTensor denominator = square.sqrt() * root.cast(dtype) + options.epsilon;
    step.set_parameter(i, parameter - first / denominator * size.cast(dtype));
  }
}

}  // namespace

Adam::Adam(Graph& cx, const std::vector<GraphTensor>& parameters, const std::vector<GraphTensor>& gradients,
           const Options& options, Where where) {
  const CallSite site("Adam", where);
  check_betas("Adam", options);
  check_not_negative("Adam", "epsilon", options.epsilon);
  StepBuilder step("Adam", cx, parameters, gradients, options.learning_rate, options.apply_if);
  build(step, options, Decay::IntoGradient);
  finish(step);
}

AdamW::AdamW(Graph& cx, const std::vector<GraphTensor>& parameters, const std::vector<GraphTensor>& gradients,
             const Options& options, Where where) {
  const CallSite site("AdamW", where);
  check_betas("AdamW", options);
  check_not_negative("AdamW", "epsilon", options.epsilon);
  StepBuilder step("AdamW", cx, parameters, gradients, options.learning_rate, options.apply_if);
  build(step, options, Decay::Decoupled);
  finish(step);
}

LAMB::LAMB(Graph& cx, const std::vector<GraphTensor>& parameters, const std::vector<GraphTensor>& gradients,
           const Options& options, Where where) {
  const CallSite site("LAMB", where);
  check_betas("LAMB", options);
  check_not_negative("LAMB", "epsilon", options.epsilon);
  StepBuilder step("LAMB", cx, parameters, gradients, options.learning_rate, options.apply_if);
  const Corrections corrections(step, options.beta1, options.beta2);
  const GraphTensor scale = corrections.first.reciprocal(), root = corrections.second.rsqrt();
  for (size_t i = 0; i < step.size(); ++i) {
    const GraphTensor& parameter = step.parameter(i);
    const Dtype dtype = parameter.dtype();
    const auto [first, second] = moments(step, i, step.gradient(i), options.beta1, options.beta2);
    const GraphTensor adam = first * scale.cast(dtype) / (second.sqrt() * root.cast(dtype) + options.epsilon);
    const GraphTensor direction = adam + parameter * options.weight_decay;
    const GraphTensor weight_norm = parameter.norm(), direction_norm = direction.norm();
    const GraphTensor usable = weight_norm.gt(0).logical_and(direction_norm.gt(0));
    const GraphTensor trust = usable.where(weight_norm / usable.where(direction_norm, 1), 1);
    step.set_parameter(i, parameter - direction * (trust * step.rate(i)));
  }
  finish(step);
}

}  // namespace luminal::training
