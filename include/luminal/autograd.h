#pragma once
#include <vector>

#include "luminal/graph.h"
#include "luminal/pass.h"

namespace luminal {

/// Reverse-mode differentiation, as a pass that adds gradient nodes to the graph and returns one gradient for
/// each parameter, in their order.
///
///   auto grads = cx.run_pass(Autograd({w, b}, loss));                        // std::vector<GraphTensor>
///   auto second = cx.run_pass(Autograd({w}, (grads[0] * grads[0]).sum()));   // gradients are ordinary nodes
///
/// Only nodes between the parameters and the loss are visited. A loss of several elements stands for its sum.
/// A parameter may be any tensor of floats, an input or computed. One that is a view gets the gradient of the
/// value beneath, seen through the same view: a transposed weight has a transposed gradient, an element that
/// the view repeats shows its whole gradient at each place, padding has 0. A parameter that the loss does not
/// depend on gets zeros; gradients stop silently at `stop_gradient` and at ops that are constant almost
/// everywhere (floor, comparisons).
/// Shapes: gradients have the dims and dtype of their parameters.
/// Errors: Error at an op that has no gradient, naming it and the user's line; also if no parameter has one
/// because every way to the loss leads through integers or bools (argmax, a comparison); Error for tensors of
/// another graph; DtypeError if loss or a parameter is not a float.
/// Source: Griewank & Walther 2008, "Evaluating Derivatives", chapter 3. Thread safety: as the graph.
class Autograd {
 public:
  static constexpr std::string_view kName = "Autograd";
  Autograd(std::vector<GraphTensor> params, GraphTensor loss);
  /// The parameters and the loss.
  [[nodiscard]] std::vector<GraphTensor> tensors() const;
  std::vector<GraphTensor> run(Graph& graph, Remap& remap) const;

 private:
  std::vector<GraphTensor> params_;
  GraphTensor loss_;
};

}  // namespace luminal
