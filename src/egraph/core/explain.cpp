#include "egraph/core/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/fail.h"
#include "egraph/core/clipped.h"
#include "egraph/core/growing_text.h"

namespace luminal::egraph {
namespace {

constexpr size_t kListBytes = 24;  // what a list takes beside its items, about

}  // namespace

void ExplanationLog::begin_application(RuleId rule, std::span<const Value> bindings) {
  current_.rule = rule;
  current_.bindings.assign(bindings.begin(), bindings.end());
  current_.premises.clear();
  current_.made.clear();
  current_.accesses.clear();
  in_application_ = true;
  committed_ = kNone;
}

void ExplanationLog::note_made(size_t action, Value value) {
  if (!in_application_ || !notes_actions_) return;
  if (current_.made.size() <= action) current_.made.resize(action + 1, kNoValue);
  current_.made[action] = value;
}

void ExplanationLog::note_access(FunctionId function, std::span<const Value> args, Value term, Value value) {
  if (!in_application_ || !notes_actions_ || !calling_) return;
  current_.accesses.push_back({*calling_, function, {args.begin(), args.end()}, term, value});
}

Value ExplanationLog::PrimitiveCall::term_of(Value result) const {
  if (!log_.calling_ || log_.current_.accesses.empty()) return kNoValue;
  const TableAccess& last = log_.current_.accesses.back();
  return last.action == *log_.calling_ && last.value == result ? last.term : kNoValue;
}

void ExplanationLog::end_application() {
  if (committed_ != kNone) {
    applications_[committed_].made = current_.made;
    applications_[committed_].accesses = current_.accesses;
    list_bytes_ += current_.made.size() * sizeof(Value);
    for (const TableAccess& access : current_.accesses)
      list_bytes_ += sizeof access + kListBytes + access.args.size() * sizeof(Value);
  }
  in_application_ = false;
}

// Only applications that change something are kept. The rows that matched are still found by their keys:
// nothing is rebuilt before the step ends.
uint32_t ExplanationLog::commit(const EngineState& state) {
  if (!in_application_) return kNone;
  if (committed_ != kNone) return committed_;
  const Query& query = state.rules[index_of(current_.rule)].spec.query;
  std::vector<Value> key;
  for (const Atom& atom : query.atoms) {
    const FunctionInfo& info = state.at(atom.function);
    key.clear();
    for (const Term& t : atom.args)
      key.push_back(t.is_variable() ? current_.bindings[t.at] : state.canonical(t.sort, t.at));
    if (key.empty()) key.push_back(kUnitValue);
    const Row row = info.table.terms.empty() ? kNoRow : info.table.find(key);
    current_.premises.push_back(row == kNoRow ? kNoValue : info.table.terms[row]);
  }
  committed_ = static_cast<uint32_t>(applications_.size());
  applications_.push_back(current_);
  list_bytes_ += (current_.bindings.size() + current_.premises.size()) * sizeof(Value) + 4 * kListBytes;
  return committed_;
}

void ExplanationLog::add_term(const EngineState& state, Value id, FunctionId function,
                              std::span<const Value> key) {
  if (origins_.size() <= id) origins_.resize(id + 1);
  const size_t arity = state.at(function).spec.inputs.size();
  list_bytes_ += arity * sizeof(Value) + kListBytes;
  origins_[id] = {
      function, {key.begin(), key.begin() + static_cast<std::ptrdiff_t>(arity)}, commit(state), true};
}

void ExplanationLog::add_union(const EngineState& state, Value from, Value to) {
  const uint32_t application = commit(state);
  add_edge({from, to, application == kNone ? ExplanationStep::Kind::Given : ExplanationStep::Kind::Rule,
            application});
}

void ExplanationLog::add_congruence(EngineState& state, Value from, Value to) {
  if (state.ids.find(from) == state.ids.find(to)) return;
  add_edge({from, to, ExplanationStep::Kind::Congruence, kNone});
  state.ids.unite(from, to);
  state.changes++;
}

void ExplanationLog::add_edge(Edge edge) {
  const size_t ids = std::max(edge.from, edge.to) + size_t{1};
  if (parents_.size() < ids) parents_.resize(ids);
  // Make `from` the root of its tree: reverse the path above it.
  Parent carried{edge.to, static_cast<uint32_t>(edges_.size())};
  for (Value id = edge.from; id != kNoValue;) {
    const Parent above = parents_[id];
    parents_[id] = carried;
    carried = {id, above.edge};
    id = above.id;
  }
  edges_.push_back(edge);
}

/// Edges between two ids of one tree, from the first to the second.
std::vector<uint32_t> ExplanationLog::path(Value from, Value to) const {
  std::unordered_map<Value, size_t> depth;  // above `from`
  std::vector<uint32_t> up, down;
  for (Value id = from; id != kNoValue; id = parent(id).id) {
    depth[id] = up.size();
    if (parent(id).id != kNoValue) up.push_back(parent(id).edge);
  }
  Value meeting = to;
  for (; meeting != kNoValue && !depth.contains(meeting); meeting = parent(meeting).id)
    down.push_back(parent(meeting).edge);
  LUMINAL_CHECK(meeting != kNoValue, "ids {} and {} are equal, but the log does not connect them", from, to);
  up.resize(depth[meeting]);
  up.insert(up.end(), down.rbegin(), down.rend());
  return up;
}

/// Calls `need(sort, a, b)` for each pair of values whose equality the edge rests on.
template <class Need>
void ExplanationLog::visit_dependencies(const EngineState& state, const Edge& edge, Need&& need) const {
  if (edge.kind == ExplanationStep::Kind::Congruence) {
    const Origin &a = origins_[edge.from], &b = origins_[edge.to];
    const auto& sorts = state.at(a.function).spec.inputs;
    for (size_t i = 0; i < a.args.size(); i++) need(sorts[i], a.args[i], b.args[i]);
    return;
  }
  if (edge.kind != ExplanationStep::Kind::Rule) return;
  const Application& application = applications_[edge.application];
  const RuleSpec& rule = state.rules[index_of(application.rule)].spec;
  std::vector<Value> values = application.bindings;
  const auto value_of = [&](const Term& t) { return t.is_variable() ? values[t.at] : t.at; };
  const auto need_term = [&](Value term, const std::vector<Term>& args) {
    const Origin* made = origin(term);
    if (made == nullptr) return;
    const auto& sorts = state.at(made->function).spec.inputs;
    for (size_t i = 0; i < args.size(); i++) need(sorts[i], made->args[i], value_of(args[i]));
  };
  for (size_t i = 0; i < rule.query.atoms.size(); i++) {
    const Value term = application.premises[i];
    if (term == kNoValue) continue;
    need_term(term, rule.query.atoms[i].args);
    need(state.at(rule.query.atoms[i].function).spec.output, term, value_of(rule.query.atoms[i].output));
  }
  for (const TableAccess& access : application.accesses) {
    const Origin* made = access.term == kNoValue ? nullptr : origin(access.term);
    if (made == nullptr) continue;
    const FunctionSpec& function = state.at(made->function).spec;
    for (size_t i = 0; i < made->args.size(); i++) need(function.inputs[i], made->args[i], access.args[i]);
    need(function.output, access.term, access.value);
  }
  values.resize(values.size() + rule.actions.variables.size(), kNoValue);
  for (size_t i = 0; i < rule.actions.actions.size() && i < application.made.size(); i++) {
    if (application.made[i] == kNoValue) continue;
    const Action& action = rule.actions.actions[i];
    // What a relation or a function gives is no term, even where a term has the same number.
    const bool makes_term =
        action.kind == Action::Kind::Call && state.at(action.function).spec.kind == FunctionKind::Constructor;
    if (makes_term) need_term(application.made[i], action.args);
    values[action.value.at] = application.made[i];
  }
}

Explanation ExplanationLog::explain(const EngineState& state, Value left, Value right) const {
  std::vector<bool> needed(edges_.size(), false);
  std::vector<uint32_t> todo;
  const auto need_path = [&](Value a, Value b) {
    if (a == b) return;
    for (const uint32_t e : path(a, b)) {
      if (needed[e]) continue;
      needed[e] = true;
      todo.push_back(e);
    }
  };
  const std::function<void(SortId, Value, Value)> need = [&](SortId sort, Value a, Value b) {
    if (a == b || a == kNoValue || b == kNoValue) return;
    const SortInfo& info = state.at(sort);
    if (info.kind == SortKind::Eq && state.ids.find(a) == state.ids.find(b)) need_path(a, b);
    if (info.kind != SortKind::Container) return;
    // Why two containers are equal: elements that the rebuild made one. Sets and maps may pair differently,
    // so each element is connected to its class's root.
    for (const Value container : {a, b})
      info.hooks.elements(container, [&](SortId s, Value v) { need(s, v, state.canonical(s, v)); });
  };
  const std::vector<uint32_t> chain = path(left, right);
  need_path(left, right);
  while (!todo.empty()) {
    state.poll();
    const uint32_t e = todo.back();
    todo.pop_back();
    visit_dependencies(state, edges_[e], need);
  }
  Explanation out;
  std::unordered_map<uint32_t, uint32_t> step_of;
  for (uint32_t e = 0; e < edges_.size(); e++) {
    if (!needed[e]) continue;
    step_of[e] = static_cast<uint32_t>(out.steps.size());
    ExplanationStep step{edges_[e].kind, edges_[e].from, edges_[e].to};
    if (edges_[e].application != kNone) {
      const Application& application = applications_[edges_[e].application];
      step.rule = application.rule;
      step.bindings = application.bindings;
      step.premises = application.premises;
      step.made = application.made;
      step.made.resize(state.rules[index_of(step.rule)].spec.actions.actions.size(), kNoValue);
      step.accesses = application.accesses;
    }
    out.steps.push_back(std::move(step));
  }
  Value at = left;
  for (const uint32_t e : chain) {
    const bool backward = edges_[e].from != at;
    out.chain.push_back({step_of.at(e), backward});
    at = backward ? edges_[e].from : edges_[e].to;
  }
  return out;
}

// --- The checker. It shares no code with the log: rules, term origins and a union-find of its own.

namespace {

// A value of a base sort, or a container whose elements are written as they were made.
std::string made_value_text(const EngineState& state, SortId sort, Value v) {
  std::vector<std::string> elements;
  size_t bytes = 0, looked_at = 4096;
  const ContainerSort& hooks = state.at(sort).hooks;
  const auto add_element = [&](SortId s, Value x) {
    state.poll();
    if (state.at(s).kind == SortKind::Eq) {
      GrowingText element(state);
      append_made_term(element, state, x);
      elements.push_back(element.take());
    } else {
      elements.push_back(made_value_text(state, s, x));
    }
    bytes += sizeof(std::string) + elements.back().size();
    if (bytes < looked_at) return;
    looked_at = 2 * bytes;
    state.require_memory(looked_at);
  };
  if (hooks.elements) hooks.elements(v, add_element);
  return hooks.print ? hooks.print(v, elements) : fmt::format("#{}", v);
}

}  // namespace

// A shared subterm is written once and then copied from where it stands in the text.
void append_made_term(GrowingText& out, const EngineState& state, Value id, size_t most) {
  struct Step {
    Value id;
    size_t next_arg = 0, begin = 0;
  };
  std::unordered_map<Value, std::pair<size_t, size_t>> written;
  std::vector<Step> todo{{id}};
  while (!todo.empty() && out.size() <= most) {
    const Step step = todo.back();
    const ExplanationLog::Origin* origin = state.log->origin(step.id);
    const auto known = written.find(step.id);
    if (origin == nullptr || known != written.end()) {
      if (origin == nullptr)
        out.add(fmt::format("#{}", step.id));
      else
        out.repeat(known->second.first, known->second.second);
      todo.pop_back();
      continue;
    }
    const FunctionSpec& function = state.at(origin->function).spec;
    if (step.next_arg == 0) {
      todo.back().begin = out.size();
      out.add("(" + function.name);
    }
    if (step.next_arg == origin->args.size()) {
      out.add(')');
      written[step.id] = {todo.back().begin, out.size() - todo.back().begin};
      todo.pop_back();
      continue;
    }
    todo.back().next_arg++;
    const SortId sort = function.inputs[step.next_arg];
    const Value arg = origin->args[step.next_arg];
    out.add(' ');
    if (state.at(sort).kind == SortKind::Eq)
      todo.push_back({arg});
    else
      out.add(made_value_text(state, sort, arg));
  }
}

namespace {

class ExplanationChecker {
 public:
  explicit ExplanationChecker(EngineState& state, const EGraph& graph) : state_(state), graph_(graph) {}

