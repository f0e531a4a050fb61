#include "luminal/graph_editor.h"

#include <algorithm>
#include <queue>

#include "base/fail.h"
#include "graph/graph_state.h"
#include "symbolic/movement.h"

namespace luminal {
namespace {

std::shared_ptr<const Origin> origin_of_caller(std::string_view op) {
  auto origin = std::make_shared<Origin>();
  for (const std::string_view name : CallSite::chain()) origin->ops.emplace_back(name);
  if (origin->ops.empty() || origin->ops.back() != op) origin->ops.emplace_back(op);
  if (const auto user = CallSite::user()) {
    origin->file = user->file;
    origin->line = user->line;
  }
  return origin;
}

GraphState::Slot& slot(GraphState& state, NodeId id) {
  LUMINAL_CHECK(id.graph == state.serial, "node {} belongs to graph {}, not to graph {}", id.index, id.graph,
                state.serial);
  LUMINAL_CHECK(id.index < state.slots.size() && state.slots[id.index].alive, "node {} was removed",
                id.index);
  return state.slots[id.index];
}

void check_edge(GraphState& state, const Edge& edge, std::string_view op) {
  const Node& source = slot(state, edge.source.node).node;
  LUMINAL_CHECK(edge.source.output >= 0 && edge.source.output < static_cast<int>(source.outputs.size()),
                "[{}] output {} of a node with {}", op, edge.source.output, source.outputs.size());
  const Shape& buffer = source.outputs[static_cast<size_t>(edge.source.output)].dims;
  LUMINAL_CHECK(edge.view.physical_dims() == buffer, "[{}] the view reads a buffer {}, the source has {}", op,
                luminal::to_string(edge.view.physical_dims()), luminal::to_string(buffer));
}

void add_use(GraphState& state, NodeId node, int input) {
  const Edge& edge = state.slots[node.index].node.inputs[static_cast<size_t>(input)];
  slot(state, edge.source.node).uses.push_back({node, input});
}

void remove_use(GraphState& state, NodeId node, int input) {
  const Edge& edge = state.slots[node.index].node.inputs[static_cast<size_t>(input)];
  auto& uses = slot(state, edge.source.node).uses;
  uses.erase(std::find(uses.begin(), uses.end(), Use{node, input}));
}

}  // namespace

void link_order(GraphState& state, NodeId before, NodeId after) {
  std::vector<NodeId>& list = slot(state, after).node.after;
  if (std::find(list.begin(), list.end(), before) != list.end()) return;
  list.push_back(before);
  slot(state, before).followers.push_back(after);
}

void note_dims(GraphState& state, const ShapeTracker& view) {
  for (const Expression& dim : view.dims()) symbolic::collect_dims(dim, state.known_dims);
  symbolic::collect_dims(view.index_expression(), state.known_dims);
  for (const ShapeTracker::Mask& mask : view.masks())
    symbolic::collect_dims(mask.predicate, state.known_dims);
}

namespace {

void note_dims(GraphState& state, const Node& node) {
  for (const Edge& edge : node.inputs) note_dims(state, edge.view);
  for (const TensorType& type : node.outputs)
    for (const Expression& dim : type.dims) symbolic::collect_dims(dim, state.known_dims);
  for (const auto& [key, value] : node.attributes.entries()) {
    if (const auto* formula = std::get_if<Expression>(&value))
      symbolic::collect_dims(*formula, state.known_dims);
    if (const auto* dims = std::get_if<Shape>(&value))
      for (const Expression& dim : *dims) symbolic::collect_dims(dim, state.known_dims);
  }
}

}  // namespace

std::shared_ptr<GraphState> lock(const std::weak_ptr<GraphState>& graph) {
  auto state = graph.lock();
  const std::weak_ptr<GraphState> none;
  if (!state && !graph.owner_before(none) && !none.owner_before(graph))
    fail("[tensor] this tensor was declared but never made; assign it one that Graph::tensor returns");
  if (!state)
    fail(
        "[tensor] the graph of this tensor no longer exists; keep the Graph alive as long as its tensors are "
        "used");
  return state;
}

NodeId GraphEditor::add_node(const OpDef& op, Attributes attributes, std::vector<Edge> inputs) {
  GraphState& state = *state_;
  const Turn turn(state, op.name, Turn::For::Structure);
  LUMINAL_CHECK(op.arity < 0 || op.arity == static_cast<int>(inputs.size()),
                "[{}] takes {} inputs and got {}", op.name, op.arity, inputs.size());
  std::vector<TensorType> types;
  for (const Edge& edge : inputs) {
    check_edge(state, edge, op.name);
    types.push_back({type(edge.source).dtype, edge.view.dims()});
  }
  Node node{.op = &op, .attributes = std::move(attributes), .inputs = std::move(inputs)};
  node.outputs = op.infer(types, node.attributes);
  for (const TensorType& type : node.outputs) symbolic::check_countable(op.name, type.dims);
  node.origin = state.origin ? state.origin : origin_of_caller(op.name);
  note_dims(state, node);
  const NodeId id{static_cast<uint32_t>(state.slots.size()), state.serial};
  if (op.is(Trait::SideEffect)) {
    if (state.last_side_effect && contains(*state.last_side_effect))
      node.after.push_back(*state.last_side_effect);
    state.last_side_effect = id;
  }
  state.slots.push_back({.node = std::move(node), .uses = {}});
  for (size_t i = 0; i < state.slots.back().node.inputs.size(); ++i) add_use(state, id, static_cast<int>(i));
  for (const NodeId before : state.slots.back().node.after) slot(state, before).followers.push_back(id);
  ++state.version;
  return id;
}

void GraphEditor::set_input(NodeId id, int input, Edge edge) {
  const Turn turn(*state_, "set_input", Turn::For::Structure);
  check_edge(*state_, edge, slot(*state_, id).node.op->name);
  remove_use(*state_, id, input);
  slot(*state_, id).node.inputs.at(static_cast<size_t>(input)) = std::move(edge);
  add_use(*state_, id, input);
  ++state_->version;
}

namespace {

/// The replacement's view, then what the reader did to the old value.
Edge through(const Edge& replacement, const ShapeTracker& reader) {
  if (reader.is_identity()) return replacement;
  if (replacement.view.is_identity()) return {replacement.source, reader};
  return {replacement.source, replacement.view.then(reader)};
}

bool reaches(const GraphEditor& graph, NodeId from, NodeId to) {
  std::vector<NodeId> stack{to};
  std::set<NodeId> seen;
  while (!stack.empty()) {
    const NodeId id = stack.back();
    stack.pop_back();
    if (id == from) return true;
    if (!seen.insert(id).second) continue;
    const Node& node = graph.node(id);
    for (const Edge& edge : node.inputs) stack.push_back(edge.source.node);
    stack.insert(stack.end(), node.after.begin(), node.after.end());
  }
  return false;
}

void move_marks(GraphState& state, const Value& old, const Edge& replacement) {
  for (std::set<Value>* marks : {&state.retrieved, &state.kept})
    if (marks->erase(old) > 0) marks->insert(replacement.source);
  for (auto& update : state.updates) {
    if (update.state == old) update.state = replacement.source;
    if (update.next.source == old) update.next = through(replacement, update.next.view);
  }
  if (const auto stored = state.values.find(old); stored != state.values.end()) {
    auto data = std::move(stored->second);
    state.values.erase(stored);
    if (data.pinned && replacement.view.is_identity()) state.values[replacement.source] = std::move(data);
  }
}

}  // namespace

void GraphEditor::replace(const Value& old, const Edge& replacement) {
  GraphState& state = *state_;
  const Turn turn(state, "replace", Turn::For::Structure);
  if (replacement.source == old && replacement.view.is_identity()) return;
  check_edge(state, replacement, "replace");
  LUMINAL_CHECK(
      replacement.view.dims() == type(old).dims && type(replacement.source).dtype == type(old).dtype,
      "replacing {} by {}{}", type(old).to_string(), name(type(replacement.source).dtype),
      luminal::to_string(replacement.view.dims()));
  const std::vector<Use> uses = slot(state, old.node).uses;
  for (const Use& use : uses) {
    const Edge& edge = node(use.node).inputs[static_cast<size_t>(use.input)];
    if (edge.source == old && use.node != replacement.source.node)
      set_input(use.node, use.input, through(replacement, edge.view));
  }
  move_marks(state, old, replacement);
  if (old.node != replacement.source.node) {
    for (const NodeId before : std::vector<NodeId>(node(old.node).after))
      if (before != replacement.source.node && !reaches(*this, replacement.source.node, before))
        add_order(before, replacement.source.node);
    for (const NodeId id : std::vector<NodeId>(slot(state, old.node).followers))
      if (id != replacement.source.node) add_order(replacement.source.node, id);
    Node& target = slot(state, replacement.source.node).node;
    if (target.name.empty()) target.name = node(old.node).name;
  }
  state.forwarded[old] = replacement;
  ++state.version;
}

void GraphEditor::remove(NodeId id) {
  GraphState& state = *state_;
  const Turn turn(state, "remove", Turn::For::Structure);
  GraphState::Slot& dead = slot(state, id);
  LUMINAL_CHECK(dead.uses.empty(), "removing node {} ({}) that has {} uses", id.index, dead.node.op->name,
                dead.uses.size());
  for (size_t i = 0; i < dead.node.inputs.size(); ++i) remove_use(state, id, static_cast<int>(i));
  for (const NodeId before : dead.node.after) std::erase(slot(state, before).followers, id);
  for (const NodeId follower : dead.followers) {  // what ran before it still runs before what came after it
    std::erase(slot(state, follower).node.after, id);
    for (const NodeId before : dead.node.after) link_order(state, before, follower);
  }
  for (int output = 0; output < static_cast<int>(dead.node.outputs.size()); ++output) {
    const Value value{id, output};
    state.values.erase(value);
    state.retrieved.erase(value);
    state.kept.erase(value);
  }
  std::erase_if(state.updates, [&](const StateUpdate& update) {
    return update.state.node == id || update.next.source.node == id;
  });
  if (state.last_side_effect == id) {
    state.last_side_effect.reset();
    if (!dead.node.after.empty()) state.last_side_effect = dead.node.after.back();
  }
  dead.alive = false;
  dead.node = Node{};
  dead.followers.clear();
  ++state.version;
}

void GraphEditor::add_order(NodeId before, NodeId after) {
  const Turn turn(*state_, "order", Turn::For::Structure);
  if (before == after || reaches(*this, after, before))
    fail("[order] '{}' cannot run before '{}': it needs its result; remove one of the two orders",
         node(before).op->name, node(after).op->name);
  link_order(*state_, before, after);
  ++state_->version;
}

std::vector<NodeId> GraphEditor::nodes() const {
  std::vector<NodeId> ids;
  ids.reserve(state_->slots.size());
  for (uint32_t i = 0; i < state_->slots.size(); ++i)
    if (state_->slots[i].alive) ids.push_back({i, state_->serial});
  return ids;
}

size_t GraphEditor::node_count() const {
  return static_cast<size_t>(
      std::count_if(state_->slots.begin(), state_->slots.end(), [](const auto& s) { return s.alive; }));
}

bool GraphEditor::contains(NodeId id) const {
  return id.graph == state_->serial && id.index < state_->slots.size() && state_->slots[id.index].alive;
}

const Node& GraphEditor::node(NodeId id) const { return slot(*state_, id).node; }
const TensorType& GraphEditor::type(const Value& value) const {
  return node(value.node).outputs.at(static_cast<size_t>(value.output));
}
std::vector<Use> GraphEditor::uses(NodeId id) const { return slot(*state_, id).uses; }
uint64_t GraphEditor::version() const { return state_->version; }

std::vector<NodeId> GraphEditor::topological_order() const {
  const size_t count = state_->slots.size();
  std::vector<int> waiting(count, 0);
  std::vector<std::vector<uint32_t>> followers(count);
  const std::vector<NodeId> ids = nodes();
  const auto link = [&](NodeId before, NodeId after) {
    followers[before.index].push_back(after.index);
    ++waiting[after.index];
  };
  for (const NodeId id : ids) {
    for (const Edge& edge : node(id).inputs) link(edge.source.node, id);
    for (const NodeId before : node(id).after) link(before, id);
  }
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready;
  for (const NodeId id : ids)
    if (waiting[id.index] == 0) ready.push(id.index);
  std::vector<NodeId> order;
  order.reserve(ids.size());
  while (!ready.empty()) {
    const uint32_t index = ready.top();
    ready.pop();
    order.push_back({index, state_->serial});
    for (const uint32_t follower : followers[index])
      if (--waiting[follower] == 0) ready.push(follower);
  }
  LUMINAL_CHECK(order.size() == ids.size(), "the graph has a cycle among {} nodes",
                ids.size() - order.size());
  return order;
}

std::vector<Value> GraphEditor::wanted() const {
  std::set<Value> all(state_->retrieved);
  all.insert(state_->kept.begin(), state_->kept.end());
  return {all.begin(), all.end()};
}

std::vector<NodeId> GraphEditor::roots(std::span<const Value> extra) const {
  std::set<NodeId> roots;
  for (const Value& value : wanted()) roots.insert(value.node);
  for (const StateUpdate& update : state_->updates)
    roots.insert({update.state.node, update.next.source.node});
  for (const Value& value : extra) roots.insert(value.node);
  for (const NodeId id : nodes())
    if (node(id).op->is(Trait::SideEffect)) roots.insert(id);
  return {roots.begin(), roots.end()};
}

Edge GraphEditor::resolve(const Edge& edge) const {
  Edge at = edge;
  for (auto next = state_->forwarded.find(at.source); next != state_->forwarded.end();
       next = state_->forwarded.find(at.source))
    at = through(next->second, at.view);
  return at;
}

GraphTensor GraphEditor::tensor_of(const Edge& edge) const { return {state_.get(), edge}; }
GraphTensor GraphEditor::tensor_of(const Value& source) const {
  return tensor_of(Edge{source, ShapeTracker::contiguous(type(source).dims)});
}

GraphEditor::OriginScope::OriginScope(GraphEditor& graph, std::shared_ptr<const Origin> origin)
    : state_(graph.state()), previous_(std::exchange(graph.state_->origin, std::move(origin))) {}
GraphEditor::OriginScope::~OriginScope() { state_->origin = std::move(previous_); }

const Node* GraphEditor::try_get_op(const GraphTensor& tensor, const OpDef& op) const {
  const Node& found = node(tensor.node());
  return found.op == &op ? &found : nullptr;
}
bool GraphEditor::is_op(const GraphTensor& tensor, const OpDef& op) const {
  return try_get_op(tensor, op) != nullptr;
}
const Node& GraphEditor::get_op(const GraphTensor& tensor, const OpDef& op) const {
  if (const Node* found = try_get_op(tensor, op)) return *found;
  fail("[get_op] the tensor is made by '{}', not by '{}'; check with is_op or try_get_op first",
       node(tensor.node()).op->name, op.name);
}

}  // namespace luminal
