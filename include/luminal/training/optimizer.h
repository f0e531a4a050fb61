#pragma once
#include <vector>

#include "luminal/graph.h"
#include "luminal/nn/module.h"

/// Optimizers as part of the graph: they add the update of each weight as nodes and state, so one run of the
/// graph is one step. Nothing is computed when they are made.
///
///   auto gradients = cx.compile(Autograd(weights, loss), loss, weights);
///   training::Adam adam(cx, weights, gradients, {.learning_rate = 2e-3});
///   for (...) { adam.set_learning_rate(schedule(step)); cx.execute(); }
namespace luminal::training {

/// Adam with bias correction, as torch.optim.Adam. Source: Kingma and Ba 2015.
/// The learning rate is an input: changing it compiles nothing anew.
class Adam {
 public:
  struct Options {
    double learning_rate = 1e-3;
    double beta1 = 0.9, beta2 = 0.999;
    double epsilon = 1e-8;
    double weight_decay = 0;  ///< added to the gradient (L2), not decoupled
  };

  /// `parameters` are inputs that hold their values; `gradients` in the same order, of the same dims and
  /// dtypes. Errors: Error if the counts differ, ShapeError or DtypeError if a pair does not fit, Error if an
  /// option is out of range.
  Adam(Graph& cx, const std::vector<GraphTensor>& parameters, const std::vector<GraphTensor>& gradients,
       const Options& options, Where where = Where::current());

  void set_learning_rate(double rate);
  /// Moments and step count, for checkpoints: "step", "0/exp_avg", "0/exp_avg_sq", ...
  void serialize(nn::Serializer& s) const;

 private:
  GraphTensor learning_rate_;
  GraphTensor steps_, beta1_power_, beta2_power_;
  std::vector<GraphTensor> first_moments_, second_moments_;
};

}  // namespace luminal::training
