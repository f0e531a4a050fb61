#include "luminal/egraph.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/fail.h"
#include "base/suggest.h"
#include "egraph/core/actions.h"
#include "egraph/core/explain.h"
#include "egraph/core/join.h"
#include "egraph/core/limits.h"
#include "egraph/core/run.h"
#include "egraph/core/snapshot.h"
#include "egraph/core/state.h"

namespace luminal::egraph {

// --- Declarations

namespace {

template <class Map>
std::string suggestion(const Map& names, std::string_view word) {
  std::vector<std::string> known;
  for (const auto& entry : names) known.push_back(entry.first);
  std::sort(known.begin(), known.end());
  return did_you_mean(word, known);
}

template <class Map, class Id>
void declare(Map& names, const std::string& name, Id id, std::string_view what) {
  if (!names.emplace(name, id).second)
    fail("[egraph] {} '{}' is already declared; choose another name", what, name);
}

/// The key as stored and canonical.
class Key {
 public:
  Key(EngineState& state, FunctionId f, std::span<const Value> args) {
    const FunctionInfo& info = state.at(f);
    if (args.size() != info.spec.inputs.size())
      fail("[egraph] {} takes {} arguments, but {} are given", info.spec.name, info.spec.inputs.size(),
           args.size());
    for (size_t i = 0; i < args.size(); i++) values_.push_back(state.canonical(info.spec.inputs[i], args[i]));
    if (args.empty()) values_.push_back(kUnitValue);
  }
  operator std::span<const Value>() const { return values_; }  // NOLINT(google-explicit-constructor)