  std::string run(Value left, Value right, const Explanation& explanation) {
    for (size_t i = 0; i < explanation.steps.size(); i++) {
      state_.poll();
      const ExplanationStep& step = explanation.steps[i];
      std::string wrong;
      if (step.kind == ExplanationStep::Kind::Rule) wrong = check_rule(step);
      if (step.kind == ExplanationStep::Kind::Congruence) wrong = check_congruence(step);
      if (!wrong.empty()) return fmt::format("step {}: {}", i, wrong);
      parent_[find(step.from)] = find(step.to);
    }
    Value at = left;
    for (const Explanation::Link& link : explanation.chain) {
      if (link.step >= explanation.steps.size()) return "the chain names a step that is not there";
      const ExplanationStep& step = explanation.steps[link.step];
      if ((link.backward ? step.to : step.from) != at) return "the chain is broken";
      at = link.backward ? step.from : step.to;
    }
    return at == right ? "" : "the chain does not end at the right side";
  }

 private:
  Value find(Value id) {
    for (auto at = parent_.find(id); at != parent_.end() && at->second != id; at = parent_.find(id))
      id = at->second;
    return id;
  }
  Value canonical(SortId sort, Value v) {
    if (graph_.is_eq_sort(sort)) return find(v);
    if (!graph_.is_container_sort(sort)) return v;
    return graph_.sort_hooks(sort).rebuild(v, [this](SortId s, Value x) { return canonical(s, x); });
  }
  bool equal(SortId sort, Value a, Value b) { return canonical(sort, a) == canonical(sort, b); }

