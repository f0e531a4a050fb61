#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "luminal/compiler.h"
#include "luminal/graph_tensor.h"
#include "luminal/node.h"
#include "luminal/search_options.h"
#include "luminal/session.h"
#include "luminal/tensor_data.h"

/// A lazy graph of primitive ops.
///
///   Graph cx;
///   auto x = cx.tensor({2, 3}).set({{1, 2, 3}, {4, 5, 6}});
///   auto y = (x * 2).sum(1).retrieve();          // nothing is computed yet
///   cx.execute();
///   assert((y.data<float>() == std::vector<float>{12, 30}));
///
/// Nodes hold an op, attributes and edges; each edge reads a dense value through a view. Tensors
/// (GraphTensor) are small handles that stay valid when the graph is moved and when passes replace their
/// node. Values live in the graph: set inputs and kept values stay, retrieved ones are there after a run,
/// everything else is temporary.
///
/// Thread safety: different graphs are independent; any number of threads may build, compile and run theirs
/// at once. Of one graph:
/// - Runs (execute, a Compiled) and what gives, moves or reads values (set, data, set_dim, transfer_data ...)
///   may come from any thread and take turns. Set, run and read are three turns: lock to make them one.
/// - One thread at a time builds, marks and runs passes; a change while another thread has its turn is an
///   Error.
/// - User code that a run calls (a function's code, a deferred input's loader) may read and set values of the
///   graph that runs. Running that graph is an Error there, and so is changing it from a
///   function's code. Waiting there for another thread that needs a turn is a deadlock.
namespace luminal {

struct GraphState;
struct CompileReport;

namespace detail {

/// The state of a graph. A handle that was moved from has none, and its use is an Error.
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

/// Builds a node step by step: cx.add_op(kAdd).input(a).input(b).finish(). Thread safety: as building the
/// graph.
class OpBuilder {
 public:
  OpBuilder(Graph& graph, const OpDef& op) : graph_(&graph), op_(&op) {}
  OpBuilder& input(const GraphTensor& tensor);
  OpBuilder& attribute(std::string key, Attribute value);
  /// Adds the node. Errors: ShapeError or DtypeError by the op's rule.
  GraphTensor finish(std::source_location where = std::source_location::current());
  /// All outputs of an op that has several.
  std::vector<GraphTensor> finish_all(std::source_location where = std::source_location::current());

 private:
  Graph* graph_;
  const OpDef* op_;
  Attributes attributes_;
  std::vector<Edge> inputs_;
};

/// A compiled graph, called again and again: `auto step = cx.compile(Fast{}); step(); step();`
/// Thread safety: any thread may call it; calls take turns with all other runs of its graph.
class Compiled {
 public:
  Compiled(std::shared_ptr<GraphState> state, std::shared_ptr<Executable> executable)
      : state_(std::move(state)), executable_(std::move(executable)) {}
  /// One run, as Graph::execute.
  void operator()();
  /// What was compiled and how long it took, one fact a line.
  [[nodiscard]] std::string report() const;
  /// How the plan came to be, its kernels and what was not taken (luminal/compile_report.h). Errors: Error if
  /// the device interprets graphs, or sizes are missing.
  [[nodiscard]] CompileReport details() const;

 private:
  detail::StateOf state_;
  std::shared_ptr<Executable> executable_;
};

/// See Graph::to_egglog.
struct EgglogText {
  std::string program;             ///< declarations, then a `let` for each node
  std::vector<std::string> roots;  ///< terms
};

class Graph {
 public:
  Graph();
  Graph(Graph&&) noexcept = default;
  Graph& operator=(Graph&&) noexcept = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();