 private:
  std::vector<Value> values_;
};

void check_sort(const EngineState& state, SortId sort) {
  if (index_of(sort) >= state.sorts.size())
    fail("[egraph] sort number {} is not declared: there are {}", index_of(sort), state.sorts.size());
}

SortId add_sort(EngineState& state, SortKind kind, ContainerSort hooks) {
  const SortId id{static_cast<uint32_t>(state.sorts.size())};
  declare(state.sort_names, hooks.name, id, "sort");
  state.sorts.push_back({kind, std::move(hooks), {}, {}});
  return id;
}

void add_builtin_sorts(EngineState& state) {
  const Literals& literals = state.literals;
  const auto add = [&](std::string name, auto print) {
    ContainerSort sort;
    sort.name = std::move(name);
    sort.print = [print](Value v, std::span<const std::string>) -> std::string { return print(v); };
    add_sort(state, SortKind::Plain, std::move(sort));
  };
  add("Unit", [](Value) { return std::string("()"); });
  add("bool", [](Value v) { return std::string(v != 0 ? "true" : "false"); });
  add("i64", [&literals](Value v) { return fmt::format("{}", literals.as_i64(v)); });
  add("f64", [&literals](Value v) {
    std::string text = fmt::format("{}", literals.as_f64(v));
    return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
  });
  add("String", [&literals](Value v) { return fmt::format("\"{}\"", literals.as_string(v)); });
  state.sorts[index_of(kI64)].hooks.compare = [&literals](Value a, Value b) {
    const int64_t x = literals.as_i64(a), y = literals.as_i64(b);
    return x < y ? -1 : x > y ? 1 : 0;
  };
  state.sorts[index_of(kF64)].hooks.compare = [&literals](Value a, Value b) {
    const double x = literals.as_f64(a), y = literals.as_f64(b);
    return x < y ? -1 : x > y ? 1 : 0;
  };
  state.sorts[index_of(kString)].hooks.compare = [&literals](Value a, Value b) {
    return literals.as_string(a).compare(literals.as_string(b));
  };
}

/// Of two equal outputs, calls of tables of their sort and idempotent primitives give that value again; of
/// what is left, the merge keeps what its result needs.
void simplify_for_equal(const EngineState& state, const FunctionInfo& info, CompiledMerge& merge) {
  const auto& slots = merge.slots.slots;
  const Slot value = merge.slots.slot_of[0];
  std::vector<bool> is_value(slots.size(), false), needed(slots.size(), false);
  is_value[value] = is_value[merge.slots.slot_of[1]] = true;
  const auto gives_value = [&](const CompiledAction& a) {
    if (a.kind == Action::Kind::Call) return slots[a.value].sort == info.spec.output;
    return a.kind == Action::Kind::Primitive && state.at(a.primitive).spec.idempotent && !a.args.empty() &&
           std::all_of(a.args.begin(), a.args.end(), [&](Slot s) { return is_value[s]; });
  };
  for (const CompiledAction& action : merge.actions)
    if (gives_value(action)) is_value[action.value] = true;
  merge.runs_if_equal = !is_value[merge.result];
  if (!merge.runs_if_equal) return;
  merge.result_if_equal = merge.result;
  needed[merge.result] = true;
  for (size_t i = merge.actions.size(); i-- > 0;) {
    CompiledAction action = merge.actions[i];
    const bool computes = action.kind == Action::Kind::Call || action.kind == Action::Kind::Primitive;
    if (!computes || is_value[action.value] || !needed[action.value]) continue;
    for (Slot& s : action.args) {
      if (is_value[s]) s = value;
      needed[s] = true;
    }
    merge.actions_if_equal.push_back(std::move(action));
  }
  std::reverse(merge.actions_if_equal.begin(), merge.actions_if_equal.end());
}

void compile_merge(EngineState& state, FunctionInfo& info) {
  const Merge& merge = info.spec.merge;
  auto compiled = std::make_shared<CompiledMerge>();
  const SortId sort = info.spec.output;
  compiled->slots = bound_variables({{"old", sort}, {"new", sort}});
  compiled->actions = compile_actions(state, compiled->slots, merge.program, info.spec.name);
  if (merge.result.is_variable()) {
    if (merge.result.at >= compiled->slots.slot_of.size())
      fail("[{}] the merge's result is not bound", info.spec.name);
    compiled->result = compiled->slots.slot_of[merge.result.at];
  } else {
    compiled->result = static_cast<Slot>(compiled->slots.slots.size());
    compiled->slots.slots.push_back({true, merge.result.sort, merge.result.at});
  }
  simplify_for_equal(state, info, *compiled);
  compiled->pure =
      std::all_of(compiled->actions.begin(), compiled->actions.end(), [&](const CompiledAction& a) {
        return a.kind == Action::Kind::Primitive && !state.at(a.primitive).spec.mutates;
      });
  info.merge = std::move(compiled);
}

}  // namespace

EGraph::EGraph() : state_(std::make_unique<EngineState>()) { add_builtin_sorts(*state_); }
EGraph::~EGraph() = default;
EGraph::EGraph(EGraph&&) noexcept = default;
EGraph& EGraph::operator=(EGraph&&) noexcept = default;

SortId EGraph::eq_sort(std::string name) {
  ContainerSort hooks;
  hooks.name = std::move(name);
  return add_sort(*state_, SortKind::Eq, std::move(hooks));
}

SortId EGraph::primitive_sort(PrimitiveSort sort) {
  ContainerSort hooks;
  static_cast<PrimitiveSort&>(hooks) = std::move(sort);
  return add_sort(*state_, SortKind::Plain, std::move(hooks));
}

SortId EGraph::container_sort(ContainerSort sort) {
  if (!sort.rebuild || !sort.elements)
    fail("[egraph] container sort '{}' needs rebuild and elements", sort.name);
  return add_sort(*state_, SortKind::Container, std::move(sort));
}

FunctionId EGraph::function(FunctionSpec spec) {
  for (const SortId sort : spec.inputs) check_sort(*state_, sort);
  check_sort(*state_, spec.output);
  if (spec.kind == FunctionKind::Constructor) {
    if (!is_eq_sort(spec.output))
      fail("[egraph] constructor '{}' must make an eq-sort, and {} is not one", spec.name,
           sort_name(spec.output));
    spec.merge = Merge::unite();
  }
  if (spec.kind == FunctionKind::Relation) spec.output = kUnit;
  if (spec.kind == FunctionKind::Function && spec.merge.kind == Merge::Kind::Union &&
      !is_eq_sort(spec.output))
    fail("[egraph] function '{}' cannot merge by union: {} is not an eq-sort", spec.name,
         sort_name(spec.output));
  const FunctionId id{static_cast<uint32_t>(state_->functions.size())};
  declare(state_->function_names, spec.name, id, "function");
  const uint32_t key_width = std::max<uint32_t>(1, static_cast<uint32_t>(spec.inputs.size()));
  FunctionInfo& info =
      state_->functions.emplace_back(std::move(spec), key_width, spec.kind != FunctionKind::Relation);
  info.sorts = info.spec.inputs;
  if (info.sorts.empty()) info.sorts.push_back(kUnit);
  if (info.table.has_output()) info.sorts.push_back(info.spec.output);
  for (const SortId sort : info.sorts) {
    info.kinds.push_back(state_->at(sort).kind);
    info.holds_ids |= info.kinds.back() == SortKind::Eq;
    info.holds_containers |= info.kinds.back() == SortKind::Container;
  }
  if (info.spec.merge.kind == Merge::Kind::Program) compile_merge(*state_, info);
  return id;
}

FunctionId EGraph::constructor(std::string name, std::vector<SortId> inputs, SortId output, double cost) {
  FunctionSpec spec;
  spec.name = std::move(name);
  spec.inputs = std::move(inputs);
  spec.output = output;
  spec.cost = cost;
  return function(std::move(spec));
}

FunctionId EGraph::relation(std::string name, std::vector<SortId> inputs) {
  FunctionSpec spec;
  spec.name = std::move(name);
  spec.kind = FunctionKind::Relation;
  spec.inputs = std::move(inputs);
  return function(std::move(spec));
}

PrimitiveId EGraph::primitive(PrimitiveSpec spec) {
  const PrimitiveId id{static_cast<uint32_t>(state_->primitives.size())};
  state_->primitive_names[spec.name].push_back(id);
  PrimitiveInfo& info = state_->primitives.emplace_back();
  info.spec = std::move(spec);
  if (info.spec.memo) info.remember_results();
  return id;
}

RulesetId EGraph::ruleset(std::string name) {
  const RulesetId id{static_cast<uint32_t>(state_->rulesets.size())};
  declare(state_->ruleset_names, name, id, "ruleset");
  state_->rulesets.push_back({std::move(name), {}, {}});
  return id;
}

RulesetId EGraph::combined_ruleset(std::string name, std::vector<RulesetId> parts) {
  const RulesetId id = ruleset(std::move(name));
  state_->rulesets.back().parts = std::move(parts);
  return id;
}

RuleId EGraph::rule(RulesetId ruleset, RuleSpec spec) {
  const RuleId id{static_cast<uint32_t>(state_->rules.size())};
  RuleInfo info;
  info.spec = std::move(spec);
  compile_rule(*state_, info);
  for (const CompiledAction& action : info.actions)
    if (action.kind == Action::Kind::Delete) state_->at(action.function).table.set_deletable();
  declare(state_->rule_names, info.spec.name, id, "rule");
  state_->rules.push_back(std::move(info));
  state_->rulesets[index_of(ruleset)].rules.push_back(id);
  return id;
}

// --- Values

Value EGraph::i64(int64_t x) { return state_->literals.of(x); }
int64_t EGraph::as_i64(Value v) const { return state_->literals.as_i64(v); }
Value EGraph::f64(double x) { return state_->literals.of(x); }
double EGraph::as_f64(Value v) const { return state_->literals.as_f64(v); }
Value EGraph::string(std::string_view x) { return state_->literals.of(x); }
std::string_view EGraph::as_string(Value v) const { return state_->literals.as_string(v); }

// --- Facts

Value EGraph::add(FunctionId function, std::span<const Value> args) {
  if (state_->replay) return state_->replay(function, args);
  const Key key(*state_, function, args);
  const Value value = state_->get_or_insert(function, key);
  if (state_->log != nullptr) [[unlikely]] {
    const FunctionInfo& info = state_->at(function);
    const bool is_term = info.spec.kind == FunctionKind::Constructor;
    state_->log->note_access(function, args, is_term ? info.table.terms[info.table.find(key)] : kNoValue,
                             value);
  }
  return value;
}
Value EGraph::add(FunctionId function, std::initializer_list<Value> args) {
  return add(function, std::span<const Value>(args.begin(), args.size()));
}

void EGraph::set(FunctionId function, std::span<const Value> args, Value output) {
  const FunctionSpec& declared = spec(function);
  if (declared.kind == FunctionKind::Relation) fail("[egraph] {} is a relation: use add", declared.name);
  state_->set_row(function, Key(*state_, function, args), state_->canonical(declared.output, output));
}

void EGraph::add_rows(FunctionId function, std::span<const std::span<const Value>> columns) {
  const FunctionInfo& info = state_->at(function);
  const size_t wanted = info.spec.inputs.size() + (info.spec.kind == FunctionKind::Function ? 1 : 0);
  if (columns.size() != wanted)
    fail("[egraph] {} takes {} columns, but {} are given", info.spec.name, wanted, columns.size());
  const size_t rows = columns.empty() ? 0 : columns[0].size();
  for (const auto& column : columns)
    if (column.size() != rows)
      fail("[egraph] {}: one column has {} rows and another {}; give columns of equal length", info.spec.name,
           rows, column.size());
  std::vector<Variable> variables;
  ActionBlock block;
  std::vector<Term> args;
  for (size_t c = 0; c < columns.size(); c++) {
    variables.push_back({"", c < info.spec.inputs.size() ? info.spec.inputs[c] : info.spec.output});
    if (c < info.spec.inputs.size()) args.push_back(Term::variable(static_cast<uint32_t>(c)));
  }
  const Term last = Term::variable(static_cast<uint32_t>(info.spec.inputs.size()));
  if (info.spec.kind == FunctionKind::Function) {
    block.actions.push_back(Action::set(function, args, last));
  } else {
    block.variables.push_back({"", info.spec.output});
    block.actions.push_back(Action::call(function, args, last));
  }
  CompiledQuery slots = bound_variables(variables);
  const CompiledActions actions = compile_actions(*state_, slots, block, info.spec.name);
  const Scratch::Mark mark(state_->scratch);
  std::vector<uint32_t*> buffers(slots.slots.size(), nullptr);
  for (size_t c = 0; c < columns.size(); c++) buffers[c] = state_->scratch.take(kBlock);
  ActionRun run(*state_, slots, actions, info.spec.name, kBlock);
  for (size_t first = 0; first < rows; first += kBlock) {
    const uint32_t n = static_cast<uint32_t>(std::min(kBlock, rows - first));
    for (size_t c = 0; c < columns.size(); c++)
      for (uint32_t i = 0; i < n; i++)
        buffers[c][i] = state_->canonical(variables[c].sort, columns[c][first + i]);
    Batch batch{n, buffers.data()};
    run.apply(batch);
  }
}

void EGraph::unite(Value left, Value right) { state_->unite(left, right); }

void EGraph::remove(FunctionId function, std::span<const Value> args) {
  state_->rebuild();
  state_->remove_row(function, Key(*state_, function, args));
}

void EGraph::subsume(FunctionId function, std::span<const Value> args) {
  state_->rebuild();
  state_->subsume_row(function, Key(*state_, function, args));
}

std::vector<Value> EGraph::execute(const ActionBlock& block, std::span<const Value> initial) {
  state_->rebuild();
  if (initial.size() > block.variables.size())
    fail("[egraph] {} initial values for {} variables; give one for each", initial.size(),
         block.variables.size());
  const auto split = block.variables.begin() + static_cast<std::ptrdiff_t>(initial.size());
  const std::vector<Variable> outer(block.variables.begin(), split);
  CompiledQuery slots = bound_variables(outer);
  ActionBlock inner{{split, block.variables.end()}, block.actions};
  const CompiledActions actions = compile_actions(*state_, slots, inner, "command");
  std::vector<Value> canonical;
  for (size_t i = 0; i < initial.size(); i++)
    canonical.push_back(state_->canonical(outer[i].sort, initial[i]));
  const std::vector<Value> by_slot = run_once(*state_, slots, actions, canonical, "command");
  std::vector<Value> values;
  for (const Slot slot : slots.slot_of) values.push_back(by_slot[slot]);
  return values;
}

Value EGraph::fresh_id() { return state_->ids.fresh(); }
void EGraph::rebuild() { state_->rebuild(); }

void EGraph::clear_facts() {
  for (FunctionInfo& info : state_->functions) {
    info.table.clear();
    info.statistics.clear();
    info.scan_debt = 0;
  }
  for (RuleInfo& rule : state_->rules) rule.seen = 0;
  state_->ids.clear();
  if (state_->log != nullptr) *state_->log = {};
  state_->clock = 1;
  state_->changes = 0;
}

// --- Reading. Congruence is restored lazily, so reading may rebuild: that changes no fact.

namespace {
EngineState& rebuilt(const std::unique_ptr<EngineState>& state) {
  if (!state->in_step) state->rebuild();
  return *state;
}
}  // namespace

Value EGraph::find(Value id) const { return state_->ids.find(id); }
Value EGraph::canonical(SortId sort, Value v) const { return state_->canonical(sort, v); }

std::optional<Value> EGraph::lookup(FunctionId function, std::span<const Value> args) const {
  const auto given = [](Value value) { return value == kNoValue ? std::nullopt : std::optional(value); };
  if (state_->replay) return given(state_->replay(function, args));
  EngineState& state = rebuilt(state_);
  const Table& table = state.at(function).table;
  const Row row = table.find(Key(state, function, args));
  const Value value = row == kNoRow ? kNoValue : table.output_of(row);
  if (state.log != nullptr) [[unlikely]] {
    const bool is_term = row != kNoRow && state.at(function).spec.kind == FunctionKind::Constructor;
    state.log->note_access(function, args, is_term ? table.terms[row] : kNoValue, value);
  }
  return given(value);
}

bool EGraph::is_subsumed(FunctionId function, std::span<const Value> args) const {
  EngineState& state = rebuilt(state_);
  const Table& table = state.at(function).table;
  const Row row = table.find(Key(state, function, args));
  return row != kNoRow && table.is_subsumed(row);
}

uint64_t EGraph::row_count(FunctionId function) const {
  return rebuilt(state_).at(function).table.live_rows();
}
uint64_t EGraph::row_count() const { return rebuilt(state_).total_rows(); }

uint64_t EGraph::class_count() const {
  const EngineState& state = rebuilt(state_);
  std::vector<bool> seen(state.ids.size(), false);
  uint64_t count = 0;
  for (const FunctionInfo& info : state.functions) {
    if (info.spec.kind != FunctionKind::Constructor) continue;
    for (Row row = 0; row < info.table.rows(); row++) {
      if (!info.table.is_live(row) || seen[info.table.output_of(row)]) continue;
      seen[info.table.output_of(row)] = true;
      count++;
    }
  }
  return count;
}

uint64_t EGraph::size_bytes() const { return state_->size_bytes(); }

void EGraph::for_each_row(FunctionId function,
                          const std::function<bool(std::span<const Value>, Value, bool)>& visit) const {
  const FunctionInfo& info = rebuilt(state_).at(function);
  std::vector<Value> args(info.spec.inputs.size());
  for (Row row = 0; row < info.table.rows(); row++) {
    if (!info.table.is_live(row)) continue;
    for (uint32_t c = 0; c < args.size(); c++) args[c] = info.table.column(c)[row];
    if (!visit(args, info.table.output_of(row), info.table.is_subsumed(row))) return;
  }
}

namespace {

class Visitor : public MatchSink {
 public:
  Visitor(const EngineState& state, const CompiledQuery& query,
          const std::function<bool(std::span<const Value>)>& visit)
      : state_(state), query_(query), visit_(visit), values_(query.slot_of.size()) {}
  void take(Batch& batch) override {
    for (uint32_t i = 0; i < batch.count && !stop_; i++) {
      for (size_t v = 0; v < values_.size(); v++) values_[v] = batch.columns[query_.slot_of[v]][i];
      visited++;
      stop_ = !visit_(values_);
    }
  }
  bool should_stop() override {
    state_.poll();
    return stop_;
  }
  uint64_t visited = 0;