  std::string check_congruence(const ExplanationStep& step) {
    const TermOrigin a = graph_.term_of(step.from), b = graph_.term_of(step.to);
    if (a.function != b.function) return "congruence of different functions";
    for (size_t i = 0; i < a.args.size(); i++)
      if (!equal(graph_.spec(a.function).inputs[i], a.args[i], b.args[i]))
        return fmt::format("argument {} of {} is not known to be equal", i, graph_.spec(a.function).name);
    return "";
  }

  /// While one lives, a primitive that asks for rows gets those that it got when the rule ran.
  class Replay {
   public:
    Replay(ExplanationChecker& checker, const ExplanationStep& step, size_t action)
        : checker_(checker), step_(step), action_(action) {
      checker_.state_.replay = [this](FunctionId function, std::span<const Value> args) {
        return next(function, args);
      };
    }
    Replay(const Replay&) = delete;
    Replay& operator=(const Replay&) = delete;
    ~Replay() { checker_.state_.replay = nullptr; }
    [[nodiscard]] const std::string& wrong() const { return wrong_; }

   private:
    Value next(FunctionId function, std::span<const Value> args) {
      while (next_ < step_.accesses.size() && step_.accesses[next_].action != action_) ++next_;
      if (next_ == step_.accesses.size()) return refuse("it asks for more rows than it did");
      const TableAccess& access = step_.accesses[next_++];
      if (access.function != function || !std::ranges::equal(access.args, args))
        return refuse("it asks for another row than it did");
      const FunctionSpec& spec = checker_.graph_.spec(function);
      if (spec.kind != FunctionKind::Constructor) return access.value;  // taken on trust
      const std::string wrong = checker_.check_term(access.term, function, args);
      if (!wrong.empty()) return refuse(wrong);
      if (!checker_.equal(spec.output, access.term, access.value))
        return refuse("its term is in another class");
      return access.value;
    }
    Value refuse(std::string why) {
      if (wrong_.empty()) wrong_ = std::move(why);
      return kNoValue;
    }