  // --- Making tensors (src/ops/composite/create.cpp)
  using Where = std::source_location;
  /// An input: its data is given with `set` before a run.
  GraphTensor tensor(Shape dims, Dtype dtype = Dtype::F32, Where where = Where::current());
  GraphTensor named_tensor(std::string name, Shape dims, Dtype dtype = Dtype::F32,
                           Where where = Where::current());
  GraphTensor constant(Number value, Dtype dtype = Dtype::F32, Where where = Where::current());
  template <class T>
    requires std::integral<T> || std::floating_point<T>
  GraphTensor constant(T value, Dtype dtype = Dtype::F32, Where where = Where::current()) {
    return constant(Number(value), dtype, where);
  }
  /// An integer formula over dims, evaluated at each run.
  GraphTensor constant(const Expression& value, Dtype dtype = Dtype::I64, Where where = Where::current());
  /// Integer `e` over the flat index z of `dims`.
  GraphTensor iota(const Expression& e, Shape dims, Dtype dtype = Dtype::I64, Where where = Where::current());
  GraphTensor arange(const Expression& end, Dtype dtype = Dtype::I64, Where where = Where::current());
  GraphTensor arange_in_range(const Expression& start, const Expression& end, Dtype dtype = Dtype::I64,
                              Where where = Where::current());
  GraphTensor arange_step(Number start, Number end, Number step, Dtype dtype = Dtype::F32,
                          Where where = Where::current());
  GraphTensor eye(const Expression& n, Dtype dtype = Dtype::F32, Where where = Where::current());
  /// Ones on and below (above) the given diagonal of [rows, columns].
  GraphTensor tril(const Expression& rows, const Expression& columns, const Expression& diagonal = 0,
                   Dtype dtype = Dtype::F32, Where where = Where::current());
  GraphTensor triu(const Expression& rows, const Expression& columns, const Expression& diagonal = 0,
                   Dtype dtype = Dtype::F32, Where where = Where::current());
  GraphTensor zeros(Shape dims, Dtype dtype = Dtype::F32, Where where = Where::current());
  GraphTensor ones(Shape dims, Dtype dtype = Dtype::F32, Where where = Where::current());
  GraphTensor full(Shape dims, Number value, Dtype dtype = Dtype::F32, Where where = Where::current());
  /// Counter-based random numbers (Philox): the same on every backend for one seed, node and run.
  GraphTensor uniform(Shape dims, double low = 0, double high = 1, Dtype dtype = Dtype::F32,
                      Where where = Where::current());
  GraphTensor normal(Shape dims, double mean = 0, double stddev = 1, Dtype dtype = Dtype::F32,
                     Where where = Where::current());
  /// Seed of this graph's random nodes; the default is 0.
  void set_seed(uint64_t seed);
  [[nodiscard]] uint64_t seed() const;
  /// A stream number no random node of this graph has yet.
  [[nodiscard]] int64_t next_random_stream();

  /// A node of any op, built by hand.
  OpBuilder add_op(const OpDef& op) { return {*this, op}; }
  /// `after` runs later than `before`, though no data flows between them.
  void order(const GraphTensor& before, const GraphTensor& after);

  // --- Running
  /// Fixes the size of a named dim for the next runs: data given from now on must have it, until another
  /// set_dim or clear_dim. Dims that are not fixed take their sizes from the data of each `set`. Errors:
  /// Error that offers the nearest name if no tensor made so far has the dim; ShapeError if the size is
  /// negative or breaks the dim's facts.
  void set_dim(std::string_view name, int64_t size, Where where = Where::current());
  /// Takes back what set_dim fixed: the size stays in force until data or set_dim give another. Nothing
  /// happens if the dim is not fixed.  Errors: Error if no tensor made so far has the dim.
  void clear_dim(std::string_view name, Where where = Where::current());
  /// Named dims of the tensors made so far, sorted.
  [[nodiscard]] std::vector<std::string> dim_names() const;
  [[nodiscard]] const DimMap& dims() const;
  /// Where runs happen; the default is LUMINAL_DEVICE or the best device. Errors: DeviceError.
  void set_device(std::string_view device);
  [[nodiscard]] std::string device() const;
  /// What the search may do to this graph from its next compile on. Errors are those of compiling: laws that
  /// are not known or do not read.
  void set_search(SearchOptions options);
  [[nodiscard]] const SearchOptions& search() const;
  /// Ends the search for kernels, or the run, that is under way as soon as a stop is requested of the token's
  /// source, from any thread: `compile` and `execute` then throw Cancelled (luminal/cancel.h), at the latest
  /// when the kernel that is being compiled or run is done. The graph stays usable, with another token.
  void set_stop_token(std::stop_token token);
  /// Computes all retrieved and kept values, next states and side effects. Errors: Error if an input is not
  /// set or sizes contradict.
  void execute();
  /// As execute, and prints each op with shapes and time.
  std::vector<TraceEntry> execute_debug();
  /// As execute for every node, and keeps every value: any tensor can be read afterwards.
  void execute_no_delete();
  /// Drops every value that is not set, kept or state.
  void reset();
  /// How many runs there were; random nodes depend on it.
  [[nodiscard]] uint64_t step() const;
  void set_step(uint64_t step);
  /// Keys of the plans that runs have used so far, by the bucket of sizes that each is for (PlanIdentity).
  /// Empty on devices that interpret.
  [[nodiscard]] const std::map<std::string, uint64_t>& plans() const;
  /// The values of this graph come from runs under `plans`: when a bucket among them first runs here, under
  /// another plan, `differs` is told of it. Checkpoints use this.
  void resume_plans(std::map<std::string, uint64_t> plans, std::function<void(const PlanIdentity&)> differs);

