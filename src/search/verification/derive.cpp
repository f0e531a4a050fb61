#include "search/verification/derive.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <unordered_set>

#include "base/fail.h"
#include "luminal/op_def.h"
#include "search/encode/node_spec.h"

namespace luminal::search {
namespace {

/// The nodes between the leaves and the wanted values.
std::unordered_set<NodeId> nodes_between(const Graph& graph, const Leaves& leaves,
                                         std::span<const Value> wanted) {
  std::unordered_set<NodeId> needed;
  std::vector<NodeId> open;
  for (const Value& value : wanted) open.push_back(value.node);
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    if (!needed.insert(id).second) continue;
    const Node& node = graph.node(id);
    LUMINAL_CHECK(is_computed(*node.op), "{} #{} has no value to evaluate others from", node.op->name,
                  id.index);
    for (const Edge& edge : node.inputs)
      if (!leaves.contains(edge.source)) open.push_back(edge.source.node);
  }
  return needed;
}

/// The nodes of a graph, sources first, and their places. Each thread keeps those of the graph that it asked about last:
/// thousands of questions are about one.
struct NodeOrder {
  std::vector<NodeId> nodes;
  std::unordered_map<NodeId, size_t> places;

  static const NodeOrder& of(const Graph& graph) {
    thread_local NodeOrder order;
    thread_local uint64_t version = 0;
    if (!order.nodes.empty() && version == graph.version() && graph.contains(order.nodes[0])) return order;
    order = {.nodes = graph.topological_order(), .places = {}};
    for (const NodeId id : order.nodes) order.places.emplace(id, order.places.size());
    version = graph.version();
    return order;
  }
};

}  // namespace

