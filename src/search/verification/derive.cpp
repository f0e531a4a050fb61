#include "search/verification/derive.h"

#include <unordered_set>

#include "luminal/op_def.h"

namespace luminal::search {
namespace {

/// The nodes between the leaves and `wanted`; empty if one of them cannot be computed.
std::unordered_set<NodeId> nodes_between(const Graph& graph, const Leaves& leaves, const Value& wanted) {
  std::unordered_set<NodeId> needed;
  std::vector<NodeId> open{wanted.node};
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    if (!needed.insert(id).second) continue;
    const Node& node = graph.node(id);
    if (!is_computed(*node.op)) return {};
    for (const Edge& edge : node.inputs)
      if (!leaves.contains(edge.source)) open.push_back(edge.source.node);
  }
  return needed;
}

}  // namespace

std::shared_ptr<const TensorData> evaluate_from(const Graph& graph, const DimMap& dims, const Leaves& leaves,
                                                const Value& wanted) {
  const std::unordered_set<NodeId> needed = nodes_between(graph, leaves, wanted);
  if (needed.empty()) return nullptr;
  Graph part;
  part.set_device("reference");
  part.set_step(graph.step());
  std::unordered_map<Value, Value> place;
  const auto source_of = [&](const Value& value) {
    if (const auto known = place.find(value); known != place.end()) return known->second;
    const auto& data = leaves.at(value);
    const GraphTensor input = part.tensor(graph.type(value).dims, data->dtype);
    TensorData shaped = *data;
    shaped.dims = exec(graph.type(value).dims, dims);
    part.store(input.edge().source, std::make_shared<const TensorData>(std::move(shaped)), false);
    return place[value] = input.edge().source;
  };
  for (const NodeId id : graph.topological_order()) {
    if (!needed.contains(id)) continue;
    const Node& node = graph.node(id);
    std::vector<Edge> inputs;
    for (const Edge& edge : node.inputs) inputs.push_back({source_of(edge.source), edge.view});
    const NodeId made = part.add_node(*node.op, node.attributes, std::move(inputs));
    for (int output = 0; output < static_cast<int>(node.outputs.size()); ++output)
      if (!leaves.contains({id, output})) place[{id, output}] = {made, output};
  }
  for (const std::string& name : part.dim_names())
    if (const auto size = dims.find(name); size != dims.end()) part.set_dim(name, size->second);
  part.tensor_of(place.at(wanted)).retrieve();
  part.execute();
  return part.value(place.at(wanted));
}

}  // namespace luminal::search
