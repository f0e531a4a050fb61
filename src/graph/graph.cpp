#include "luminal/graph.h"

#include <atomic>

#include "base/call_site.h"
#include "base/fail.h"
#include "base/suggest.h"
#include "graph/graph_state.h"

namespace luminal {

Graph::Graph() : GraphEditor(std::make_shared<GraphState>()) {
  static std::atomic<uint32_t> serial{0};
  state_->serial = ++serial;
}

void Graph::order(const GraphTensor& before, const GraphTensor& after) {
  add_order(before.node(), after.node());
}

std::vector<std::string> Graph::tensor_names() const {
  std::set<std::string> names;
  for (const GraphState::Slot& each : state_->slots)
    if (each.alive && !each.node.name.empty()) names.insert(each.node.name);
  return {names.begin(), names.end()};
}

GraphTensor Graph::named(std::string_view name, Where where) const {
  const CallSite site("named", where);
  std::vector<Value> found;
  for (const NodeId id : nodes())
    if (node(id).name == name) found.push_back({id, 0});
  if (found.size() == 1) return tensor_of(found[0]);
  if (found.empty()) {
    const std::vector<std::string> names = tensor_names();
    fail(
        "[named] no tensor of this graph is called '{}'; set_name() gives a name, and tensor_names() lists "
        "the {} there are{}",
        name, names.size(), did_you_mean(name, names));
  }
  std::vector<std::string> all;
  for (const Value& value : found) all.push_back(describe_value(*this, value));
  fail("[named] {} tensors are called '{}': {}; give each a name of its own with set_name()", found.size(),
       name, fmt::join(all, ", "));
}

OpBuilder& OpBuilder::input(const GraphTensor& tensor) {
  if (tensor.graph().state() != graph_->state())
    fail("[{}] the tensor belongs to another graph; move its data with transfer_data", op_->name);
  inputs_.push_back(tensor.edge());
  return *this;
}
OpBuilder& OpBuilder::attribute(std::string key, Attribute value) {
  attributes_.set(std::move(key), std::move(value));
  return *this;
}
std::vector<GraphTensor> OpBuilder::finish_all(std::source_location where) {
  const CallSite site(op_->name, where);
  const NodeId id = graph_->add_node(*op_, attributes_, inputs_);
  std::vector<GraphTensor> outputs;
  for (int i = 0; i < static_cast<int>(graph_->node(id).outputs.size()); ++i)
    outputs.push_back(graph_->tensor_of(Value{id, i}));
  return outputs;
}
GraphTensor OpBuilder::finish(std::source_location where) { return finish_all(where).at(0); }

}  // namespace luminal
