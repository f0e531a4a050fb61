#include <algorithm>
#include <unordered_map>

#include "base/hash.h"
#include "luminal/passes.h"
#include "passes/rewrite.h"

namespace luminal {
namespace {

/// Whether readers of an equal node may read this one. A held value may be an older one, and an ordered node
/// may have to wait for a reader of the other.
bool can_stand_for_others(const Node& node, NodeId id, const passes::Untouchable& untouchable) {
  const bool pure = is_computed(*node.op) && !node.op->is(Trait::Stateful) &&
                    !node.op->is(Trait::SideEffect) && !node.op->is(Trait::Opaque);
  return pure && node.after.empty() && !untouchable.held(id);
}

uint64_t hash_of(const Edge& edge) {
  const uint64_t source = combine(edge.source.node.index, static_cast<uint64_t>(edge.source.output));
  return combine(source, edge.view.hash());
}

/// What a node computes, in a form that equal nodes share.
struct Computation {
  const OpDef* op;
  const Attributes* attributes;
  const std::vector<TensorType>* outputs;
  std::vector<Edge> inputs;
  uint64_t hash;

  Computation(const Graph& graph, const Node& node, MathMode mode)
      : op(node.op), attributes(&node.attributes), outputs(&node.outputs), inputs(node.inputs) {
    // An attribute could tell operands apart, as `ties` does.
    const bool may_swap = op->is(Trait::Commutative) && inputs.size() == 2 && attributes->entries().empty() &&
                          (mode != MathMode::Strict || !is_float(graph.type(inputs[0].source).dtype));
    if (may_swap && hash_of(inputs[1]) < hash_of(inputs[0])) std::swap(inputs[0], inputs[1]);
    hash = combine(hash_bytes(op->name), attributes->hash());
    for (const Edge& edge : inputs) hash = combine(hash, hash_of(edge));
  }

  friend bool operator==(const Computation& a, const Computation& b) {
    return a.op == b.op && *a.attributes == *b.attributes && *a.outputs == *b.outputs && a.inputs == b.inputs;
  }
};

}  // namespace

void CSE::run(Graph& graph, Remap& remap) const {
  const passes::Untouchable untouchable(graph, remap);
  std::unordered_multimap<uint64_t, NodeId> known;
  const auto find = [&](const Computation& wanted) -> std::optional<NodeId> {
    for (auto [at, end] = known.equal_range(wanted.hash); at != end; ++at)
      if (Computation(graph, graph.node(at->second), mode_) == wanted) return at->second;
    return std::nullopt;
  };
  for (const NodeId id : graph.topological_order()) {
    const Node& node = graph.node(id);
    if (!can_stand_for_others(node, id, untouchable)) continue;
    const Computation computation(graph, node, mode_);
    const std::optional<NodeId> twin = find(computation);
    if (!twin) {
      known.emplace(computation.hash, id);
    } else if (untouchable.may_replace({id, 0}, {*twin, 0})) {
      for (int output = 0; output < static_cast<int>(node.outputs.size()); ++output)
        graph.replace(
            {id, output},
            {{*twin, output}, ShapeTracker::contiguous(node.outputs[static_cast<size_t>(output)].dims)});
      graph.remove(id);
    }
  }
}

}  // namespace luminal
