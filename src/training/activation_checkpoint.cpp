#include "luminal/training/activation_checkpoint.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "base/call_site.h"
#include "base/fail.h"
#include "base/log.h"
#include "luminal/passes.h"

namespace luminal::training {
namespace {

// A part is known by a name in the origin of its nodes, "checkpoint 7", which passes keep as they keep the
// user's line; Autograd puts kGradient behind it for the nodes it makes.
constexpr std::string_view kMark = "checkpoint ", kGradient = "gradient";

std::string next_mark() {
  static std::atomic<uint64_t> count{0};
  return std::string(kMark) + std::to_string(++count);
}

struct PartPlace {
  std::string_view part;  ///< empty: in none
  bool gradient = false;
};

PartPlace part_place_of(const Node& node) {
  PartPlace place;
  if (!node.origin) return place;
  for (const std::string& op : node.origin->ops) {
    if (place.part.empty() && op.starts_with(kMark)) place.part = op;
    place.gradient |= op == kGradient;
  }
  return place;
}

/// One marked part and the gradient nodes that read from inside of it.
struct Part {
  std::unordered_set<NodeId> nodes;
  std::vector<Use> readers;
};

class Recompute {
 public:
  explicit Recompute(Graph& graph) : graph_(graph), order_(graph.topological_order()) {
    for (size_t i = 0; i < order_.size(); ++i) rank_[order_[i]] = i;
  }

  RecomputeCheckpoints::Report run() {
    RecomputeCheckpoints::Report report;
    for (auto& [name, part] : parts()) {
      if (part.readers.empty()) continue;
      const size_t before = copies_.size();
      rewire(name, part);
      report.copied_nodes += static_cast<int64_t>(copies_.size() - before);
      ++report.parts;
    }
    return report;
  }

 private:
  /// Parts in the order of the graph.
  std::vector<std::pair<std::string, Part>> parts() {
    std::vector<std::pair<std::string, Part>> list;
    std::map<std::string, size_t, std::less<>> index;
    for (const NodeId id : order_) {
      const PartPlace place = part_place_of(graph_.node(id));
      if (place.part.empty() || place.gradient) continue;
      const auto [at, fresh] = index.try_emplace(std::string(place.part), list.size());
      if (fresh) list.emplace_back(at->first, Part());
      list[at->second].second.nodes.insert(id);
    }
    for (auto& [name, part] : list) find_readers(part);
    return list;
  }

  /// Results of a part are read by other forward nodes too, which keep them alive; they are not computed
  /// again.
  void find_readers(Part& part) {
    for (const NodeId id : order_) {
      if (!part.nodes.contains(id) || !is_computed(*graph_.node(id).op)) continue;
      const std::vector<Use> uses = graph_.uses(id);
      const bool result = std::ranges::any_of(uses, [&](const Use& use) {
        return !part.nodes.contains(use.node) && !part_place_of(graph_.node(use.node)).gradient;
      });
      if (result || stays(id)) continue;
      for (const Use& use : uses)
        if (!part.nodes.contains(use.node)) part.readers.push_back(use);
    }
  }

  /// Values that are there anyway or must not be computed twice.
  [[nodiscard]] bool stays(NodeId id) const {
    const Node& node = graph_.node(id);
    if (node.op->is(Trait::SideEffect) || node.op->is(Trait::Opaque)) return true;
    for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i)
      if (graph_.is_pinned({id, i}) || graph_.is_kept({id, i}) || graph_.is_retrieved({id, i})) return true;
    return false;
  }

  void rewire(std::string_view name, const Part& part) {
    std::optional<NodeId> start = anchor(name, part);
    if (start) start = gate(*start);
    for (const Use& use : part.readers) {
      const Edge edge = graph_.node(use.node).inputs[static_cast<size_t>(use.input)];
      graph_.set_input(use.node, use.input,
                       {{copy(part, edge.source.node, start), edge.source.output}, edge.view});
    }
  }

  /// The last gradient that comes to the part from behind it: copies wait for it. Not one that waits for the
  /// copies itself, be it by an order that another part has set.
  std::optional<NodeId> anchor(std::string_view name, const Part& part) {
    const std::unordered_set<NodeId> waiting = waiting_for(part.readers);
    std::optional<NodeId> last;
    for (const NodeId id : order_) {
      if (!is_gradient_of(name, id)) continue;
      for (const Edge& edge : graph_.node(id).inputs) {
        const NodeId from = edge.source.node;
        const Node& node = graph_.node(from);
        if (!rank_.contains(from) || waiting.contains(from) || is_gradient_of(name, from)) continue;
        if (!part_place_of(node).gradient || !is_computed(*node.op)) continue;
        if (node.inputs.empty()) continue;  // a constant is there from the start
        if (!last || rank_.at(from) > rank_.at(*last)) last = from;
      }
    }
    return last;
  }

