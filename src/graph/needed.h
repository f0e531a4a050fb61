#pragma once
#include <unordered_set>
#include <vector>

#include "luminal/graph.h"

namespace luminal {

/// The nodes whose values a run that wants `roots` computes or reads: their ancestors, order edges included,
/// up to values that are there already.
[[nodiscard]] std::unordered_set<NodeId> needed_nodes(const Graph& graph, std::vector<NodeId> roots);

}  // namespace luminal