    ExplanationChecker& checker_;
    const ExplanationStep& step_;
    size_t action_, next_ = 0;
    std::string wrong_;
  };

  /// "" if `term` was made as function(args).
  std::string check_term(Value term, FunctionId function, std::span<const Value> args) {
    if (term == kNoValue) return fmt::format("a term of {} is missing", graph_.spec(function).name);
    const TermOrigin origin = graph_.term_of(term);
    if (origin.function != function)
      return fmt::format("a term of {} is expected", graph_.spec(function).name);
    for (size_t i = 0; i < args.size(); i++)
      if (!equal(graph_.spec(function).inputs[i], origin.args[i], args[i]))
        return fmt::format("argument {} of a term of {} is not the rule's", i, graph_.spec(function).name);
    return "";
  }
  std::string check_term(Value term, FunctionId function, const std::vector<Term>& args,
                         const std::vector<Value>& values) {
    std::vector<Value> given;
    for (const Term& arg : args) given.push_back(arg.is_variable() ? values[arg.at] : arg.at);
    return check_term(term, function, given);
  }

  std::string check_query(const Query& query, const ExplanationStep& step, const std::vector<Value>& values) {
    const auto value_of = [&](const Term& t) { return t.is_variable() ? values[t.at] : t.at; };
    const auto sort_of = [&](const Term& t) { return t.is_variable() ? query.variables[t.at].sort : t.sort; };
    if (step.premises.size() != query.atoms.size()) return "not every premise has a term";
    for (size_t i = 0; i < query.atoms.size(); i++) {
      const Atom& atom = query.atoms[i];
      if (graph_.spec(atom.function).kind != FunctionKind::Constructor) continue;
      if (step.premises[i] == kNoValue) return fmt::format("premise {} has no term", i);
      const std::string wrong = check_term(step.premises[i], atom.function, atom.args, values);
      if (!wrong.empty()) return fmt::format("premise {}: {}", i, wrong);
      if (!equal(graph_.spec(atom.function).output, step.premises[i], value_of(atom.output)))
        return fmt::format("premise {} is in another class", i);
    }
    for (const Equality& e : query.equalities)
      if (!equal(sort_of(e.left), value_of(e.left), value_of(e.right)))
        return "an equality of the query does not hold";
    for (const PrimitiveAtom& call : query.primitives) {
      std::vector<Value> args;
      for (const Term& t : call.args) args.push_back(value_of(t));
      const PrimitiveSpec& primitive = graph_.spec(call.primitive);
      if (primitive.reads) continue;  // as rows of functions, on trust
      const auto result = primitive.call(args);
      if (!result || !equal(sort_of(call.output), *result, value_of(call.output)))
        return fmt::format("the condition {} does not hold", primitive.name);
    }
    return "";
  }

