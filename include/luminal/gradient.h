#pragma once
#include <utility>
#include <vector>

#include "luminal/graph_tensor.h"

namespace luminal {

/// What an op's gradient rule works with: the node seen as tensors, and where to put the results.
/// Autograd calls the rule once per node, with the sum of what the output's readers send back, and then
/// carries the results through the edges' views by itself. Thread safety: it belongs to the thread that
/// runs Autograd.
class Gradient {
 public:
  /// For ops of one output.
  Gradient(const Node& node, std::vector<GraphTensor> inputs, GraphTensor output, GraphTensor upstream,
           std::vector<bool> wanted)
      : Gradient(node, std::move(inputs), std::vector{std::move(output)}, std::vector{std::move(upstream)},
                 std::move(wanted)) {}
  Gradient(const Node& node, std::vector<GraphTensor> inputs, std::vector<GraphTensor> outputs,
           std::vector<GraphTensor> upstreams, std::vector<bool> wanted)
      : node_(&node),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        upstreams_(std::move(upstreams)),
        wanted_(std::move(wanted)),
        results_(inputs_.size()),
        has_result_(inputs_.size(), false) {}

  /// Input `i` as the op sees it: with its view applied.
  [[nodiscard]] const GraphTensor& input(size_t i) const { return inputs_.at(i); }
  [[nodiscard]] const GraphTensor& output(size_t i = 0) const { return outputs_.at(i); }
  /// d loss / d output, of the output's dims and dtype.
  [[nodiscard]] const GraphTensor& upstream(size_t i = 0) const { return upstreams_.at(i); }
  [[nodiscard]] const Attributes& attributes() const { return node_->attributes; }
  [[nodiscard]] const Node& node() const { return *node_; }
  /// Whether the gradient of input `i` is needed; a rule may skip those that are not.
  [[nodiscard]] bool wants(size_t i) const { return wanted_.at(i); }
  /// Adds `gradient` to what input `i` gets, in the input's dtype.
  /// Shapes: gradient has input i's dims.  Errors: ShapeError if not.
  void to(size_t i, const GraphTensor& gradient);
  /// What was given to input `i`; no tensor if nothing was.
  [[nodiscard]] const GraphTensor& result(size_t i) const { return results_.at(i); }
  [[nodiscard]] bool has_result(size_t i) const { return has_result_.at(i); }

 private:
  const Node* node_;
  std::vector<GraphTensor> inputs_;
  std::vector<GraphTensor> outputs_, upstreams_;
  std::vector<bool> wanted_;
  std::vector<GraphTensor> results_;
  std::vector<bool> has_result_;
};

}  // namespace luminal
