#include <algorithm>
#include <unordered_set>

#include "base/fail.h"
#include "luminal/graph.h"
#include "luminal/ops.h"
#include "luminal/scan.h"
#include "ops/scan_form.h"

namespace luminal {
namespace {

/// A body as a graph that passes may change.
class OpenBody {
 public:
  explicit OpenBody(const ScanForm& form) : form_(form) {
    for (size_t i = 0; i < form.inputs(); ++i) {
      const TensorType type = form.input_type(i);
      inputs_.push_back(graph_.tensor(type.dims, type.dtype));
    }
    outputs_ = inlined(*form.body, graph_, inputs_);
    for (const GraphTensor& output : outputs_) graph_.tensor_of(output.edge().source).retrieve();
  }
  [[nodiscard]] Graph& graph() { return graph_; }

  /// The node of a scan over what the body is now, with inputs of the old one's node.
  NodeId add_scan(Graph& cx, const std::vector<Edge>& given) const {
    const std::unordered_set<NodeId> inside = of_steps();
    std::vector<Value> stepped, shared;
    for (size_t i = 0; i < inputs_.size(); ++i)
      (is_shared(i) ? shared : stepped).push_back(inputs_[i].edge().source);
    std::vector<Edge> outputs;
    for (const GraphTensor& output : outputs_) outputs.push_back(output.edge());
    Extracted taken = extract(graph_, stepped, outputs, [&](NodeId id) { return inside.contains(id); });
    ScanForm form = form_;
    taken.part->gradient = form_.body->gradient;
    form.body = interned(std::move(taken.part));
    std::vector<Edge> edges(given.begin(), given.begin() + static_cast<std::ptrdiff_t>(stepped.size()));
    for (const GraphTensor& tensor : before_loop(cx, shared, taken.captured, given))
      edges.push_back(tensor.edge());
    return cx.add_node(kScan, form.attributes(), std::move(edges));
  }

 private:
  [[nodiscard]] bool is_shared(size_t input) const { return input >= form_.carries + form_.sequences; }

  /// Nodes that depend on a step, and those that depend on no input at all.
  [[nodiscard]] std::unordered_set<NodeId> of_steps() const {
    std::unordered_set<NodeId> inside, stepped, shared;
    for (size_t i = 0; i < inputs_.size(); ++i) (is_shared(i) ? shared : stepped).insert(inputs_[i].node());
    for (const NodeId id : graph_.topological_order()) {
      const Node& node = graph_.node(id);
      if (!is_computed(*node.op)) continue;
      const auto reads = [&](const std::unordered_set<NodeId>& of) {
        return std::ranges::any_of(node.inputs,
                                   [&](const Edge& edge) { return of.contains(edge.source.node); });
      };
      if (reads(stepped)) stepped.insert(id);
      if (reads(shared)) shared.insert(id);
      if (stepped.contains(id) || !shared.contains(id)) inside.insert(id);
    }
    return inside;
  }

  /// What the steps share, computed in the graph around the loop.
  std::vector<GraphTensor> before_loop(Graph& cx, const std::vector<Value>& shared,
                                       const std::vector<Value>& wanted,
                                       const std::vector<Edge>& given) const {
    std::vector<Edge> outputs;
    for (const Value& value : wanted) outputs.push_back(graph_.tensor_of(value).edge());
    const Extracted part =
        extract(graph_, shared, outputs, [&](NodeId id) { return is_computed(*graph_.node(id).op); });
    std::vector<GraphTensor> tensors;
    for (size_t i = given.size() - shared.size(); i < given.size(); ++i)
      tensors.push_back(cx.tensor_of(given[i]));
    return inlined(*part.part, cx, tensors);
  }

  const ScanForm& form_;
  Graph graph_;
  std::vector<GraphTensor> inputs_, outputs_;
};

}  // namespace

int64_t rewrite_bodies(Graph& cx, const std::function<int64_t(Graph& body)>& change) {
  int64_t changed = 0;
  for (const NodeId id : cx.topological_order()) {
    if (cx.node(id).op != &kScan) continue;
    const Node node = cx.node(id);  // a copy: nodes are added
    const std::optional<ScanForm> form = ScanForm::of(node.attributes);
    LUMINAL_CHECK(form.has_value(), "attributes of a scan: {}", node.attributes.to_string());
    OpenBody body(*form);
    const int64_t count = change(body.graph()) + rewrite_bodies(body.graph(), change);
    if (count == 0) continue;
    const Graph::OriginScope scope(cx, node.origin);
    const NodeId made = body.add_scan(cx, node.inputs);
    for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i)
      cx.replace({id, i}, cx.tensor_of(Value{made, i}).edge());
    cx.remove(id);
    changed += count;
  }
  return changed;
}

}  // namespace luminal
