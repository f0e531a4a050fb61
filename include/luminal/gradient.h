#pragma once
#include <vector>

#include "luminal/graph_tensor.h"

namespace luminal {

/// What an op's gradient rule works with: the node seen as tensors, and where to put the results.
/// Autograd calls the rule once per node, with the sum of what the output's readers send back, and then
/// carries the results through the edges' views by itself.
class Gradient {
 public:
  Gradient(const Node& node, std::vector<GraphTensor> inputs, GraphTensor output, GraphTensor upstream,
           std::vector<bool> wanted)
      : node_(&node),
        inputs_(std::move(inputs)),
        output_(std::move(output)),
        upstream_(std::move(upstream)),
        wanted_(std::move(wanted)),
        results_(inputs_.size()) {}

  /// Input `i` as the op sees it: with its view applied.
  [[nodiscard]] const GraphTensor& input(size_t i) const { return inputs_.at(i); }
  [[nodiscard]] const GraphTensor& output() const { return output_; }
  /// d loss / d output, of the output's dims and dtype.
  [[nodiscard]] const GraphTensor& upstream() const { return upstream_; }
  [[nodiscard]] const Attributes& attributes() const { return node_->attributes; }
  [[nodiscard]] const Node& node() const { return *node_; }
  /// Whether anyone needs the gradient of input `i`; a rule may skip those nobody needs.
  [[nodiscard]] bool wants(size_t i) const { return wanted_.at(i); }
  /// Adds `gradient` (of input i's dims) to what input `i` gets.
  void to(size_t i, const GraphTensor& gradient);
  /// What was given to input `i`; invalid tensor if nothing was.
  [[nodiscard]] const GraphTensor& result(size_t i) const { return results_.at(i); }

 private:
  const Node* node_;
  std::vector<GraphTensor> inputs_;
  GraphTensor output_, upstream_;
  std::vector<bool> wanted_;
  std::vector<GraphTensor> results_;
};

}  // namespace luminal
