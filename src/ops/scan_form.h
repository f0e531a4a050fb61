#pragma once
#include <cstddef>
#include <memory>
#include <optional>

#include "graph/subgraph.h"

namespace luminal {

/// What the attributes of a loop over steps say. Inputs of the node are the carried state as it is before the
/// first step, sequences [length, ...] of which each step sees one element, and values that all steps share;
/// outputs are the state behind the last step and sequences of what the steps hand out. The body takes and
/// gives the same, for one step.
struct ScanForm {
  std::shared_ptr<const Subgraph> body;
  size_t carries = 0, sequences = 0;
  Expression length;
  bool reverse = false;  ///< the last element first

  [[nodiscard]] size_t inputs() const { return body->inputs.size(); }
  [[nodiscard]] size_t outputs() const { return body->outputs.size(); }
  [[nodiscard]] bool is_sequence(size_t input) const {
    return input >= carries && input < carries + sequences;
  }
  [[nodiscard]] TensorType input_type(size_t i) const { return body->graph.type(body->inputs[i]); }
  [[nodiscard]] TensorType output_type(size_t i) const {
    const Edge& edge = body->outputs[i];
    return {body->graph.type(edge.source).dtype, edge.view.dims()};
  }

  [[nodiscard]] Attributes attributes() const;
  /// None if the attributes are not those of such a loop.
  [[nodiscard]] static std::optional<ScanForm> of(const Attributes& attributes);
};

}  // namespace luminal
