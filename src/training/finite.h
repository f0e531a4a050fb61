#pragma once
#include <set>
#include <string>

#include "luminal/graph.h"

namespace luminal::training {

/// What to do about a loss that is not finite: the data or the weight that it comes from, if one is to blame.
[[nodiscard]] std::string remedy(const GraphTensor& loss);

/// Inputs that the tensor depends on, weights and data alike.
[[nodiscard]] std::set<NodeId> inputs_of(const Graph& graph, const GraphTensor& tensor);

}  // namespace luminal::training
