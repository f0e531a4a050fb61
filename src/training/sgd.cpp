#include "training/step_builder.h"

namespace luminal::training {
namespace {

void check_sgd(const StepGroup<SGD::Options>& group) {
  const SGD::Options& options = group.options;
  check_not_negative(group.label, "momentum", options.momentum);
  check_not_negative(group.label, "weight_decay", options.weight_decay);
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0))
    fail("[{}] nesterov with momentum={} and dampening={} is not defined; give a momentum and no dampening",
         group.label, options.momentum, options.dampening);
}

void update_sgd(StepBuilder& step, const StepGroup<SGD::Options>& group) {
  const SGD::Options& options = group.options;
  const GraphTensor is_first = step.count().eq(1);
  for (const size_t i : group.members) {
    const GraphTensor& parameter = step.parameter(i);
    GraphTensor gradient = step.gradient(i);
    if (options.weight_decay != 0) gradient = gradient + parameter * options.weight_decay;
    if (options.momentum != 0) {
      const GraphTensor buffer = step.state(i, "momentum_buffer");
      // The first gradient enters whole, without dampening.
      GraphTensor next = buffer * options.momentum + gradient * (1 - options.dampening);
      if (options.dampening != 0) next = is_first.where(gradient, next);
      step.assign(buffer, next);
      gradient = options.nesterov ? gradient + next * options.momentum : next;
    }
    step.set_parameter(i, parameter - gradient * step.rate(i));
  }
}

void check_rmsprop(const StepGroup<RMSprop::Options>& group) {
  check_decay(group.label, "alpha", group.options.alpha);
  check_not_negative(group.label, "epsilon", group.options.epsilon);
  check_not_negative(group.label, "weight_decay", group.options.weight_decay);
  check_not_negative(group.label, "momentum", group.options.momentum);
}

void update_rmsprop(StepBuilder& step, const StepGroup<RMSprop::Options>& group) {
  const RMSprop::Options& options = group.options;
  const double fresh = 1 - options.alpha;
  for (const size_t i : group.members) {
    const GraphTensor& parameter = step.parameter(i);
    GraphTensor gradient = step.gradient(i);
    if (options.weight_decay != 0) gradient = gradient + parameter * options.weight_decay;
    const GraphTensor square = step.state(i, "square_avg");
    GraphTensor spread = square * options.alpha + gradient.square() * fresh;
    step.assign(square, spread);
    if (options.centered) {
      const GraphTensor mean = step.state(i, "grad_avg");
      const GraphTensor next = mean * options.alpha + gradient * fresh;
      step.assign(mean, next);
      spread = spread - next.square();
    }
    GraphTensor direction = gradient / (spread.sqrt() + options.epsilon);
    if (options.momentum != 0) {
      const GraphTensor buffer = step.state(i, "momentum_buffer");
      direction = buffer * options.momentum + direction;
      step.assign(buffer, direction);
    }
    step.set_parameter(i, parameter - direction * step.rate(i));
  }
}

void check_lion(const StepGroup<Lion::Options>& group) {
  check_decay(group.label, "beta1", group.options.beta1);
  check_decay(group.label, "beta2", group.options.beta2);
  check_not_negative(group.label, "weight_decay", group.options.weight_decay);
}

void update_lion(StepBuilder& step, const StepGroup<Lion::Options>& group) {
  const Lion::Options& options = group.options;
  for (const size_t i : group.members) {
    GraphTensor parameter = step.parameter(i);
    const GraphTensor gradient = step.gradient(i), momentum = step.state(i, "exp_avg");
    if (options.weight_decay != 0)
      parameter =
          parameter * (1 - step.group_rate(group.number) * options.weight_decay).cast(parameter.dtype());
    const GraphTensor direction = (momentum * options.beta1 + gradient * (1 - options.beta1)).sign();
    step.assign(momentum, momentum * options.beta2 + gradient * (1 - options.beta2));
    step.set_parameter(i, parameter - direction * step.rate(i));
  }
}

}  // namespace

SGD::SGD(Graph& cx, const std::vector<GraphTensor>& parameters, const std::vector<GraphTensor>& gradients,
         const Options& options, const std::vector<ParameterGroup<Options>>& groups, Where where) {
  const CallSite site("SGD", where);
  finish(build_steps("SGD", cx, parameters, gradients, options, groups, check_sgd, update_sgd));
}

RMSprop::RMSprop(Graph& cx, const std::vector<GraphTensor>& parameters,
                 const std::vector<GraphTensor>& gradients, const Options& options,
                 const std::vector<ParameterGroup<Options>>& groups, Where where) {
  const CallSite site("RMSprop", where);
  finish(build_steps("RMSprop", cx, parameters, gradients, options, groups, check_rmsprop, update_rmsprop));
}

Lion::Lion(Graph& cx, const std::vector<GraphTensor>& parameters, const std::vector<GraphTensor>& gradients,
           const Options& options, const std::vector<ParameterGroup<Options>>& groups, Where where) {
  const CallSite site("Lion", where);
  finish(build_steps("Lion", cx, parameters, gradients, options, groups, check_lion, update_lion));
}

}  // namespace luminal::training
