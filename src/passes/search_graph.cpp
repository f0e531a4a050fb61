#include "luminal/search_graph.h"

#include <algorithm>

#include "base/fail.h"
#include "luminal/ops.h"
#include "passes/rewrite.h"

namespace luminal {

struct SelectGraph::Part {
  const OpDef* op = nullptr;  ///< nullptr: any
  std::optional<std::vector<SelectGraph>> inputs = {};
  std::optional<Number> constant = {};
  std::optional<std::vector<Shape>> shapes = {};
  EdgeView view = EdgeView::Any;
  std::vector<std::function<bool(const Graph&, NodeId)>> checks = {};
};

SelectGraph make_part(SelectGraph::Part part) {
  return SelectGraph(std::make_shared<SelectGraph::Part>(std::move(part)));
}

SelectGraph SelectGraph::check(std::function<bool(const Graph&, NodeId)> predicate) const {
  part_->checks.push_back(std::move(predicate));
  return *this;
}
SelectGraph SelectGraph::shapes(std::vector<Shape> inputs) const {
  part_->shapes = std::move(inputs);
  return *this;
}
SelectGraph SelectGraph::through(EdgeView view) const {
  part_->view = view;
  return *this;
}

namespace select {

SelectGraph node() { return make_part({}); }
SelectGraph op(const OpDef& op) { return make_part({.op = &op, .view = EdgeView::Identity}); }
SelectGraph op(const OpDef& op, std::vector<SelectGraph> inputs) {
  return make_part({.op = &op, .inputs = std::move(inputs), .view = EdgeView::Identity});
}
SelectGraph unary(const OpDef& def, SelectGraph input) { return op(def, {std::move(input)}); }
SelectGraph binary(const OpDef& def, SelectGraph a, SelectGraph b) {
  return op(def, {std::move(a), std::move(b)});
}
SelectGraph constant() { return make_part({.op = &kConstant, .view = EdgeView::Unpadded}); }
SelectGraph constant(Number value) {
  return make_part({.op = &kConstant, .constant = value, .view = EdgeView::Unpadded});
}

}  // namespace select

GraphSearch::GraphSearch(SelectGraph pattern, Graph& graph, const Remap& remap)
    : pattern_(std::move(pattern)), graph_(&graph) {
  for (const NodeId id : graph.topological_order())
    if (pattern_.part().op == nullptr || graph.node(id).op == pattern_.part().op) candidates_.push_back(id);
  for (const Value& value : remap.roots()) marked_.insert(value.node);
}

bool GraphSearch::next_match() {
  while (next_ < candidates_.size()) {
    const NodeId id = candidates_[next_++];
    bound_.clear();
    dims_.clear();
    if (!graph_->contains(id)) continue;  // rewritten since
    const Edge whole{{id, 0}, ShapeTracker::contiguous(graph_->type({id, 0}).dims)};
    if (match(pattern_, whole, [] { return true; })) return true;
  }
  bound_.clear();
  return false;
}

bool GraphSearch::fits(const SelectGraph& part, const Edge& edge) const {
  const SelectGraph::Part& wanted = part.part();
  if (wanted.view == EdgeView::Identity && !edge.view.is_identity()) return false;
  if (wanted.view == EdgeView::Unpadded && !passes::without_padding(edge.view)) return false;
  const Node& node = graph_->node(edge.source.node);
  if (wanted.op != nullptr && node.op != wanted.op) return false;
  if (wanted.inputs && wanted.inputs->size() != node.inputs.size()) return false;
  if (wanted.constant) {
    const auto element = [&](Number value) {
      return passes::only_element(passes::filled(value, node.outputs[0].dtype, {}));
    };
    if (element(node.attributes.get<Number>("value")) != element(*wanted.constant)) return false;
  }
  return std::ranges::all_of(wanted.checks,
                             [&](const auto& check) { return check(*graph_, edge.source.node); });
}

bool GraphSearch::match_shapes(const SelectGraph& part, const Node& node) {
  if (!part.part().shapes) return true;
  const std::vector<Shape>& wanted = *part.part().shapes;
  if (wanted.size() != node.inputs.size()) return false;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const Shape& dims = node.inputs[i].view.dims();
    if (dims.size() != wanted[i].size()) return false;
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      const std::set<std::string> names = wanted[i][axis].to_symbols();
      const bool bare = names.size() == 1 && wanted[i][axis].to_string() == *names.begin();
      const Expression& expected =
          bare ? dims_.try_emplace(*names.begin(), dims[axis]).first->second : wanted[i][axis];
      if (expected != dims[axis]) return false;
    }
  }
  return true;
}

