#include "passes/autograd/redraw.h"

namespace luminal::autograd {

Redraw::Origin Redraw::origin(NodeId id) {
  if (const auto known = origins_.find(id); known != origins_.end()) return known->second;
  const Node& node = graph_.node(id);
  Origin result{false, false};
  if (node.op->is(Trait::Leaf)) {
    result = {is_computed(*node.op), node.op->is(Trait::Stateful)};
  } else if (node.op->elementwise && node.after.empty() && !graph_.is_present(id)) {
    result.leaves_only = true;
    for (const Edge& edge : node.inputs) {
      const Origin below = origin(edge.source.node);
      result.leaves_only &= below.leaves_only;
      result.random |= below.random;
    }
  }
  if (graph_.is_kept({id, 0})) result.leaves_only = false;  // of an earlier run
  origins_.emplace(id, result);
  return result;
}

NodeId Redraw::copy(NodeId id) {
  if (const auto known = copies_.find(id); known != copies_.end()) return known->second;
  if (!origin(id).random) return id;  // constants are nobody's memory
  const Node node = graph_.node(id);  // a copy: nodes are added below
  std::vector<Edge> inputs;
  for (const Edge& edge : node.inputs)
    inputs.push_back({{copy(edge.source.node), edge.source.output}, edge.view});
  const NodeId made = graph_.add_node(*node.op, node.attributes, std::move(inputs));
  copies_.emplace(id, made);
  return made;
}

Edge Redraw::operator()(const Edge& edge) {
  const Origin from = origin(edge.source.node);
  if (!from.leaves_only || !from.random) return edge;
  return {{copy(edge.source.node), edge.source.output}, edge.view};
}

}  // namespace luminal::autograd