std::vector<std::shared_ptr<const TensorData>> evaluate_from(const Graph& graph, const DimMap& dims,
                                                             const Leaves& leaves,
                                                             std::span<const Value> wanted) {
  const std::unordered_set<NodeId> needed = nodes_between(graph, leaves, wanted);
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
  for (const NodeId id : NodeOrder::of(graph).nodes) {
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
  for (const Value& value : wanted) part.tensor_of(place.at(value)).retrieve();
  part.execute();
  std::vector<std::shared_ptr<const TensorData>> made;
  for (const Value& value : wanted) made.push_back(part.value(place.at(value)));
  return made;
}

namespace {

/// A set of nodes by their places in the order of the graph. Empty ones have no words.
class Places {
 public:
  [[nodiscard]] bool empty() const { return words_.empty(); }
  void insert(size_t place) {
    words_.resize(std::max(words_.size(), place / kBits + 1));
    words_[place / kBits] |= uint64_t{1} << place % kBits;
  }
  void insert(const Places& other) {
    words_.resize(std::max(words_.size(), other.words_.size()));
    for (size_t i = 0; i < other.words_.size(); ++i) words_[i] |= other.words_[i];
  }
  [[nodiscard]] bool contains(size_t place) const {
    return place / kBits < words_.size() && (words_[place / kBits] >> place % kBits & 1) != 0;
  }
  [[nodiscard]] bool meets(const Places& other) const {
    for (size_t i = 0; i < std::min(words_.size(), other.words_.size()); ++i)
      if ((words_[i] & other.words_[i]) != 0) return true;
    return false;
  }

 private:
  static constexpr size_t kBits = 64;
  std::vector<uint64_t> words_;
};

/// Tensors that are drawn at random for now. Of two that depend on each other the later one is replaced by
/// what its node reads: what is near the tensors first, for the work is limited.
class OriginSearch {
 public:
  OriginSearch(const Graph& graph, const DimMap& dims, const DeriveLimits& limits)
      : graph_(graph), dims_(dims), limits_(limits), place_(NodeOrder::of(graph).places) {}

  Origins run(std::vector<Names> tensors) {
    const int64_t allowed = limits_.operations;
    for (Names& names : tensors) add(std::move(names), 0);
    std::optional<Before> before;
    while (Origin* const origin = nearest_dependent()) {
      const bool is_forced = is_determined(*origin);
      if (!is_forced) before = Before{origins_, expanded_, limits_.operations, origin->names[0]};
      if (expand(*origin)) continue;
      // What the others determine may not be drawn beside them: the step that led to it is taken back.
      Value kept = origin->names[0];
      if (is_forced && before) {
        kept = before->value;
        origins_ = std::move(before->origins);
        expanded_ = std::move(before->expanded);
        limits_.operations = before->left;
        before.reset();
      }
      std::ranges::find(origins_, kept, [](const Origin& o) { return o.names[0]; })->fixed = true;
    }
    Origins origins{.tensors = {}, .operations = allowed - limits_.operations};
    for (Origin& origin : origins_) origins.tensors.push_back(std::move(origin.names));
    return origins;
  }

 private:
  struct Origin {
    Names names;
    int distance = 0;  ///< nodes between it and a tensor
    /// By name: the nodes that it is made from and that differ from run to run, its own included.
    std::vector<const Places*> from;
    bool fixed = false;  ///< no kernel computes its node, or evaluating it takes too long
  };
  /// What there was before an origin was replaced that the others left open.
  struct Before {
    std::vector<Origin> origins;
    std::unordered_set<NodeId> expanded;
    int64_t left = 0;  ///< operations
    Value value;
  };

  [[nodiscard]] size_t place_of(const Origin& origin) const { return place_.at(origin.names[0].node); }

  void add(Names names, int distance) {
    Origin origin{.names = std::move(names), .distance = distance, .from = {}};
    for (const Value& value : origin.names) origin.from.push_back(&made_from(value.node));
    // Host ops take not every input: numbers drawn at random are no indices of a gather.
    const Node& node = graph_.node(origin.names[0].node);
    origin.fixed = !is_computed(*node.op) || !has_spec(node);
    origins_.push_back(std::move(origin));
  }

  /// Empty where nothing but constants and formulas is needed.
  const Places& made_from(NodeId id) {
    if (const auto known = made_from_.find(id); known != made_from_.end()) return known->second;
    const Node& node = graph_.node(id);
    Places from;
    for (const Edge& edge : node.inputs) from.insert(made_from(edge.source.node));
    if (!from.empty() || !is_computed(*node.op)) from.insert(place_.at(id));
    return made_from_[id] = std::move(from);
  }

  /// Whether `origin` is made from `other`, or both from something that can still be reached.
  [[nodiscard]] bool depends(const Origin& origin, const Origin& other) const {
    const Places& from = *origin.from[0];
    for (size_t n = 0; n < other.names.size(); ++n) {
      if (from.contains(place_.at(other.names[n].node))) return true;
      if (!other.fixed && place_of(other) < place_of(origin) && from.meets(*other.from[n])) return true;
    }
    return false;
  }

  /// Whether the other origins and constants leave one value for `origin`: no walk back from it ends elsewhere, or at a
  /// node that no kernel computes. A tensor of the unit may be drawn beside others that determine it where evaluating
  /// takes too long: the kernel reads it as it is. What lies behind one may not: the kernel may compute it itself.
  [[nodiscard]] bool is_determined(const Origin& origin) const {
    std::unordered_set<NodeId> seen;
    std::vector<NodeId> open{origin.names[0].node};
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      if (!seen.insert(id).second) continue;
      const Node& node = graph_.node(id);
      if (!is_computed(*node.op) || !has_spec(node)) return false;
      if (origin.distance == 0 && operations_of(node) > limits_.of_one_node) return false;
      for (const Edge& edge : node.inputs)
        if (!is_origin(edge.source)) open.push_back(edge.source.node);
    }
    return true;
  }

  [[nodiscard]] bool is_origin(const Value& value) const {
    return std::ranges::any_of(origins_, [&](const Origin& origin) {
      return std::ranges::find(origin.names, value) != origin.names.end();
    });
  }

  /// Of those that can be expanded and depend on another one, or on nothing that varies: first what the others
  /// determine, for no graph can produce it beside them otherwise; then the nearest; of these the last in the
  /// order of the graph. Null if there is none.
  Origin* nearest_dependent() {
    Origin* nearest = nullptr;
    std::tuple<bool, int, size_t> highest;
    for (Origin& origin : origins_) {
      if (origin.fixed) continue;
      const bool is_constant = origin.from[0]->empty();
      if (!is_constant && std::ranges::none_of(origins_, [&](const Origin& other) {
            return &other != &origin && depends(origin, other);
          }))
        continue;
      const std::tuple rank(is_determined(origin), -origin.distance, place_of(origin));
      if (nearest != nullptr && rank < highest) continue;
      nearest = &origin;
      highest = rank;
    }
    return nearest;
  }

  [[nodiscard]] int64_t operations_of(const Node& node) const {
    int64_t operations = 0;
    for (const TensorType& type : node.outputs) operations += element_count(type.dims).exec(dims_);
    for (const Edge& edge : node.inputs) operations += element_count(edge.view.dims()).exec(dims_);
    return operations;
  }

  /// False if evaluating the node takes too long.
  bool expand(const Origin& origin) {
    const NodeId id = origin.names[0].node;
    const Node& node = graph_.node(id);
    const int64_t operations = operations_of(node);
    if (operations > std::min(limits_.operations, limits_.of_one_node)) return false;
    limits_.operations -= operations;
    expanded_.insert(id);
    const int distance = origin.distance + 1;
    std::erase_if(origins_, [&](const Origin& other) { return other.names[0].node == id; });
    for (const Edge& edge : node.inputs) {
      if (!is_origin(edge.source) && !expanded_.contains(edge.source.node)) add({edge.source}, distance);
    }
    return true;
  }

  const Graph& graph_;
  const DimMap& dims_;
  DeriveLimits limits_;
  const std::unordered_map<NodeId, size_t>& place_;
  std::unordered_map<NodeId, Places> made_from_;
  std::unordered_set<NodeId> expanded_;
  std::vector<Origin> origins_;
};

}  // namespace

Origins common_origins(const Graph& graph, const DimMap& dims, std::vector<Names> tensors,
                       const DeriveLimits& limits) {
  return OriginSearch(graph, dims, limits).run(std::move(tensors));
}

}  // namespace luminal::search
