#include <algorithm>
#include <atomic>

#include "base/fail.h"
#include "graph/data_input.h"
#include "graph/graph_state.h"

// What is stored in a graph: inputs, kept values, results, and what moves between them.
namespace luminal {

std::shared_ptr<const TensorData> GraphEditor::value(const Value& value) const {
  const auto found = state_->values.find(value);
  if (found == state_->values.end()) return nullptr;
  GraphState::Stored& stored = found->second;
  if (!stored.data && stored.device) stored.data = std::make_shared<TensorData>(stored.device->to_host());
  if (!stored.data && stored.make) {
    Graph graph(state_.get());
    stored.data = std::make_shared<TensorData>(fit_input(graph, value, stored.make(), true));
    stored.let_go.reset();
    if (!stored.makes_again) stored.make = nullptr;
  }
  return stored.data;
}

std::shared_ptr<const DeviceValue> GraphEditor::device_value(const Value& value) const {
  const auto found = state_->values.find(value);
  return found == state_->values.end() ? nullptr : found->second.device;
}

namespace {

/// Presence of computed values decides what a run computes; that of inputs does not.
void note_presence(GraphState& state, const Value& value, bool before, bool after) {
  if (before != after && value.node.index < state.slots.size() && state.slots[value.node.index].alive &&
      is_computed(*state.slots[value.node.index].node.op))
    ++state.presence;
}

void store_in(GraphState& state, const Value& value, std::shared_ptr<TensorData> data,
              std::shared_ptr<const DeviceValue> device, bool pinned) {
  GraphState::Stored& stored = state.values[value];
  const bool before = stored.present();
  stored.data = std::move(data);
  stored.device = std::move(device);
  stored.make = nullptr;
  stored.let_go.reset();
  stored.pinned = pinned;
  stored.stamp = ++state.last_stamp;
  note_presence(state, value, before, stored.present());
}

/// Whatever stands in a graph holds as many bytes as its sizes say: readers do not look again.
void check_storable(const TensorType& type, const TensorData& data) {
  if (data.dtype != type.dtype || data.dims.size() != type.dims.size())
    fail<ShapeError>("[store] {}[{}] is not a value of {}; dtypes and ranks must be equal", name(data.dtype),
                     fmt::join(data.dims, ", "), type.to_string());
  if (const int64_t due = size_bytes(data.dtype, data.element_count());
      static_cast<int64_t>(data.bytes.size()) != due)
    fail<ShapeError>(
        "[store] {}[{}] holds {} bytes where its sizes make {}; leave `dims` and `bytes` as the "
        "constructor made them",
        name(data.dtype), fmt::join(data.dims, ", "), data.bytes.size(), due);
}

}  // namespace

void GraphEditor::store(const Value& value, std::shared_ptr<const TensorData> data, bool pinned) {
  if (data) check_storable(type(value), *data);
  store_in(*state_, value, std::const_pointer_cast<TensorData>(std::move(data)), nullptr, pinned);
}
void GraphEditor::store(const Value& value, std::shared_ptr<const DeviceValue> data, bool pinned) {
  store_in(*state_, value, nullptr, std::move(data), pinned);
}

void GraphEditor::store_lazily(const Value& value, std::function<TensorData()> make, Makes makes) {
  store_in(*state_, value, nullptr, nullptr, true);
  GraphState::Stored& stored = state_->values.at(value);
  stored.make = std::move(make);
  stored.makes_again = makes == Makes::Again;
  stored.is_weight = true;
}

bool GraphEditor::let_go(const Value& value) {
  const auto found = state_->values.find(value);
  if (found == state_->values.end()) return false;
  GraphState::Stored& stored = found->second;
  if (!stored.let_go && stored.make && stored.makes_again && stored.data.use_count() == 1) {
    stored.let_go = stored.data->dims;
    stored.data = nullptr;
  }
  return stored.let_go.has_value();
}

std::shared_ptr<const TensorData> GraphEditor::hold(const Value& value) {
  const auto found = state_->values.find(value);
  if (found == state_->values.end()) return nullptr;
  GraphState::Stored& stored = found->second;
  const bool comes_back = stored.let_go.has_value();
  if (!stored.data) (void)this->value(value);
  if (comes_back) stored.make = nullptr;
  return stored.data;
}

std::shared_ptr<TensorData> GraphEditor::take(const Value& value) {
  const auto found = state_->values.find(value);
  if (found == state_->values.end() || found->second.data.use_count() != 1) return nullptr;
  GraphState::Stored& stored = found->second;
  const bool before = stored.present();
  std::shared_ptr<TensorData> data = std::move(stored.data);
  stored.data = nullptr;
  stored.device = nullptr;
  stored.make = nullptr;
  stored.stamp = ++state_->last_stamp;
  note_presence(*state_, value, before, false);
  // The last other holder may have read it in another thread; what it read comes before what is written now.
  std::atomic_thread_fence(std::memory_order_acquire);
  return data;
}

void GraphEditor::erase(const Value& value) {
  const auto found = state_->values.find(value);
  if (found == state_->values.end()) return;
  note_presence(*state_, value, found->second.present(), false);
  state_->values.erase(found);
}

uint64_t GraphEditor::presence() const { return state_->presence; }

uint64_t GraphEditor::stamp(const Value& value) const {
  const auto found = state_->values.find(value);
  return found == state_->values.end() ? 0 : found->second.stamp;
}

void GraphEditor::note_weight(const Value& value) { state_->values[value].is_weight = true; }

bool GraphEditor::is_weight(const Value& value) const {
  const auto found = state_->values.find(value);
  return is_kept(value) || (found != state_->values.end() && found->second.is_weight);
}

std::function<TensorData()> GraphEditor::loader(const Value& value) const {
  const auto found = state_->values.find(value);
  return found == state_->values.end() ? std::function<TensorData()>() : found->second.loader;
}

bool GraphEditor::is_pinned(const Value& value) const {
  const auto found = state_->values.find(value);
  return found != state_->values.end() && found->second.present();
}

bool GraphEditor::is_present(NodeId id) const {
  for (int output = 0; output < static_cast<int>(node(id).outputs.size()); ++output)
    if (!is_pinned({id, output})) return false;
  return true;
}

bool GraphEditor::is_retrieved(const Value& value) const { return state_->retrieved.contains(value); }
bool GraphEditor::is_kept(const Value& value) const { return state_->kept.contains(value); }
const std::vector<Graph::StateUpdate>& GraphEditor::state_updates() const { return state_->updates; }

void Graph::reset() {
  const Turn turn(*state_, "reset", Turn::For::Values);
  std::erase_if(state_->values,
                [](const auto& entry) { return !entry.second.pinned && !entry.second.loader; });
}

std::string describe_value(const Graph& graph, const Value& value) {
  return describe_value(graph, value, graph.type(value));
}

std::string describe_value(const Graph& graph, const Value& value, const TensorType& seen) {
  const Node& node = graph.node(value.node);
  const std::string label =
      node.name.empty() ? fmt::format("#{}", value.node.index) : fmt::format("'{}'", node.name);
  const std::string made = node.origin && !node.origin->file.empty()
                               ? fmt::format(" (made at {}:{})", node.origin->file, node.origin->line)
                               : "";
  return fmt::format("{} {}{}", label, seen.to_string(), made);
}

std::string no_value_text(const Graph& graph, const Value& value) {
  const std::string_view advice = [&]() -> std::string_view {
    if (!is_computed(*graph.node(value.node).op))
      return graph.loader(value) ? "its loader gives one at each execute(); call that first"
                                 : "it is an input; give its data with set()";
    if (!graph.is_retrieved(value) && !graph.is_kept(value))
      return "mark it with retrieve() or keep() before execute()";
    if (graph.step() == 0) return "nothing has run yet; call execute()";
    return "it was marked or reset after the last run; call execute() again";
  }();
  return fmt::format("{} has no value; {}", describe_value(graph, value), advice);
}

namespace {

/// A handle's stored value, which must be the whole buffer. Errors: Error that names the call.
Value whole_value(const GraphTensor& tensor, std::string_view call) {
  const Edge edge = tensor.edge();
  if (!edge.view.is_identity())
    fail<ShapeError>("[{}] the tensor {} is a view ({}); give it a buffer of its own with contiguous()", call,
                     tensor.type().to_string(), edge.view.to_string());
  return edge.source;
}

void check_same(const TensorData& a, const TensorData& b, std::string_view call) {
  if (a.dtype != b.dtype || a.dims != b.dims)
    fail<ShapeError>("[{}] {}[{}] does not fit {}[{}]; dtypes and sizes must be equal", call, name(a.dtype),
                     fmt::join(a.dims, ", "), name(b.dtype), fmt::join(b.dims, ", "));
}

}  // namespace

void Graph::swap_tensors(const GraphTensor& a, const GraphTensor& b) {
  const Turn turn(*state_, "swap_tensors", Turn::For::Values);
  const Value first = whole_value(a, "swap_tensors"), second = whole_value(b, "swap_tensors");
  const auto x = value(first), y = value(second);
  if (!x || !y) fail("[swap_tensors] {}", no_value_text(*this, x ? second : first));
  check_same(*x, *y, "swap_tensors");
  auto &one = state_->values.at(first), &other = state_->values.at(second);
  std::swap(one.data, other.data);
  std::swap(one.device, other.device);
  std::swap(one.make, other.make);
  std::swap(one.makes_again, other.makes_again);
  for (GraphState::Stored* stored : {&one, &other}) stored->stamp = ++state_->last_stamp;
}

void Graph::to_device(const GraphTensor& tensor, Where where) {
  const CallSite site("to_device", where);
  const Turn turn(*state_, "to_device", Turn::For::Values);
  const Value at = whole_value(tensor, "to_device");
  const auto data = value(at);
  if (!data) fail("[to_device] {}", no_value_text(*this, at));
  if (auto moved = make_session(device())->to_device(*data)) store(at, std::move(moved), is_pinned(at));
}

void Graph::from_device(const GraphTensor& tensor, Where where) {
  const CallSite site("from_device", where);
  const Turn turn(*state_, "from_device", Turn::For::Values);
  const Value at = whole_value(tensor, "from_device");
  auto data = value(at);
  if (!data) fail("[from_device] {}", no_value_text(*this, at));
  store(at, std::move(data), is_pinned(at));
}

void transfer_data(std::span<const GraphTensor> from, Graph& from_graph, std::span<const GraphTensor> to,
                   Graph& to_graph) {
  if (from.size() != to.size())
    fail("[transfer_data] {} tensors cannot go to {}; give lists of one length", from.size(), to.size());
  // Two transfers in opposite directions take the turns in one order.
  const bool in_order = from_graph.state()->serial <= to_graph.state()->serial;
  const Turn first(*(in_order ? from_graph : to_graph).state(), "transfer_data", Turn::For::Values);
  const Turn second(*(in_order ? to_graph : from_graph).state(), "transfer_data", Turn::For::Values);
  std::vector<std::shared_ptr<const TensorData>> moving;
  for (size_t i = 0; i < from.size(); ++i) {
    const Value source = whole_value(from[i], "transfer_data");
    auto data = from_graph.value(source);
    if (!data) fail("[transfer_data] {}", no_value_text(from_graph, source));
    const TensorType& target = to_graph.type(whole_value(to[i], "transfer_data"));
    bool fits = target.dtype == data->dtype && target.dims.size() == data->dims.size();
    for (size_t axis = 0; fits && axis < target.dims.size(); ++axis)  // named dims are told by the next run
      fits = target.dims[axis].to_symbols().empty() ? target.dims[axis].exec({}) == data->dims[axis] : true;
    if (!fits)
      fail<ShapeError>(
          "[transfer_data] tensor {} is {}[{}] and does not fit {}; dtypes, ranks and known sizes must be "
          "equal",
          i, name(data->dtype), fmt::join(data->dims, ", "), target.to_string());
    moving.push_back(std::move(data));
  }
  for (const GraphTensor& tensor : from) from_graph.erase(whole_value(tensor, "transfer_data"));
  for (size_t i = 0; i < to.size(); ++i) to_graph.store(whole_value(to[i], "transfer_data"), moving[i], true);
}

void transfer_data_same_graph(std::span<const GraphTensor> from, std::span<const GraphTensor> to,
                              Graph& graph) {
  transfer_data(from, graph, to, graph);
}

std::vector<GraphTensor> downstream(std::span<const GraphTensor> tensors, const Graph& graph) {
  std::vector<GraphTensor> found;
  for (const GraphTensor& tensor : tensors) {
    GraphTensor at = tensor;
    while (true) {
      const std::vector<Use> uses = graph.uses(at.node());
      if (uses.size() != 1 || graph.node(uses.front().node).outputs.size() != 1) break;
      at = graph.tensor_of(Value{uses.front().node, 0});
    }
    found.push_back(at);
  }
  return found;
}

void assign(const GraphTensor& state, const GraphTensor& next, Where where) { state.assign(next, where); }

void GraphTensor::assign(const GraphTensor& next, Where where) const {
  const CallSite site("assign", where);
  const auto graph = lock(graph_);
  const Turn turn(*graph, "assign", Turn::For::Structure);
  const Graph owner = this->graph();
  if (next.graph().state() != graph)
    fail("[assign] state and next value belong to different graphs; build both in one");
  const Value state = whole_value(*this, "assign");
  if (is_computed(*owner.node(state.node).op))
    fail("[assign] only an input can be state, and this tensor is made by '{}'; declare it with tensor()",
         owner.node(state.node).op->name);
  const bool fits = next.dtype() == dtype() && next.rank() == rank() &&
                    std::ranges::equal(next.dims(), dims(), [](const auto& a, const auto& b) {
                      return Expression::known_equal(a, b);
                    });
  if (!fits)
    fail<ShapeError>("[assign] the state is {} and its next value {}; cast or reshape the next value",
                     type().to_string(), next.type().to_string());
  std::erase_if(graph->updates, [&](const Graph::StateUpdate& update) { return update.state == state; });
  graph->updates.push_back({state, next.edge()});
  ++graph->version;
}

}  // namespace luminal
