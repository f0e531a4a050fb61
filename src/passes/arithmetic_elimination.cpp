#include "base/log.h"
#include "luminal/passes.h"
#include "passes/arithmetic_rules.h"

namespace luminal {
namespace {

/// The first law that changes `id`. The value in its place, or nothing.
std::optional<Edge> improve(Graph& graph, NodeId id, MathMode mode, const passes::Untouchable& untouchable) {
  const Node node = graph.node(id);  // a copy: laws add nodes
  const Graph::OriginScope scope(graph, node.origin);
  for (const passes::ArithmeticRule& rule : passes::arithmetic_rules()) {
    const std::optional<Edge> better = rule.apply({graph, node, mode, untouchable});
    if (!better || better->view.dims() != node.outputs[0].dims) continue;
    if (!untouchable.may_replace({id, 0}, better->source)) continue;
    debug(7, "[rule] {} on node {} ({}): {}", rule.name, id.index, node.op->name, rule.reason);
    return better;
  }
  return std::nullopt;
}

}  // namespace

void ArithmeticElimination::run(Graph& graph, Remap& remap) const {
  const passes::Untouchable untouchable(graph, remap);
  // Laws look at what a node reads, and that is final when the node's turn comes: one sweep is enough. A node
  // that a law makes has its turn at once.
  for (const NodeId first : graph.topological_order()) {
    NodeId id = first;
    while (!untouchable.fixed(id) && graph.node(id).outputs.size() == 1) {
      const std::optional<Edge> better = improve(graph, id, mode_, untouchable);
      if (!better) break;
      graph.replace({id, 0}, *better);
      graph.remove(id);
      id = better->source.node;
    }
  }
}

}  // namespace luminal