  [[nodiscard]] bool is_gradient_of(std::string_view name, NodeId id) const {
    const PartPlace place = part_place_of(graph_.node(id));
    return place.gradient && place.part == name;
  }

  /// The readers and all that runs after them.
  [[nodiscard]] std::unordered_set<NodeId> waiting_for(std::span<const Use> readers) const {
    std::unordered_set<NodeId> waiting;
    for (const Use& use : readers) waiting.insert(use.node);
    for (const NodeId id : graph_.topological_order()) {
      const Node& node = graph_.node(id);
      const auto waits = [&](NodeId before) { return waiting.contains(before); };
      if (std::ranges::any_of(node.after, waits) ||
          std::ranges::any_of(node.inputs, waits, [](const Edge& edge) { return edge.source.node; }))
        waiting.insert(id);
    }
    return waiting;
  }

  /// A node that runs when `id` has: one element of it, through a break. Compilers order breaks as they are
  /// told to, and everything else by its data alone.
  NodeId gate(NodeId id) {
    GraphTensor element = graph_.tensor_of(Value{id, 0});
    for (int axis = 0; axis < element.rank(); ++axis) element = element.slice_along(axis, 0, 1);
    return element.graph_break().node();
  }

  /// The place in `inputs` of the tensor with the fewest elements.
  [[nodiscard]] size_t smallest(const std::vector<Edge>& inputs) const {
    const auto elements = [&](const Edge& edge) {
      return element_count(graph_.type(edge.source).dims).constant().value_or(INT64_MAX);
    };
    return static_cast<size_t>(std::ranges::min_element(inputs, {}, elements) - inputs.begin());
  }

  NodeId copy(const Part& part, NodeId id, const std::optional<NodeId>& start) {
    if (!part.nodes.contains(id) || !is_computed(*graph_.node(id).op) || stays(id) || is_constant(id))
      return id;
    if (const auto known = copies_.find(id); known != copies_.end()) return known->second;
    const Node node = graph_.node(id);  // a copy: nodes are added below
    std::vector<Edge> inputs;
    bool of_copies = false;
    for (const Edge& edge : node.inputs) {
      const NodeId source = copy(part, edge.source.node, start);
      of_copies |= source != edge.source.node;
      inputs.push_back({{source, edge.source.output}, edge.view});
    }
    const Graph::OriginScope scope(graph_, node.origin);
    if (!of_copies && !inputs.empty()) {
      // Equal nodes are one to a compiler, so the copy reads another value: its smallest input, through a
      // break that waits for the start.
      Value& source = inputs[smallest(inputs)].source;
      const NodeId apart = graph_.tensor_of(source).graph_break().node();
      if (start) graph_.add_order(*start, apart);
      source = {apart, 0};
    }
    const NodeId made = graph_.add_node(*node.op, node.attributes, std::move(inputs));
    if (start && !of_copies) graph_.add_order(*start, made);  // for those that have no input, too
    copies_.emplace(id, made);
    return made;
  }

  [[nodiscard]] bool is_constant(NodeId id) const {
    const Node& node = graph_.node(id);
    return node.op->is(Trait::Leaf) && !node.op->is(Trait::Stateful);
  }

  Graph& graph_;
  std::vector<NodeId> order_;
  std::unordered_map<NodeId, size_t> rank_;
  std::unordered_map<NodeId, NodeId> copies_;
};

std::string megabytes(int64_t bytes) { return fmt::format("{:.3f} MB", static_cast<double>(bytes) / 1e6); }

}  // namespace

GraphTensor checkpoint(const std::function<GraphTensor(const GraphTensor&)>& part, const GraphTensor& x,
                       Where where) {
  const std::string mark = next_mark();
  const CallSite site(mark, where);
  return part(x);
}

std::vector<GraphTensor> checkpoint(
    const std::function<std::vector<GraphTensor>(std::span<const GraphTensor>)>& part,
    const std::vector<GraphTensor>& inputs, Where where) {
  const std::string mark = next_mark();
  const CallSite site(mark, where);
  return part(inputs);
}

std::string RecomputeCheckpoints::Report::to_string() const {
  return fmt::format("{} checkpointed parts, {} nodes computed again; planned peak {} before, {} after",
                     parts, copied_nodes, megabytes(peak_bytes_before), megabytes(peak_bytes_after));
}

RecomputeCheckpoints::Report RecomputeCheckpoints::run(Graph& graph, Remap&) const {
  const int64_t before = planned_peak_bytes(graph, assumed_dim_);
  Report report = Recompute(graph).run();
  report.peak_bytes_before = before;
  report.peak_bytes_after = planned_peak_bytes(graph, assumed_dim_);
  debug(1, "[checkpoint] {}", report.to_string());
  return report;
}

}  // namespace luminal::training
