#include "graph/subgraph.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "base/fail.h"
#include "base/fork.h"
#include "base/hash.h"

namespace luminal {
namespace {

/// Copies nodes from one graph to another.
class SubgraphCopy {
 public:
  SubgraphCopy(const Graph& from, Graph& to) : from_(from), to_(to) {}
  void put(const Value& value, Edge edge) { places_.insert_or_assign(value, std::move(edge)); }
  [[nodiscard]] bool has(const Value& value) const { return places_.contains(value); }
  /// Its inputs are there already.
  void copy(NodeId id) {
    const Node& node = from_.node(id);
    const Graph::OriginScope scope(to_, node.origin);
    std::vector<Edge> inputs;
    for (const Edge& edge : node.inputs) inputs.push_back(place_of(edge));
    const NodeId made = to_.add_node(*node.op, node.attributes, std::move(inputs));
    for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i)
      put({id, i}, to_.tensor_of(Value{made, i}).edge());
  }
  [[nodiscard]] Edge place_of(const Edge& edge) const {
    const Edge& place = places_.at(edge.source);
    if (place.view.is_identity()) return {place.source, edge.view};
    if (edge.view.is_identity()) return place;
    return {place.source, place.view.then(edge.view)};
  }

 private:
  const Graph& from_;
  Graph& to_;
  std::unordered_map<Value, Edge> places_;
};

/// In an order in which each comes behind what it reads.
std::vector<NodeId> nodes_of_part(const Graph& graph, std::span<const Value> inputs,
                                  std::span<const Edge> outputs, const std::function<bool(NodeId)>& belongs) {
  std::unordered_set<NodeId> given, seen;
  for (const Value& input : inputs) given.insert(input.node);
  std::vector<NodeId> stack;
  for (const Edge& edge : outputs) stack.push_back(edge.source.node);
  while (!stack.empty()) {
    const NodeId id = stack.back();
    stack.pop_back();
    if (given.contains(id) || !belongs(id) || !seen.insert(id).second) continue;
    for (const Edge& edge : graph.node(id).inputs) stack.push_back(edge.source.node);
  }
  if (seen.empty()) return {};
  std::vector<NodeId> order = graph.topological_order();
  std::erase_if(order, [&](NodeId id) { return !seen.contains(id); });
  return order;
}

}  // namespace

Extracted extract(const Graph& graph, std::span<const Value> inputs, std::span<const Edge> outputs,
                  const std::function<bool(NodeId)>& belongs) {
  const std::vector<NodeId> order = nodes_of_part(graph, inputs, outputs, belongs);
  const std::unordered_set<NodeId> inside(order.begin(), order.end());
  Extracted result{.part = std::make_shared<Subgraph>(), .captured = {}};
  Subgraph& part = *result.part;
  SubgraphCopy copy(graph, part.graph);
  const auto add_input = [&](const Value& value) {
    const TensorType& type = graph.type(value);
    const Graph::OriginScope scope(part.graph, graph.node(value.node).origin);
    const GraphTensor input = part.graph.tensor(type.dims, type.dtype);
    copy.put(value, input.edge());
    part.inputs.push_back(input.edge().source);
  };
  for (const Value& value : inputs) add_input(value);
  const auto capture = [&](const Edge& edge) {
    if (inside.contains(edge.source.node) || copy.has(edge.source)) return;
    add_input(edge.source);
    result.captured.push_back(edge.source);
  };
  for (const NodeId id : order)
    for (const Edge& edge : graph.node(id).inputs) capture(edge);
  for (const Edge& edge : outputs) capture(edge);
  for (const NodeId id : order) copy.copy(id);
  for (const Edge& edge : outputs) part.outputs.push_back(copy.place_of(edge));
  return result;
}

