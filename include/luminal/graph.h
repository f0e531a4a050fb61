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

#include "luminal/graph_editor.h"
#include "luminal/graph_tensor.h"
#include "luminal/pass.h"
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
/// What programs call stands here; nodes, marks and stored values, which passes and sessions work on, stand
/// in GraphEditor.
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

struct CompileReport;

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

class Graph : public GraphEditor {
 public:
  Graph();

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

  /// Runs a pass, or a tuple of passes in order, and returns what it returns. All live handles follow their
  /// values. `handles` (tensors or ranges of tensors) are computed values that no pass may remove although
  /// nothing in the graph reads them; what is retrieved, kept or state, and what the passes work on
  /// (Autograd's loss and parameters) stays without being named.
  template <class P, class... H>
  auto run_pass(P&& pass, const H&... handles) {
    std::vector<GraphTensor> list = detail::tensors_of(pass);
    (collect(list, handles), ...);
    Remap remap(std::move(list));
    return detail::run_pass(pass, *this, remap);
  }
  /// The older spelling of run_pass.
  template <class P, class... H>
    requires(!std::is_convertible_v<P, CompilationMode>)
  auto compile(P&& pass, const H&... handles) {
    return run_pass(std::forward<P>(pass), handles...);
  }
  /// Compiles the graph in its current form.
  Compiled compile(const CompilationMode& mode);

  // --- Values
  /// The tensor that set_name, named_tensor or a module gave this name, computed ones whole, through no view:
  /// `cx.named("layers/0/attention").retrieve()` makes a run leave it for reading. Errors: Error that offers
  /// the nearest name if there is none, or tells the tensors if there are several.
  [[nodiscard]] GraphTensor named(std::string_view name, Where where = Where::current()) const;
  /// Names of the graph's tensors, sorted, each once.
  [[nodiscard]] std::vector<std::string> tensor_names() const;
  /// Moves a tensor's stored value to the memory of the graph's device now; the next run would do it
  /// otherwise. Nothing happens where the device works in host memory. Errors: Error if there is no value.
  void to_device(const GraphTensor& tensor, Where where = Where::current());
  /// Moves a tensor's stored value to host memory and gives the device's memory back; reading it with data()
  /// copies it and keeps both. Errors: Error if there is no value.
  void from_device(const GraphTensor& tensor, Where where = Where::current());
  /// Exchanges two stored values. Errors: Error if dtypes or sizes differ.
  void swap_tensors(const GraphTensor& a, const GraphTensor& b);
  /// Cuts the given nodes from what feeds them, which is removed where nothing else uses it; they become
  /// inputs.
  void delete_inputs(std::span<const GraphTensor> nodes);

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

 private:
  friend class GraphEditor;
  friend class GraphTensor;
  friend class Compiled;
  explicit Graph(std::shared_ptr<GraphState> state) : GraphEditor(std::move(state)) {}
  static void collect(std::vector<GraphTensor>& list, const GraphTensor& tensor) { list.push_back(tensor); }
  template <class Range>
  static void collect(std::vector<GraphTensor>& list, const Range& tensors) {
    for (const auto& tensor : tensors) collect(list, tensor);
  }
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
