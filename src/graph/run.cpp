#include <algorithm>
#include <atomic>
#include <iostream>
#include <mutex>

#include "base/cancel.h"
#include "base/environment.h"
#include "base/fail.h"
#include "base/log.h"
#include "base/suggest.h"
#include "graph/data_input.h"
#include "graph/graph_state.h"
#include "graph/materialize.h"
#include "graph/needed.h"
#include "graph/node_run.h"
#include "graph/update_states.h"
#include "luminal/compile_report.h"

namespace luminal {

// --- Sessions

namespace {

struct Registry {
  std::mutex mutex;
  std::vector<std::pair<std::string, std::function<std::shared_ptr<Session>()>>> makers;  // best device first
};
Registry& registry() {
  static Registry made;
  return made;
}

}  // namespace

void register_session(std::string device, std::function<std::shared_ptr<Session>()> make) {
  const std::lock_guard lock(registry().mutex);
  auto& makers = registry().makers;
  const auto same = std::ranges::find(makers, device, [](const auto& entry) { return entry.first; });
  if (same != makers.end())
    same->second = std::move(make);
  else
    makers.emplace_back(std::move(device), std::move(make));
}

std::vector<std::string> session_devices() {
  install_sessions();
  const std::lock_guard lock(registry().mutex);
  std::vector<std::string> names;
  for (const auto& [name, make] : registry().makers) names.push_back(name);
  return names;
}

std::shared_ptr<Session> make_session(std::string_view device) {
  const std::vector<std::string> names = session_devices();
  const auto found = device.empty() ? names.begin() : std::ranges::find(names, device);
  if (found == names.end())
    fail<DeviceError>("[device] unknown device '{}'; this build has: {}{}", device, fmt::join(names, ", "),
                      did_you_mean(device, names));
  std::function<std::shared_ptr<Session>()> make;
  {
    const std::lock_guard lock(registry().mutex);
    make = registry().makers.at(static_cast<size_t>(found - names.begin())).second;
  }
  return make();
}

std::shared_ptr<const DeviceValue> Session::to_device(const TensorData&) { return nullptr; }

// --- Settings

std::vector<std::string> Graph::dim_names() const {
  std::vector<std::string> names;
  for (const auto& [name, facts] : state_->known_dims) names.push_back(name);
  return names;
}

namespace {

const DimFacts& facts_of(const Graph& graph, std::string_view name, std::string_view call) {
  const symbolic::KnownDims& known = graph.state()->known_dims;
  if (const auto found = known.find(name); found != known.end()) return found->second;
  const std::vector<std::string> names = graph.dim_names();
  if (names.empty())
    fail("[{}] no tensor of this graph has a dim '{}' or any other named dim; make the tensors first", call,
         name);
  fail("[{}] no tensor of this graph has a dim '{}'; its dims are {}{}", call, name, fmt::join(names, ", "),
       did_you_mean(name, names));
}

}  // namespace

void Graph::set_dim(std::string_view name, int64_t size, Where where) {
  const CallSite site("set_dim", where);
  const Turn turn(*state_, "set_dim", Turn::For::Values);
  if (size < 0) fail<ShapeError>("[set_dim] dim '{}' cannot have the size {}; give 0 or more", name, size);
  const DimFacts& facts = facts_of(*this, name, "set_dim");
  if (size < facts.min || size > facts.max || size % facts.multiple_of != 0)
    fail<ShapeError>(
        "[set_dim] dim '{}' cannot have the size {}: tensors promise a multiple of {} in [{}, {}]; give such "
        "a size, or declare the dim with other facts",
        name, size, facts.multiple_of, facts.min, facts.max);
  state_->fixed_dims.insert_or_assign(std::string(name), short_location(where));
  state_->dims.insert_or_assign(std::string(name), size);
}

void Graph::clear_dim(std::string_view name, Where where) {
  const CallSite site("clear_dim", where);
  const Turn turn(*state_, "clear_dim", Turn::For::Values);
  (void)facts_of(*this, name, "clear_dim");
  if (const auto fixed = state_->fixed_dims.find(name); fixed != state_->fixed_dims.end())
    state_->fixed_dims.erase(fixed);
}

std::string fixed_dims_text(const GraphState& state, const Shape& dims) {
  std::string text;
  std::set<std::string> names;
  for (const Expression& dim : dims) names.merge(dim.to_symbols());
  for (const std::string& name : names)
    if (const auto fixed = state.fixed_dims.find(name); fixed != state.fixed_dims.end())
      text += fmt::format("; set_dim fixed '{0}' at {1} ({2}): clear_dim(\"{0}\") lets data decide again",
                          name, state.dims.at(name), fixed->second);
  return text;
}

const DimMap& Graph::dims() const { return state_->dims; }

void Graph::set_device(std::string_view device) {
  (void)make_session(device);
  const Turn turn(*state_, "set_device", Turn::For::Structure);
  state_->device = device;
  ++state_->version;
}
std::string Graph::device() const {
  if (!state_->device.empty()) return state_->device;
  return std::string(make_session(environment::device())->device());
}

void Graph::set_search(SearchOptions options) {
  const Turn turn(*state_, "set_search", Turn::For::Structure);
  state_->search = std::move(options);
  ++state_->version;
}
const SearchOptions& Graph::search() const { return state_->search; }

void Graph::set_stop_token(std::stop_token token) {
  const Turn turn(*state_, "set_stop_token", Turn::For::Values);
  state_->stop = std::move(token);
}

void Graph::set_seed(uint64_t seed) { state_->seed = seed; }
uint64_t Graph::seed() const { return state_->seed; }
int64_t GraphEditor::next_random_stream() { return state_->random_streams++; }
// Read by threads of a run, and by others while one goes on.
uint64_t Graph::step() const { return std::atomic_ref(state_->step).load(std::memory_order_relaxed); }
void Graph::set_step(uint64_t step) { std::atomic_ref(state_->step).store(step, std::memory_order_relaxed); }

const std::map<std::string, uint64_t>& Graph::plans() const { return state_->plans; }
void Graph::resume_plans(std::map<std::string, uint64_t> plans,
                         std::function<void(const PlanIdentity&)> differs) {
  state_->unconfirmed_plans.clear();
  for (const auto& [bucket, key] : plans) state_->unconfirmed_plans.insert(bucket);
  state_->plans = std::move(plans);
  state_->plan_differs = std::move(differs);
}

// --- Running

namespace {

/// Named dims that a run has to know, each with the first node that needs it.
std::vector<std::pair<std::string, NodeId>> dims_of(const Graph& graph, const std::vector<NodeId>& nodes) {
  std::map<std::string, NodeId, std::less<>> found;
  const auto see = [&](const Expression& e, NodeId id) {
    if (e.constant()) return;
    for (const std::string& name : e.to_symbols()) found.try_emplace(name, id);
  };
  for (const NodeId id : nodes) {
    const Node& node = graph.node(id);
    for (const TensorType& output : node.outputs)
      for (const Expression& dim : output.dims) see(dim, id);
    for (const auto& [key, attribute] : node.attributes.entries())
      if (const auto* formula = std::get_if<Expression>(&attribute)) see(*formula, id);
    for (const Edge& edge : node.inputs) {
      for (const Expression& dim : edge.view.dims()) see(dim, id);
      see(edge.view.index_expression(), id);
    }
  }
  return {found.begin(), found.end()};
}

/// What a run needs. Its sizes are filled in by `measure`, once the inputs have told them.
GraphState::Needs& needs_of(const Graph& graph, GraphState& state, bool everything) {
  GraphState::Needs& needs = state.needs;
  if (needs.version == state.version && needs.presence == state.presence && needs.everything == everything)
    return needs;
  needs = {.version = state.version,
           .presence = state.presence,
           .everything = everything,
           .checks_finite = environment::checks_finite()};
  const auto set = needed_nodes(graph, everything ? graph.nodes() : graph.roots());
  std::vector<NodeId> ids(set.begin(), set.end());
  std::ranges::sort(ids);
  if (!state.known_dims.empty()) needs.dims = dims_of(graph, ids);
  for (const NodeId id : ids) {
    const Node& node = graph.node(id);
    if (!is_computed(*node.op)) needs.inputs.push_back({{id, 0}, {}});
    for (int output = 0; is_computed(*node.op) && output < static_cast<int>(node.outputs.size()); ++output)
      if (graph.is_pinned({id, output})) needs.present.push_back({{id, output}, {}});
    for (int input = 0; !graph.is_present(id) && input < static_cast<int>(node.inputs.size()); ++input)
      if (std::ranges::any_of(node.inputs[static_cast<size_t>(input)].view.steps(),
                              [](const MovementStep& step) { return !step.conditions.empty(); }))
        needs.conditional.push_back({id, input});
  }
  return needs;
}

void measure(const Graph& graph, GraphState& state, GraphState::Needs& needs) {
  if (needs.sizes == state.dims) return;
  for (const auto& [name, node] : needs.dims)
    if (!state.dims.contains(name))
      fail(
          "[execute] the size of dim '{0}' is unknown, but {1} needs it; give it with set_dim(\"{0}\", size)",
          name, describe_value(graph, {node, 0}));
  for (auto* list : {&needs.inputs, &needs.present})
    for (auto& [value, dims] : *list) dims = exec(graph.type(value).dims, state.dims);
  for (const Use& use : needs.conditional) {
    const NodeRun run(graph, use.node);
    graph.node(use.node).inputs[static_cast<size_t>(use.input)].view.check(state.dims);
  }
  needs.sizes = state.dims;
}

const GraphState::Stored& stored_value(const Graph& graph, const GraphState& state, const Value& value) {
  const auto stored = state.values.find(value);
  if (stored == state.values.end() ||
      !(stored->second.data || stored->second.device || stored->second.let_go))
    fail("[execute] input {} is not set; give its data with set() before execute()",
         describe_value(graph, value));
  return stored->second;
}

void load_inputs(Graph& graph, GraphState& state, const GraphState::Needs& needs) {
  for (const auto& [value, dims] : needs.inputs) {
    const auto stored = state.values.find(value);
    if (stored != state.values.end() && stored->second.loader) {
      const std::function<TensorData()> loader = stored->second.loader;  // it may set inputs itself
      const std::string name = graph.node(value.node).name;
      const UserCode code("the loader of input",
                          name.empty() ? "#" + std::to_string(value.node.index) : name);
      TensorData data = loader();
      graph.store(value, std::make_shared<TensorData>(fit_input(graph, value, std::move(data), true)), true);
    } else {
      if (stored != state.values.end() && stored->second.make && !stored->second.let_go)
        (void)graph.value(value);
      (void)stored_value(graph, state, value);
    }
  }
}

/// Data given from outside has the sizes its dims say, now that all are known.
void check_sizes(const Graph& graph, const GraphState& state, const GraphState::Needs& needs) {
  for (const auto* list : {&needs.inputs, &needs.present})
    for (const auto& [value, expected] : *list) {
      const GraphState::Stored& stored = stored_value(graph, state, value);
      const std::vector<int64_t>& given = stored.let_go ? *stored.let_go
                                          : stored.data ? stored.data->dims
                                                        : stored.device->dims();
      if (given != expected)
        fail<ShapeError>(
            "[execute] {} holds data of [{}], but the current sizes make it [{}]; set it again or call "
            "set_dim{}",
            describe_value(graph, value), fmt::join(given, ", "), fmt::join(expected, ", "),
            fixed_dims_text(state, graph.type(value).dims));
    }
}

/// Values that a run leaves behind: pinned ones, wanted ones; the rest of what it stored is dropped.
void settle(Graph& graph, GraphState& state, bool everything) {
  for (const Value& value : state.kept)
    if (const auto stored = state.values.find(value);
        stored != state.values.end() && !stored->second.present()) {
      stored->second.pinned = true;
      if (is_computed(*graph.node(value.node).op)) ++state.presence;
    }
  if (everything) return;
  std::erase_if(state.values, [&](const auto& entry) {
    return !entry.second.pinned && !entry.second.loader && !graph.is_retrieved(entry.first);
  });
}

void note_plan(GraphState& state, const PlanIdentity& plan) {
  uint64_t& key = state.plans.try_emplace(plan.bucket, plan.key).first->second;
  const bool differs = key != plan.key;
  key = plan.key;
  if (state.unconfirmed_plans.erase(plan.bucket) > 0 && differs && state.plan_differs)
    state.plan_differs(plan);
}

/// Allocates nothing when structure, presence and sizes are those of the run before.
void run(Graph& graph, GraphState& state, Turn& turn, Executable& executable,
         const Executable::Options& options) {
  turn.set(Turns::Run::Around);
  load_inputs(graph, state, needs_of(graph, state, options.keep_everything));
  // A loader may set inputs, and change the graph.
  GraphState::Needs& needs = needs_of(graph, state, options.keep_everything);
  measure(graph, state, needs);
  check_sizes(graph, state, needs);
  turn.set(Turns::Run::Computing);
  Executable::Options checked = options;
  checked.check_finite = needs.checks_finite;
  executable.run(graph, checked);
  turn.set(Turns::Run::Around);
  if (const PlanIdentity* plan = executable.plan()) note_plan(state, *plan);
  settle(graph, state, options.keep_everything);
  std::atomic_ref(state.step).fetch_add(1, std::memory_order_relaxed);
}

Executable& ready(Graph& graph, GraphState& state) {
  if (!state.executable || state.executable_version != state.version) {
    const std::string device = state.device.empty() ? environment::device() : state.device;
    state.executable = make_session(device)->compile(graph, Fast{});
    state.executable_version = state.version;
    debug(1, "compiled for {}: {}", graph.device(), state.executable->report());
  }
  return *state.executable;
}

}  // namespace

void update_states(Graph& graph) {
  std::vector<std::pair<Value, std::shared_ptr<const TensorData>>> next;
  for (const auto& [state, edge] : graph.state_updates()) {
    auto data = graph.value(edge.source);
    LUMINAL_CHECK(data != nullptr, "the next value of state #{} was not computed", state.node.index);
    if (!edge.view.is_identity())
      data = std::make_shared<TensorData>(materialize(*data, edge.view, graph.dims()));
    next.emplace_back(state, std::move(data));
  }
  for (auto& [state, data] : next) graph.store(state, std::move(data), true);
}

namespace {

/// One run by the executable that `choose` gives, with the graph's turn and under its stop token.
template <class Choose>
void run_once(Graph& graph, std::string_view call, const Executable::Options& options, Choose&& choose) {
  const std::shared_ptr<GraphState> state = graph.state();
  Turn turn(*state, call, Turn::For::Run);
  const CancelScope scope(state->stop);
  throw_if_cancelled();
  run(graph, *state, turn, choose(*state), options);
}

void execute_with(Graph& graph, std::string_view call, const Executable::Options& options) {
  run_once(graph, call, options, [&](GraphState& state) -> Executable& { return ready(graph, state); });
}

}  // namespace

void Graph::execute() { execute_with(*this, "execute", {}); }

void Graph::execute_no_delete() { execute_with(*this, "execute_no_delete", {.keep_everything = true}); }

std::vector<TraceEntry> Graph::execute_debug() {
  std::vector<TraceEntry> trace;
  execute_with(*this, "execute_debug", {.trace = &trace});
  double total = 0;
  for (const TraceEntry& entry : trace) {
    std::cout << fmt::format("{:>10.1f} us  {:<14} {}\n", entry.time_us, entry.op, entry.shapes);
    total += entry.time_us;
  }
  std::cout << fmt::format("{:>10.1f} us  in {} ops\n", total, trace.size());
  return trace;
}

Compiled Graph::compile(const CompilationMode& mode) {
  const Turn turn(*state_, "compile", Turn::For::Run);
  const CancelScope scope(state_->stop);
  throw_if_cancelled();
  const std::string device = state_->device.empty() ? environment::device() : state_->device;
  return {state_.get(), make_session(device)->compile(*this, mode)};
}

void detail::StateOf::moved_from() {
  fail("[graph] this Graph or Compiled was moved from; use the one that it was moved to");
}

void Compiled::operator()() {
  Graph graph(state_.get());
  run_once(graph, "execute", {}, [&](GraphState&) -> Executable& { return *executable_; });
}

std::string Compiled::report() const {
  const Turn turn(*state_, "report", Turn::For::Values);
  return executable_->report();
}

CompileReport Compiled::details() const {
  const Turn turn(*state_, "details", Turn::For::Values);
  const auto* explained = dynamic_cast<const Explained*>(executable_.get());
  if (explained == nullptr)
    fail("[compile] device '{}' interprets graphs and has nothing to explain; choose one that compiles",
         Graph(state_.get()).device());
  return explained->details();
}

void Graph::delete_inputs(std::span<const GraphTensor> tensors) {
  for (const GraphTensor& tensor : tensors) {
    const Value old = tensor.edge().source;
    if (!is_computed(*node(old.node).op)) continue;
    const GraphTensor input = this->tensor(type(old).dims, type(old).dtype);
    const auto data = value(old);
    const bool pinned = is_pinned(old);
    replace(old, input.edge());
    if (data) store(input.edge().source, data, pinned);
    remove_unused(old.node);
  }
}

void GraphEditor::remove_unused(NodeId id) {
  std::vector<NodeId> stack{id};
  while (!stack.empty()) {
    const NodeId at = stack.back();
    stack.pop_back();
    if (!contains(at) || !uses(at).empty() || node(at).op->is(Trait::SideEffect)) continue;
    const std::vector<NodeId> kept_nodes = roots();
    if (std::ranges::binary_search(kept_nodes, at)) continue;
    std::vector<NodeId> sources;
    for (const Edge& edge : node(at).inputs) sources.push_back(edge.source.node);
    remove(at);
    for (const NodeId source : sources)
      if (contains(source) && is_computed(*node(source).op)) stack.push_back(source);
  }
}

}  // namespace luminal
