#include "training/step_builder.h"

namespace luminal::training {
namespace {

enum class Decay { IntoGradient, Decoupled };

/// The powers of both betas after this step, kept as state: cheaper than a power each time.
struct Corrections {
  GraphTensor first, second;  ///< 1 - beta^t, f64

  Corrections(StepBuilder& step, size_t group, double beta1, double beta2) {
    const GraphTensor power1 = step.group_scalar(group, "beta1_power", 1),
                      power2 = step.group_scalar(group, "beta2_power", 1);
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
void check_options(const StepGroup<Options>& group) {
  check_decay(group.label, "beta1", group.options.beta1);
  check_decay(group.label, "beta2", group.options.beta2);
  check_not_negative(group.label, "weight_decay", group.options.weight_decay);
  check_not_negative(group.label, "epsilon", group.options.epsilon);
}

template <Decay decay, class Options>
void update_adam(StepBuilder& step, const StepGroup<Options>& group) {
  const Options& options = group.options;
  const GraphTensor& rate = step.group_rate(group.number);
  const Corrections corrections(step, group.number, options.beta1, options.beta2);
  const GraphTensor size = rate / corrections.first, root = corrections.second.rsqrt();
  for (const size_t i : group.members) {
    GraphTensor parameter = step.parameter(i), gradient = step.gradient(i);
    const Dtype dtype = parameter.dtype();
    if (options.weight_decay != 0 && decay == Decay::IntoGradient)
      gradient = gradient + parameter * options.weight_decay;
    if (options.weight_decay != 0 && decay == Decay::Decoupled)
      parameter = parameter * (1 - rate * options.weight_decay).cast(dtype);
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

void update_lamb(StepBuilder& step, const StepGroup<LAMB::Options>& group) {
  const LAMB::Options& options = group.options;
  const Corrections corrections(step, group.number, options.beta1, options.beta2);
  const GraphTensor scale = corrections.first.reciprocal(), root = corrections.second.rsqrt();
  for (const size_t i : group.members) {
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
}

}  // namespace

Adam::Adam(Graph& cx, const std::vector<GraphTensor>& parameters, const std::vector<GraphTensor>& gradients,
           const Options& options, const std::vector<ParameterGroup<Options>>& groups, Where where) {
  const CallSite site("Adam", where);
  finish(build_steps("Adam", cx, parameters, gradients, options, groups, check_options<Options>,
                     update_adam<Decay::IntoGradient, Options>));
}

AdamW::AdamW(Graph& cx, const std::vector<GraphTensor>& parameters, const std::vector<GraphTensor>& gradients,
             const Options& options, const std::vector<ParameterGroup<Options>>& groups, Where where) {
  const CallSite site("AdamW", where);
  finish(build_steps("AdamW", cx, parameters, gradients, options, groups, check_options<Options>,
                     update_adam<Decay::Decoupled, Options>));
}

LAMB::LAMB(Graph& cx, const std::vector<GraphTensor>& parameters, const std::vector<GraphTensor>& gradients,
           const Options& options, const std::vector<ParameterGroup<Options>>& groups, Where where) {
  const CallSite site("LAMB", where);
  finish(
      build_steps("LAMB", cx, parameters, gradients, options, groups, check_options<Options>, update_lamb));
}

}  // namespace luminal::training
