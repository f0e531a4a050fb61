#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "luminal/graph.h"
#include "luminal/nn/module.h"

/// Optimizers as part of the graph: they add the update of each weight as nodes and state, so one run of the
/// graph is one step. Nothing is computed when they are made.
///
///   auto gradients = cx.run_pass(Autograd(weights, loss));
///   training::Adam adam(cx, weights, gradients, {.learning_rate = 2e-3});
///   for (int64_t step = 0; step < 1000; ++step) { adam.set_learning_rate(schedule(step)); cx.execute(); }
///
/// Parameters of f16 and bf16 are rounded copies: the optimizer keeps f32 master weights, to which steps far
/// below half precision's resolution still add up.
///
/// `apply_if`, a bool of one element, makes a run count or not: where it is false neither weights nor moments
/// change (GradientAccumulator::ready, GradScaler::finite).
///
/// Parameter groups have options of their own, copies of the optimizer's with what their function changes:
///
///   training::AdamW adam(cx, weights, gradients, {.learning_rate = 3e-4, .weight_decay = 0.1},
///                        {{biases, [](auto& options) { options.weight_decay = 0; }},
///                         {head, [](auto& options) { options.learning_rate = 1e-3; }}});
///
/// Thread safety: as the graph they belong to.
namespace luminal::training {

class StepBuilder;

/// Some of an optimizer's parameters, and how their options differ from its own. Groups do not change what a
/// checkpoint calls the moments of a parameter.
template <class Options>
struct ParameterGroup {
  std::vector<GraphTensor> parameters;
  std::function<void(Options&)> change;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Sets the rate of the parameters that no group names; the rates of the groups change by the same factor,
  /// so that a schedule made for the optimizer's own rate serves them all. Rates are inputs: changing them
  /// recompiles nothing.  Errors: Error if the rate is negative or NaN, or if there are groups and the
  /// optimizer was made with a rate of 0, from which no factor follows.
  void set_learning_rate(double rate);
  /// Sets the rate of one group only, counted from 1 in the order they were given; 0 is that of the others.
  /// Errors: Error if the rate is negative or NaN, or there is no such group.
  void set_learning_rate(double rate, size_t group);
  [[nodiscard]] double learning_rate(size_t group = 0) const;
  /// Steps applied so far, as the graph's state says.
  [[nodiscard]] int64_t steps() const;
  /// Moments and step count, for checkpoints: "step", "0/exp_avg", "0/exp_avg_sq", ...; after the names
  /// of torch.optim.
  void serialize(nn::Serializer& s) const;

 protected:
  Optimizer() = default;
  Optimizer(const Optimizer&) = default;
  Optimizer& operator=(const Optimizer&) = default;
  /// Takes over what a constructor has declared.
  void finish(StepBuilder&& builder);

 private:
  [[nodiscard]] GraphTensor rate_of(size_t group) const;
  GraphTensor steps_;
  std::vector<GraphTensor> rates_;   ///< by group
  std::vector<double> first_rates_;  ///< that the options gave
  std::vector<std::pair<std::string, GraphTensor>> states_;
};

// Errors of all constructors: Error if the numbers of parameters and gradients differ, an option is out of
// range, or a group names what is no parameter, or one that another group has; ShapeError or DtypeError if a
// pair does not fit. `parameters` are inputs that hold their values; `gradients` come in the same order, of
// the same dims, as floats.

/// Stochastic gradient descent, as torch.optim.SGD.  Source: Sutskever et al. 2013 for the momentum.
class SGD : public Optimizer {
 public:
  struct Options {
    double learning_rate = 1e-3;
    double momentum = 0, dampening = 0;
    double weight_decay = 0;  ///< added to the gradient (L2)
    bool nesterov = false;
    GraphTensor apply_if = {};
  };
  SGD(Graph& cx, const std::vector<GraphTensor>& parameters, const std::vector<GraphTensor>& gradients,
      const Options& options, const std::vector<ParameterGroup<Options>>& groups = {},
      Where where = Where::current());
};

/// Adam with bias correction, as torch.optim.Adam. Source: Kingma and Ba 2015; amsgrad: Reddi et al. 2018.
class Adam : public Optimizer {
 public:
  struct Options {
    double learning_rate = 1e-3;
    double beta1 = 0.9, beta2 = 0.999;
    double epsilon = 1e-8;
    double weight_decay = 0;  ///< added to the gradient (L2), not decoupled
    bool amsgrad = false;
    GraphTensor apply_if = {};
  };
  Adam(Graph& cx, const std::vector<GraphTensor>& parameters, const std::vector<GraphTensor>& gradients,
       const Options& options, const std::vector<ParameterGroup<Options>>& groups = {},
       Where where = Where::current());
};

/// Adam with decoupled weight decay, as torch.optim.AdamW.  Source: Loshchilov and Hutter 2019.
class AdamW : public Optimizer {
 public:
  struct Options {
    double learning_rate = 1e-3;
    double beta1 = 0.9, beta2 = 0.999;
    double epsilon = 1e-8;
    double weight_decay = 1e-2;  ///< times the learning rate, off the weight itself
    bool amsgrad = false;
    GraphTensor apply_if = {};
  };
  AdamW(Graph& cx, const std::vector<GraphTensor>& parameters, const std::vector<GraphTensor>& gradients,
        const Options& options, const std::vector<ParameterGroup<Options>>& groups = {},
        Where where = Where::current());
};

/// As torch.optim.RMSprop.  Source: Tieleman and Hinton 2012; centered: Graves 2013.
class RMSprop : public Optimizer {
 public:
  struct Options {
    double learning_rate = 1e-2;
    double alpha = 0.99;
    double epsilon = 1e-8;
    double weight_decay = 0;  ///< added to the gradient (L2)
    double momentum = 0;
    bool centered = false;
    GraphTensor apply_if = {};
  };
  RMSprop(Graph& cx, const std::vector<GraphTensor>& parameters, const std::vector<GraphTensor>& gradients,
          const Options& options, const std::vector<ParameterGroup<Options>>& groups = {},
          Where where = Where::current());
};

/// Adam's direction with decay, scaled for each weight tensor by its norm over the direction's norm (1 if
/// either is 0).  Source: You et al. 2020, algorithm 2 with the identity as its phi.
class LAMB : public Optimizer {
 public:
  struct Options {
    double learning_rate = 1e-3;
    double beta1 = 0.9, beta2 = 0.999;
    double epsilon = 1e-6;
    double weight_decay = 1e-2;
    GraphTensor apply_if = {};
  };
  LAMB(Graph& cx, const std::vector<GraphTensor>& parameters, const std::vector<GraphTensor>& gradients,
       const Options& options, const std::vector<ParameterGroup<Options>>& groups = {},
       Where where = Where::current());
};

/// The sign of an interpolated momentum, with decoupled decay.  Source: Chen et al. 2023, algorithm 2.
class Lion : public Optimizer {
 public:
  struct Options {
    double learning_rate = 1e-4;
    double beta1 = 0.9, beta2 = 0.99;
    double weight_decay = 0;
    GraphTensor apply_if = {};
  };
  Lion(Graph& cx, const std::vector<GraphTensor>& parameters, const std::vector<GraphTensor>& gradients,
       const Options& options, const std::vector<ParameterGroup<Options>>& groups = {},
       Where where = Where::current());
};

}  // namespace luminal::training