  /// Runs a pass, or a tuple of passes in order, and returns what it returns. Handles (tensors or vectors of
  /// tensors) are kept reachable; they and all other live handles follow their values.
  template <class P, class... H>
    requires(!std::is_convertible_v<P, CompilationMode>)
  auto compile(P&& pass, const H&... handles) {
    std::vector<GraphTensor> list;
    (collect(list, handles), ...);
    Remap remap(std::move(list));
    return detail::run_pass(pass, *this, remap);
  }
  /// Compiles the graph in its current form.
  Compiled compile(const CompilationMode& mode);

  // --- Values
  /// What is stored for a value, or nullptr. What lies on a device is copied to the host when first asked
  /// for.
  [[nodiscard]] std::shared_ptr<const TensorData> value(const Value& value) const;
  /// The data is shared, not copied. Runs of this graph may write into data that only the graph
  /// still holds (states in place, results again): the object itself must not be const.
  void store(const Value& value, std::shared_ptr<const TensorData> data, bool pinned);
  void store(const Value& value, std::shared_ptr<const DeviceValue> data, bool pinned);
  /// What is stored for a value on a device, or nullptr.
  [[nodiscard]] std::shared_ptr<const DeviceValue> device_value(const Value& value) const;
  /// Takes the data out of the graph if only the graph holds it: the caller may then write into it. Returns
  /// nullptr otherwise, and the graph keeps what it has.
  [[nodiscard]] std::shared_ptr<TensorData> take(const Value& value);
  /// Moves a tensor's stored value to the memory of the graph's device now; the next run would do it
  /// otherwise. Nothing happens where the device works in host memory. Errors: Error if there is no value.
  void to_device(const GraphTensor& tensor, Where where = Where::current());
  /// Moves a tensor's stored value to host memory and gives the device's memory back; reading it with data()
  /// copies it and keeps both. Errors: Error if there is no value.
  void from_device(const GraphTensor& tensor, Where where = Where::current());
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
  /// Exchanges two stored values. Errors: Error if dtypes or sizes differ.
  void swap_tensors(const GraphTensor& a, const GraphTensor& b);
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
  /// Cuts the given nodes from what feeds them, which is removed where nothing else uses it; they become
  /// inputs.
  void delete_inputs(std::span<const GraphTensor> nodes);

  // --- Structure, for passes and sessions
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
  /// While it lives, nodes made get this origin instead of the caller's line (passes act on behalf of older
  /// nodes).
  class OriginScope {
   public:
    OriginScope(Graph& graph, std::shared_ptr<const Origin> origin);
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

  /// Text: one node a line, for people and golden tests.
  [[nodiscard]] std::string to_string() const;
  /// The graph as a program of `luminal egg` (docs/egraph.md): terms over one sort, Tensor, with an op's type
  /// and attributes as a string, views as terms of their own, and the wanted values as roots.
  [[nodiscard]] EgglogText to_egglog() const;
  /// Writes Graphviz text (.dot), SVG (.svg) or a self-contained page (.html), by the file's ending; marked
  /// nodes stand out.
  void display(std::span<const GraphTensor> marks, const std::string& file) const;
  /// As `to_string`, with the shape of every edge.
  [[nodiscard]] std::string display_shapes() const;

  [[nodiscard]] const std::shared_ptr<GraphState>& state() const { return state_.get(); }

 private:
  friend class GraphTensor;
  friend class Compiled;
  explicit Graph(std::shared_ptr<GraphState> state) : state_(std::move(state)) {}
  static void collect(std::vector<GraphTensor>& list, const GraphTensor& tensor) { list.push_back(tensor); }
  template <class Range>
  static void collect(std::vector<GraphTensor>& list, const Range& tensors) {
    for (const auto& tensor : tensors) collect(list, tensor);
  }
  detail::StateOf state_;
};

/// Where values are found after passes have rewritten their consumers: follows single consumers down to the
/// last.
[[nodiscard]] std::vector<GraphTensor> downstream(std::span<const GraphTensor> tensors, const Graph& graph);
/// Moves kept values to other nodes, of another graph or the same. Errors: Error if counts, dtypes or sizes
/// differ.
void transfer_data(std::span<const GraphTensor> from, Graph& from_graph, std::span<const GraphTensor> to,
                   Graph& to_graph);
void transfer_data_same_graph(std::span<const GraphTensor> from, std::span<const GraphTensor> to,
                              Graph& graph);

}  // namespace luminal