  std::string check_rule(const ExplanationStep& step) {
    const RuleSpec& rule = graph_.spec(step.rule);
    std::vector<Value> values = step.bindings;
    if (values.size() != rule.query.variables.size()) return "not every variable is bound";
    if (std::string wrong = check_query(rule.query, step, values); !wrong.empty())
      return rule.name + ": " + wrong;
    values.resize(values.size() + rule.actions.variables.size(), kNoValue);
    const auto value_of = [&](const Term& t) { return t.is_variable() ? values[t.at] : t.at; };
    for (size_t i = 0; i < rule.actions.actions.size(); i++) {
      const Action& action = rule.actions.actions[i];
      const Value made = i < step.made.size() ? step.made[i] : kNoValue;
      if (action.kind == Action::Kind::Call && made != kNoValue) {
        const bool is_term = graph_.spec(action.function).kind == FunctionKind::Constructor;
        std::string wrong;  // a row of a function is taken on trust
        if (is_term) wrong = check_term(made, action.function, action.args, values);
        if (!wrong.empty()) return rule.name + ": " + wrong;
        values[action.value.at] = made;
      } else if (action.kind == Action::Kind::Primitive && made != kNoValue) {
        std::vector<Value> args;
        for (const Term& t : action.args) args.push_back(value_of(t));
        const PrimitiveSpec& primitive = graph_.spec(action.primitive);
        Replay replay(*this, step, i);
        const auto result = primitive.call(args);
        if (!replay.wrong().empty())
          return fmt::format("{}: {}: {}", rule.name, primitive.name, replay.wrong());
        if (!result || !equal(primitive.output, *result, made))
          return fmt::format("{}: {} gives another value", rule.name, primitive.name);
        values[action.value.at] = made;
      } else if (action.kind == Action::Kind::Union) {
        const Value a = value_of(action.args[0]), b = value_of(action.args[1]);
        if ((a == step.from && b == step.to) || (a == step.to && b == step.from)) return "";
      } else if (action.kind == Action::Kind::Set) {
        return "";  // a merge united: its outputs are rows of a function, taken on trust
      }
    }
    return rule.name + ": no action unites these terms";
  }

