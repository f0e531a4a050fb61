#pragma once
#include <unordered_map>
#include <unordered_set>

#include "graph/finite.h"

namespace luminal::reference {

/// Interprets the graph on the inputs that it holds now, until `nodes` are evaluated, and stores nothing.
/// Returns what the values hold.  Errors: Error that names the first node to make a NaN or an infinity. Side
/// effects are not repeated: `effects` has their results, and where one is missing the walk ends.
[[nodiscard]] FiniteCheck check_nodes(Graph& graph, std::unordered_set<NodeId> nodes,
                                      const std::unordered_map<Value, TensorData>& effects);

}  // namespace luminal::reference
