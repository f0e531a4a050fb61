#include "luminal/training/optimizer.h"
#include "training/step_builder.h"

namespace luminal::training {

SGD::SGD(Graph& cx, const std::vector<GraphTensor>& parameters, const std::vector<GraphTensor>& gradients,
         const Options& options, Where where) {
  const CallSite site("SGD", where);
  check_not_negative("SGD", "momentum", options.momentum);
  check_not_negative("SGD", "weight_decay", options.weight_decay);
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0))
    fail("[SGD] nesterov with momentum={} and dampening={} is not defined; give a momentum and no dampening",
         options.momentum, options.dampening);
  StepBuilder step("SGD", cx, parameters, gradients, options.learning_rate, options.apply_if);
  const GraphTensor is_first = step.count().eq(1);
  for (size_t i = 0; i < step.size(); ++i) {
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
  finish(step);
}

RMSprop::RMSprop(Graph& cx, const std::vector<GraphTensor>& parameters,
                 const std::vector<GraphTensor>& gradients, const Options& options, Where where) {
  const CallSite site("RMSprop", where);
  check_decay("RMSprop", "alpha", options.alpha);
  check_not_negative("RMSprop", "epsilon", options.epsilon);
  check_not_negative("RMSprop", "weight_decay", options.weight_decay);
  check_not_negative("RMSprop", "momentum", options.momentum);
  StepBuilder step("RMSprop", cx, parameters, gradients, options.learning_rate, options.apply_if);
  const double fresh = 1 - options.alpha;
  for (size_t i = 0; i < step.size(); ++i) {
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
  finish(step);
}

Lion::Lion(Graph& cx, const std::vector<GraphTensor>& parameters, const std::vector<GraphTensor>& gradients,
           const Options& options, Where where) {
  const CallSite site("Lion", where);
  check_decay("Lion", "beta1", options.beta1);
  check_decay("Lion", "beta2", options.beta2);
  check_not_negative("Lion", "weight_decay", options.weight_decay);
  StepBuilder step("Lion", cx, parameters, gradients, options.learning_rate, options.apply_if);
  for (size_t i = 0; i < step.size(); ++i) {
    GraphTensor parameter = step.parameter(i);
    const GraphTensor gradient = step.gradient(i), momentum = step.state(i, "exp_avg");
    if (options.weight_decay != 0)
      parameter = parameter * (1 - step.rate() * options.weight_decay).cast(parameter.dtype());
    const GraphTensor direction = (momentum * options.beta1 + gradient * (1 - options.beta1)).sign();
    step.assign(momentum, momentum * options.beta2 + gradient * (1 - options.beta2));
    step.set_parameter(i, parameter - direction * step.rate(i));
  }
  finish(step);
}

}  // namespace luminal::training
