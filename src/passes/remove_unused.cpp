#include <unordered_set>

#include "luminal/passes.h"

namespace luminal {
namespace {

/// Roots and everything they read. Order edges alone keep nothing alive.
std::unordered_set<NodeId> needed_nodes(const Graph& graph, const Remap& remap) {
  std::vector<NodeId> stack = graph.roots(remap.roots());
  for (const NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    bool stays = !is_computed(*node.op);
    for (int output = 0; output < static_cast<int>(node.outputs.size()); ++output)
      stays |= graph.is_pinned({id, output});
    if (stays) stack.push_back(id);
  }
  std::unordered_set<NodeId> needed;
  while (!stack.empty()) {
    const NodeId id = stack.back();
    stack.pop_back();
    if (!needed.insert(id).second) continue;
    for (const Edge& edge : graph.node(id).inputs) stack.push_back(edge.source.node);
  }
  return needed;
}

}  // namespace

void RemoveUnusedNodes::run(Graph& graph, Remap& remap) const {
  const std::unordered_set<NodeId> needed = needed_nodes(graph, remap);
  const std::vector<NodeId> order = graph.topological_order();
  for (auto id = order.rbegin(); id != order.rend(); ++id)
    if (!needed.contains(*id)) graph.remove(*id);  // joins the order edges on both sides
}

}  // namespace luminal