std::vector<GraphTensor> inlined(const Subgraph& part, Graph& into, std::span<const GraphTensor> inputs) {
  LUMINAL_CHECK(inputs.size() == part.inputs.size(), "{} inputs for a subgraph of {}", inputs.size(),
                part.inputs.size());
  SubgraphCopy copy(part.graph, into);
  for (size_t i = 0; i < inputs.size(); ++i) copy.put(part.inputs[i], inputs[i].edge());
  for (const NodeId id : part.graph.topological_order())
    if (!copy.has({id, 0})) copy.copy(id);
  std::vector<GraphTensor> outputs;
  for (const Edge& edge : part.outputs) outputs.push_back(into.tensor_of(copy.place_of(edge)));
  return outputs;
}

namespace {

uint64_t hash_of_edge(const Edge& edge) {
  return combine(combine(edge.source.node.index, static_cast<uint64_t>(edge.source.output)),
                 edge.view.hash());
}

uint64_t hash_of_subgraph(const Subgraph& part) {
  uint64_t hash = part.inputs.size();
  for (const NodeId id : part.graph.nodes()) {
    const Node& node = part.graph.node(id);
    hash = combine(combine(hash, hash_bytes(node.op->name)), node.attributes.hash());
    for (const Edge& edge : node.inputs) hash = combine(hash, hash_of_edge(edge));
  }
  for (const Edge& edge : part.outputs) hash = combine(hash, hash_of_edge(edge));
  return hash;
}

bool same_edges(const std::vector<Edge>& a, const std::vector<Edge>& b) {
  return std::ranges::equal(a, b, [](const Edge& x, const Edge& y) {
    return x.source.node.index == y.source.node.index && x.source.output == y.source.output &&
           x.view == y.view;
  });
}

/// Nodes are numbered in the order in which they were copied, so equal subgraphs have equal numbers.
bool same_subgraph(const Subgraph& a, const Subgraph& b) {
  const std::vector<NodeId> ours = a.graph.nodes(), theirs = b.graph.nodes();
  const auto index = [](const Value& value) { return value.node.index; };
  return std::ranges::equal(a.inputs, b.inputs, {}, index, index) && same_edges(a.outputs, b.outputs) &&
         std::ranges::equal(ours, theirs, [&](NodeId x, NodeId y) {
           const Node &one = a.graph.node(x), &other = b.graph.node(y);
           return x.index == y.index && one.op == other.op && one.attributes == other.attributes &&
                  one.outputs == other.outputs && same_edges(one.inputs, other.inputs);
         });
}

struct InternedSubgraphs {
  InternedSubgraphs() { hold_while_forking(mutex); }
  std::mutex mutex;
  std::unordered_multimap<uint64_t, std::weak_ptr<const Subgraph>> by_hash;
  size_t sweep_at = 256;  ///< entries at which those of dead subgraphs go
};

}  // namespace

std::shared_ptr<const Subgraph> interned(std::shared_ptr<const Subgraph> part) {
  static auto* const known = new InternedSubgraphs;
  const uint64_t hash = hash_of_subgraph(*part);
  std::vector<std::shared_ptr<const Subgraph>> others;  // freed behind the lock: they may hold subgraphs
  const std::scoped_lock lock(known->mutex);
  for (auto [at, end] = known->by_hash.equal_range(hash); at != end;) {
    const auto& other = others.emplace_back(at->second.lock());
    if (other && same_subgraph(*other, *part)) return other;
    at = other ? std::next(at) : known->by_hash.erase(at);
  }
  known->by_hash.emplace(hash, part);
  if (known->by_hash.size() >= known->sweep_at) {
    std::erase_if(known->by_hash, [](const auto& entry) { return entry.second.expired(); });
    known->sweep_at = std::max<size_t>(256, 2 * known->by_hash.size());
  }
  return part;
}

std::string summary_of(const Subgraph& part) {
  const size_t inputs = part.inputs.size(), outputs = part.outputs.size(),
               nodes = part.graph.node_count() - inputs;
  const auto counted = [](size_t count, std::string_view what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  return fmt::format("{}, {}, {}", counted(inputs, "input"), counted(nodes, "node"),
                     counted(outputs, "output"));
}

}  // namespace luminal