 private:
  const EngineState& state_;
  const CompiledQuery& query_;
  const std::function<bool(std::span<const Value>)>& visit_;
  std::vector<Value> values_;
  bool stop_ = false;
};

CompiledQuery compile_now(EngineState& state, const Query& query) {
  CompiledQuery compiled = compile_query(state, query, "query");
  for (SlotInfo& slot : compiled.slots)
    if (slot.constant) slot.value = state.canonical(slot.sort, slot.value);
  return compiled;
}

}  // namespace

uint64_t EGraph::match(const Query& query, const std::function<bool(std::span<const Value>)>& visit) const {
  EngineState& state = rebuilt(state_);
  const CompiledQuery compiled = compile_now(state, query);
  Visitor visitor(state, compiled, visit);
  run_query(state, compiled, visitor);
  return visitor.visited;
}

bool EGraph::check(const Query& query) const {
  EngineState& state = rebuilt(state_);
  return has_match(state, compile_now(state, query));
}

const FunctionSpec& EGraph::spec(FunctionId function) const { return state_->at(function).spec; }
const RuleSpec& EGraph::spec(RuleId rule) const { return state_->rules[index_of(rule)].spec; }
const PrimitiveSpec& EGraph::spec(PrimitiveId primitive) const { return state_->at(primitive).spec; }
const std::string& EGraph::sort_name(SortId sort) const { return state_->at(sort).hooks.name; }
bool EGraph::is_eq_sort(SortId sort) const { return state_->at(sort).kind == SortKind::Eq; }
bool EGraph::is_container_sort(SortId sort) const { return state_->at(sort).kind == SortKind::Container; }
const ContainerSort& EGraph::sort_hooks(SortId sort) const { return state_->at(sort).hooks; }

namespace {
template <class Map>
auto find_name(const Map& names, std::string_view name) -> std::optional<typename Map::mapped_type> {
  const auto at = names.find(std::string(name));
  if (at == names.end()) return std::nullopt;
  return at->second;
}
}  // namespace

std::optional<SortId> EGraph::find_sort(std::string_view name) const {
  return find_name(state_->sort_names, name);
}
std::optional<FunctionId> EGraph::find_function(std::string_view name) const {
  return find_name(state_->function_names, name);
}
std::optional<RulesetId> EGraph::find_ruleset(std::string_view name) const {
  return find_name(state_->ruleset_names, name);
}

std::vector<FunctionId> EGraph::functions_listed() const {
  std::vector<FunctionId> out;
  for (uint32_t f = 0; f < state_->functions.size(); f++)
    if (!state_->functions[f].spec.hidden) out.push_back(FunctionId{f});
  return out;
}

std::vector<SortId> EGraph::sorts() const {
  std::vector<SortId> out;
  for (uint32_t s = 0; s < state_->sorts.size(); s++) out.push_back(SortId{s});
  return out;
}

// --- Running

Report EGraph::run(const Schedule& schedule, const Budget& budget) {
  return run_schedule(*state_, schedule, budget);
}
Report EGraph::run(RulesetId ruleset, int64_t iterations, const Budget& budget) {
  return run(Schedule::repeat(iterations, Schedule::run(ruleset)), budget);
}

void EGraph::set_threads(uint32_t count) {
  if (count == 0) fail("[egraph] 0 threads cannot run anything; give 1 or more");
  if (count == threads()) return;
  state_->parallel = count == 1 ? nullptr : std::make_unique<Parallel>(count);
}
uint32_t EGraph::threads() const { return state_->parallel == nullptr ? 1 : state_->parallel->team.size(); }

void EGraph::push() {
  state_->rebuild();
  const size_t bytes = saved_bytes(*state_);
  state_->require_memory(bytes, static_cast<double>(bytes) * kCopySecondsPerByte);
  auto saved = std::make_unique<Snapshot>();
  *saved = {state_->sorts,      state_->functions,      state_->rules,         state_->rulesets,
            state_->sort_names, state_->function_names, state_->ruleset_names, state_->rule_names,
            state_->ids,        state_->clock,          state_->changes,       bytes};
  if (state_->log != nullptr) saved->log = std::make_unique<ExplanationLog>(*state_->log);
  for (FunctionInfo& info : saved->functions) info.indexes.clear();  // made again on demand
  for (RuleInfo& rule : saved->rules) rule.plans.clear();
  state_->snapshots.push_back(std::move(saved));
  state_->snapshot_bytes += bytes;
}

void EGraph::pop(size_t levels) {
  if (levels > state_->snapshots.size())
    fail("[egraph] cannot pop {} levels: only {} were pushed", levels, state_->snapshots.size());
  if (levels == 0) return;
  for (size_t i = 0; i < levels; i++)
    state_->snapshot_bytes -= state_->snapshots[state_->snapshots.size() - 1 - i]->bytes;
  state_->snapshots.resize(state_->snapshots.size() - (levels - 1));
  Snapshot& saved = *state_->snapshots.back();
  state_->sorts = std::move(saved.sorts);
  state_->functions = std::move(saved.functions);
  state_->rules = std::move(saved.rules);
  state_->rulesets = std::move(saved.rulesets);
  state_->sort_names = std::move(saved.sort_names);
  state_->function_names = std::move(saved.function_names);
  state_->ruleset_names = std::move(saved.ruleset_names);
  state_->rule_names = std::move(saved.rule_names);
  state_->ids = std::move(saved.ids);
  state_->clock = saved.clock;
  state_->changes = saved.changes;
  state_->log = std::move(saved.log);
  for (RuleInfo& rule : state_->rules) rule.plans.clear();
  state_->snapshots.pop_back();
}

}  // namespace luminal::egraph
