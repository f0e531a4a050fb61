#include "graph/needed.h"

namespace luminal {

std::unordered_set<NodeId> needed_nodes(const Graph& graph, std::vector<NodeId> roots) {
  std::unordered_set<NodeId> needed;
  while (!roots.empty()) {
    const NodeId id = roots.back();
    roots.pop_back();
    if (!needed.insert(id).second || graph.is_present(id)) continue;
    const Node& node = graph.node(id);
    for (const Edge& edge : node.inputs) roots.push_back(edge.source.node);
    roots.insert(roots.end(), node.after.begin(), node.after.end());
  }
  return needed;
}

}  // namespace luminal