bool GraphSearch::match(const SelectGraph& part, const Edge& edge, const Rest& rest) {
  if (const auto found = bound_.find(&part.part()); found != bound_.end())
    return found->second == edge && rest();
  if (!fits(part, edge)) return false;
  const Node& node = graph_->node(edge.source.node);
  const auto dims_before = dims_;
  bound_.emplace(&part.part(), edge);
  if (match_shapes(part, node)) {
    if (!part.part().inputs) {
      if (rest()) return true;
    } else {
      const bool commutes = node.op->is(Trait::Commutative) && node.inputs.size() == 2;
      if (match_inputs(part, node, false, 0, rest)) return true;
      if (commutes && match_inputs(part, node, true, 0, rest)) return true;
    }
  }
  bound_.erase(&part.part());
  dims_ = dims_before;
  return false;
}

bool GraphSearch::match_inputs(const SelectGraph& part, const Node& node, bool swapped, size_t from,
                               const Rest& rest) {
  if (from == node.inputs.size()) return rest();
  const size_t at = swapped ? node.inputs.size() - 1 - from : from;
  return match((*part.part().inputs)[from], node.inputs[at],
               [&, from] { return match_inputs(part, node, swapped, from + 1, rest); });
}

const Edge& GraphSearch::edge(const SelectGraph& part) const {
  const auto found = bound_.find(&part.part());
  if (found == bound_.end())
    fail(
        "[GraphSearch] this part of the pattern has no match; ask after next_match() returned true, for "
        "parts of "
        "the pattern that is searched");
  return found->second;
}

const Expression& GraphSearch::dim(std::string_view name) const {
  const auto found = dims_.find(name);
  if (found == dims_.end())
    fail("[GraphSearch] no dim '{}' is bound; name it in shapes() of a matched part", name);
  return found->second;
}

bool GraphSearch::is_marked(NodeId id) const {
  if (marked_.contains(id) || graph_->node(id).op->is(Trait::SideEffect)) return true;
  for (int output = 0; output < static_cast<int>(graph_->node(id).outputs.size()); ++output) {
    const Value value{id, output};
    if (graph_->is_retrieved(value) || graph_->is_kept(value) || graph_->is_pinned(value)) return true;
  }
  return std::ranges::any_of(graph_->state_updates(), [&](const Graph::StateUpdate& update) {
    return update.next.source.node == id || update.state.node == id;
  });
}

bool GraphSearch::check_no_delete(const std::vector<SelectGraph>& keep) const {
  std::unordered_set<NodeId> matched, spared{value().node};
  for (const SelectGraph& part : keep) spared.insert(get(part));
  for (const auto& [part, edge] : bound_)
    if (part->op != nullptr) matched.insert(edge.source.node);
  return std::ranges::all_of(matched, [&](NodeId id) {
    if (spared.contains(id) || graph_->node(id).op == &kConstant) return true;
    if (is_marked(id) || !graph_->node(id).after.empty()) return false;
    return std::ranges::all_of(graph_->uses(id), [&](const Use& use) { return matched.contains(use.node); });
  });
}

int GraphSearch::try_delete() {
  int removed = 0;
  for (bool changed = true; changed;) {  // a node goes when its readers have gone
    changed = false;
    for (const auto& [part, edge] : bound_) {
      const NodeId id = edge.source.node;
      if (part->op == nullptr || !graph_->contains(id) || !is_computed(*graph_->node(id).op)) continue;
      if (!graph_->uses(id).empty() || is_marked(id)) continue;
      graph_->remove(id);
      ++removed;
      changed = true;
    }
  }
  return removed;
}

}  // namespace luminal