  EngineState& state_;
  const EGraph& graph_;
  std::unordered_map<Value, Value> parent_;
};

ExplanationLog& log_of(const EGraph& graph) {
  if (!graph.explanations_enabled())
    fail("[egraph] explanations are off; call enable_explanations() before adding facts");
  return *graph.state().log;
}

}  // namespace

void EGraph::enable_explanations() {
  if (state_->log != nullptr) return;
  if (state_->ids.size() != 0 || state_->total_rows() != 0)
    fail("[egraph] explanations must be enabled before the first fact; this e-graph has {} rows",
         state_->total_rows());
  state_->log = std::make_unique<ExplanationLog>();
  for (RuleInfo& rule : state_->rules) compile_rule(*state_, rule);
}

bool EGraph::explanations_enabled() const { return state_->log != nullptr; }

Explanation EGraph::explain(Value left, Value right) const {
  const ExplanationLog& log = log_of(*this);
  state_->rebuild();
  if (state_->ids.find(left) != state_->ids.find(right))
    fail("[egraph] {} and {} are not equal: there is nothing to explain", clipped(term_text(left)),
         clipped(term_text(right)));
  return log.explain(*state_, left, right);
}

TermOrigin EGraph::term_of(Value id) const {
  const ExplanationLog& log = log_of(*this);
  const ExplanationLog::Origin* origin = log.origin(id);
  if (origin == nullptr) fail("[egraph] id {} was not made by a constructor", id);
  TermOrigin out{origin->function, origin->args, std::nullopt};
  if (origin->application != ExplanationLog::kNone) out.rule = log.rule_of(origin->application);
  return out;
}

std::string EGraph::term_text(Value id) const {
  static_cast<void>(log_of(*this));
  GrowingText text(*state_);
  append_made_term(text, *state_, id);
  return text.take();
}

std::string EGraph::check_explanation(Value left, Value right, const Explanation& explanation) const {
  return ExplanationChecker(*state_, *this).run(left, right, explanation);
}

std::string EGraph::to_string(const Explanation& explanation, Value left) const {
  GrowingText text(*state_);
  append_made_term(text, *state_, left);
  for (const Explanation::Link& link : explanation.chain) {
    const ExplanationStep& step = explanation.steps[link.step];
    std::string reason = "given";
    if (step.kind == ExplanationStep::Kind::Congruence) reason = "congruence";
    if (step.kind == ExplanationStep::Kind::Rule) reason = spec(step.rule).name;
    text.add("\n= ");
    append_made_term(text, *state_, link.backward ? step.from : step.to);
    text.add(fmt::format("   by {}{}", reason, link.backward ? ", backward" : ""));
  }
  return text.take();
}

}  // namespace luminal::egraph
