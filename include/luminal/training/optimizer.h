#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "luminal/graph.h"
#include "luminal/nn/module.h"

/// Optimizers as part of the graph: they add the update of each weight as nodes and state, so one run of the
/// graph is one step. Nothing is computed when they are made.
///
///   auto gradients = cx.compile(Autograd(weights, loss), loss, weights);
///   training::Adam adam(cx, weights, gradients, {.learning_rate = 2e-3});
///   for (int64_t step = 0; step < 1000; ++step) { adam.set_learning_rate(schedule(step)); cx.execute(); }
///
/// Parameters of f16 and bf16 are rounded copies: the optimizer keeps f32 master weights, to which steps far
/// below half precision's resolution still add up.
///
/// `apply_if`, a bool of one element, makes a run count or not: where it is false neither weights nor moments
/// change (GradientAccumulator::ready, GradScaler::finite).
/// Thread safety: as the graph they belong to.
namespace luminal::training {

class StepBuilder;

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// The learning rate is an input: changing it recompiles nothing. Errors: Error if it is negative or
  /// NaN.
  void set_learning_rate(double rate);
  [[nodiscard]] double learning_rate() const;
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
  void finish(StepBuilder& builder);

 private:
  GraphTensor learning_rate_, steps_;
  std::vector<std::pair<std::string, GraphTensor>> states_;
};

// Errors of all constructors: Error if the numbers of parameters and gradients differ or an option is out of
// range, ShapeError or DtypeError if a pair does not fit. `parameters` are inputs that hold their values;
// `gradients` come in the same order, of the same dims, as floats.

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
      const Options& options, Where where = Where::current());
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
       const Options& options, Where where = Where::current());
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
        const Options& options, Where where = Where::current());
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
          const Options& options, Where where = Where::current());
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
       const Options& options, Where where = Where::current());
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
       const Options& options, Where where = Where::current());
};

}  // namespace luminal::training
