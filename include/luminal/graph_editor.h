#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "luminal/graph_tensor.h"
#include "luminal/node.h"
#include "luminal/session.h"
#include "luminal/tensor_data.h"

/// A graph as passes, sessions and tools see it: nodes, edges and marks, and the values that are stored.
/// Every Graph is one; a program that builds and runs graphs needs nothing of it.
///
///   for (const NodeId id : graph.topological_order())
///     if (is_identity(graph.node(id))) graph.replace({id, 0}, graph.node(id).inputs[0]);
///
/// Thread safety: as Graph.
namespace luminal {

struct GraphState;

namespace detail {

/// The state of a graph. A handle that was moved from has none, and its use is an Error. Thread safety: as
/// Graph.
class StateOf {
 public:
  StateOf(std::shared_ptr<GraphState> state) : state_(std::move(state)) {}
  [[nodiscard]] const std::shared_ptr<GraphState>& get() const {
    if (!state_) moved_from();
    return state_;
  }
  [[nodiscard]] GraphState* operator->() const { return get().get(); }
  [[nodiscard]] GraphState& operator*() const { return *get(); }

 private:
  [[noreturn]] static void moved_from();
  std::shared_ptr<GraphState> state_;
};

}  // namespace detail

/// How often a function that makes data may be called.
enum class Makes : uint8_t { Once, Again };

class GraphEditor {
 public:
  // --- Structure
  /// Live nodes in the order they were made.
  [[nodiscard]] std::vector<NodeId> nodes() const;
  [[nodiscard]] size_t node_count() const;
  /// Errors: Error if the node was removed.
  [[nodiscard]] const Node& node(NodeId id) const;
  [[nodiscard]] bool contains(NodeId id) const;
  [[nodiscard]] const TensorType& type(const Value& value) const;
  [[nodiscard]] std::vector<Use> uses(NodeId id) const;
  /// Inputs before consumers, order edges obeyed; ties by creation, so the same graph gives the same order.
  [[nodiscard]] std::vector<NodeId> topological_order() const;
  /// Nodes that must run even if nothing reads them: wanted values, next states, side effects, and `extra`.
  [[nodiscard]] std::vector<NodeId> roots(std::span<const Value> extra = {}) const;
  NodeId add_node(const OpDef& op, Attributes attributes, std::vector<Edge> inputs);
  void set_input(NodeId id, int input, Edge edge);
  /// Every reader of `old` (consumers, marks, states, live handles) reads `replacement` from now on.
  void replace(const Value& old, const Edge& replacement);
  /// Errors: InternalError if it still has uses.
  void remove(NodeId id);
  /// Removes a node that nothing reads, wants or orders as an effect, and then what fed only it. Inputs stay.
  void remove_unused(NodeId id);
  void add_order(NodeId before, NodeId after);
  /// Follows replacements to the present place of a value.
  [[nodiscard]] Edge resolve(const Edge& edge) const;
  [[nodiscard]] GraphTensor tensor_of(const Edge& edge) const;
  /// The whole value of `source`, seen through no view.
  [[nodiscard]] GraphTensor tensor_of(const Value& source) const;
  /// Grows with every change of structure, marks or device: a plan for an older version is stale.
  [[nodiscard]] uint64_t version() const;
  /// A stream number no random node of this graph has yet.
  [[nodiscard]] int64_t next_random_stream();
  /// While it lives, nodes made get this origin instead of the caller's line (passes act on behalf of older
  /// nodes).
  class OriginScope {
   public:
    OriginScope(GraphEditor& graph, std::shared_ptr<const Origin> origin);
    OriginScope(const OriginScope&) = delete;
    OriginScope& operator=(const OriginScope&) = delete;
    ~OriginScope();

   private:
    std::shared_ptr<GraphState> state_;
    std::shared_ptr<const Origin> previous_;
  };

  /// Typed access to a node by its op. `get_op` errors if it is another.
  [[nodiscard]] const Node& get_op(const GraphTensor& tensor, const OpDef& op) const;
  [[nodiscard]] const Node* try_get_op(const GraphTensor& tensor, const OpDef& op) const;
  [[nodiscard]] bool is_op(const GraphTensor& tensor, const OpDef& op) const;

  // --- Stored values
  /// What is stored for a value, or nullptr. What lies on a device is copied to the host when first asked
  /// for, and what GraphTensor::set_lazily was given is made.
  [[nodiscard]] std::shared_ptr<const TensorData> value(const Value& value) const;
  /// The data is shared, not copied. Runs of this graph may write into data that only the graph
  /// still holds (states in place, results again): the object itself must not be const.
  void store(const Value& value, std::shared_ptr<const TensorData> data, bool pinned);
  void store(const Value& value, std::shared_ptr<const DeviceValue> data, bool pinned);
  /// Pinned data of an input that `make` gives when they are first asked for; `Again`: the same whenever it is called, so
  /// that they may be let go.
  void store_lazily(const Value& value, std::function<TensorData()> make, Makes makes);
  /// Gives back the memory of data that can be made again, if nobody else holds them; `value` makes them again. Whether
  /// there are none now.
  bool let_go(const Value& value);
  /// As `value`; data that were let go are made again for good.
  [[nodiscard]] std::shared_ptr<const TensorData> hold(const Value& value);
  /// What is stored for a value on a device, or nullptr.
  [[nodiscard]] std::shared_ptr<const DeviceValue> device_value(const Value& value) const;
  /// Takes the data out of the graph if only the graph holds it: the caller may then write into it. Returns
  /// nullptr otherwise, and the graph keeps what it has.
  [[nodiscard]] std::shared_ptr<TensorData> take(const Value& value);
  void erase(const Value& value);
  /// What `set_deferred` was given for an input, or an empty function.
  [[nodiscard]] std::function<TensorData()> loader(const Value& value) const;
  /// Set, kept or moved here: a run reads it and does not compute it.
  [[nodiscard]] bool is_pinned(const Value& value) const;
  /// All outputs of the node are pinned.
  [[nodiscard]] bool is_present(NodeId id) const;
  /// Grows whenever a computed value becomes present or stops being so: a plan for an older count may compute
  /// too much or too little.
  [[nodiscard]] uint64_t presence() const;
  /// Another number whenever the value was given other data, or somebody took them to write into them; 0: there are none.
  [[nodiscard]] uint64_t stamp(const Value& value) const;
  /// Holds the same in run after run, as far as the program says: it is kept, or set_lazily gave it its first data. A
  /// plan may then keep what it makes of the value alone, until the value gets other data.
  [[nodiscard]] bool is_weight(const Value& value) const;
  /// Says so of an input that has no data yet.
  void note_weight(const Value& value);

  // --- Marks
  /// State pairs: after each run the first tensor takes the value of the second, all at once.
  struct StateUpdate {
    Value state;
    Edge next;
  };
  [[nodiscard]] const std::vector<StateUpdate>& state_updates() const;
  /// Values a run has to leave in `value()`: retrieved and kept ones.
  [[nodiscard]] std::vector<Value> wanted() const;
  [[nodiscard]] bool is_retrieved(const Value& value) const;
  [[nodiscard]] bool is_kept(const Value& value) const;

  [[nodiscard]] const std::shared_ptr<GraphState>& state() const { return state_.get(); }

 protected:
  explicit GraphEditor(std::shared_ptr<GraphState> state) : state_(std::move(state)) {}
  GraphEditor(GraphEditor&&) noexcept = default;
  GraphEditor& operator=(GraphEditor&&) noexcept = default;
  ~GraphEditor() = default;
  detail::StateOf state_;
};

}  // namespace luminal
