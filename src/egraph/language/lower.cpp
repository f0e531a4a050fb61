// Lowering, first part: expressions become calls on arguments, whose sorts are then solved.
#include "egraph/language/lower.h"

#include <algorithm>
#include <unordered_set>

#include "base/suggest.h"
#include "egraph/language/lowering.h"

namespace luminal::egraph::language {

// -- Expressions to arguments

Argument Lowering::literal(ExprId node) {
  const SortId id = literal_sort(exprs_.literal_of(node));
  const SortInfo* sort = context_.scope.sort_order[static_cast<size_t>(id)];
  return {.is_literal = true,
          .index = exprs_[node].literal,
          .type = solver_.add_term(exprs_[node].span, to_text(exprs_.literal_of(node)), sort)};
}

Argument Lowering::new_result(ExprId node, bool in_query) {
  const Span span = exprs_[node].span;
  // The text of a call is its source; long ones are cut in messages.
  std::string shown(span.text().substr(0, 60));
  if (span.text().size() > 60) shown += "...";
  if (shown.empty()) shown = exprs_[node].name.text();
  const auto index = static_cast<uint32_t>(variables_.size());
  const TypeSolver::TermId type = solver_.add_term(span, std::move(shown));
  variables_.push_back(
      {.name = exprs_[node].name, .type = type, .span = span, .in_query = in_query, .is_result = true});
  return {.index = index, .type = type};
}

void Lowering::check_shadowing(Symbol name, const Span& span) const {
  const std::string& text = name.text();
  if (text[0] == kReservedPrefix) return;
  const Scope& scope = context_.scope;
  const Symbol stem = text[0] == '$' ? context_.symbols.intern(std::string_view(text).substr(1)) : name;
  if (const auto global = scope.global_stems.find(stem); global != scope.global_stems.end())
    fail_at(span, "shadowing is not allowed: variable '{}' conflicts with the global '{}' ({})", text,
            global->second.text(), show_location(scope.names.at(global->second)));
  if (const auto taken = scope.names.find(name); taken != scope.names.end())
    fail_at(span, "shadowing is not allowed: variable '{}' has the name of something declared at {}", text,
            show_location(taken->second));
}

Argument Lowering::query_variable(const ExprNode& node) {
  if (const FunctionInfo* info = context_.scope.find_global(node.name)) return global(info, node.span);
  const auto [found, fresh] = names_.try_emplace(node.name, static_cast<uint32_t>(variables_.size()));
  if (fresh) {
    check_shadowing(node.name, node.span);
    variables_.push_back({.name = node.name,
                          .type = solver_.add_term(node.span, node.name.text()),
                          .span = node.span,
                          .in_query = true});
  }
  return {.index = found->second, .type = variables_[found->second].type};
}

Argument Lowering::action_variable(const ExprNode& node) const {
  if (const auto found = lets_.find(node.name); found != lets_.end()) return found->second;
  if (const auto found = names_.find(node.name); found != names_.end())
    return {.index = found->second, .type = variables_[found->second].type};
  const std::string& text = node.name.text();
  if (context_.scope.find_function(node.name))
    fail_at(node.span, "unbound variable '{}'; to call the function of this name write ({})", text, text);
  std::vector<std::string> known;
  for (const auto& [name, index] : names_) known.push_back(name.text());
  for (const auto& [name, argument] : lets_) known.push_back(name.text());
  std::sort(known.begin(), known.end());  // hash order must not decide between equally near names
  fail_at(node.span, "unbound variable '{}'{}", text, text.size() > 1 ? did_you_mean(text, known) : "");
}

// A global is a row of a nullary function: queries join with it, so that what it holds is always canonical.
Argument Lowering::global(const FunctionInfo* info, const Span& span) {
  if (const auto found = globals_.find(info->name.text()); found != globals_.end()) return found->second;
  const auto index = static_cast<uint32_t>(variables_.size());
  const TypeSolver::TermId type = solver_.add_term(span, info->name.text(), info->output);
  variables_.push_back(
      {.name = info->name, .type = type, .span = span, .in_query = has_query_, .is_result = true});
  const Argument argument{.index = index, .type = type};
  globals_.emplace(info->name.text(), argument);
  if (has_query_) {
    global_atoms_.emplace_back(info, argument);
  } else {
    PendingAction read;
    read.is_call = true;
    read.function = info;
    read.value = argument;
    read.span = span;
    actions_.push_back(std::move(read));
  }
  return argument;
}

std::vector<Argument> Lowering::arguments(ExprId call, ExprId first,
                                          std::span<const Argument> results) const {
  std::vector<Argument> out;
  for (const ExprId arg : exprs_.args_of(call)) out.push_back(results[arg - first]);
  return out;
}

TypeSolver::CallId Lowering::type_call(ExprId node, std::span<const Argument> args, const Argument& output,
                                       Context where) {
  poll();
  std::vector<TypeSolver::TermId> types;
  for (const Argument& arg : args) types.push_back(arg.type);
  Symbol target;
  if (!args.empty() && args[0].is_literal)
    if (const auto* text = std::get_if<std::string>(&exprs_.literals[args[0].index]))
      target = context_.symbols.intern(*text);
  return solver_.add_call(exprs_[node].name, std::move(types), output.type, exprs_[node].span, where, target);
}

Argument Lowering::query_expr(ExprId expr) {
  const ExprId first = exprs_[expr].first;
  std::vector<Argument> results;
  for (ExprId id = first; id <= expr; ++id) {
    const ExprNode node = exprs_[id];
    if (node.kind == ExprNode::Kind::Constant) {
      results.push_back(literal(id));
    } else if (node.kind == ExprNode::Kind::Variable) {
      results.push_back(query_variable(node));
    } else if (node.kind == ExprNode::Kind::Fresh) {
      results.push_back(fresh_id(node));
    } else {
      CallAtom atom{.args = arguments(id, first, results), .output = new_result(id, true), .span = node.span};
      atom.call = type_call(id, atom.args, atom.output, query_context_);
      results.push_back(atom.output);
      atoms_.push_back(std::move(atom));
    }
  }
  return results.back();
}

Argument Lowering::add_expr(ExprId expr) {
  const ExprId first = exprs_[expr].first;
  std::vector<Argument> results;
  for (ExprId id = first; id <= expr; ++id) {
    const ExprNode node = exprs_[id];
    if (node.kind == ExprNode::Kind::Constant) {
      results.push_back(literal(id));
    } else if (node.kind == ExprNode::Kind::Variable) {
      const FunctionInfo* info = lets_.contains(node.name) ? nullptr : context_.scope.find_global(node.name);
      results.push_back(info ? global(info, node.span) : action_variable(node));
    } else if (node.kind == ExprNode::Kind::Fresh) {
      results.push_back(fresh_id(node));
    } else {
      PendingAction call;
      call.is_call = true;
      call.args = arguments(id, first, results);
      call.value = new_result(id, false);
      call.span = node.span;
      call.call = type_call(id, call.args, call.value, action_context_);
      results.push_back(call.value);
      actions_.push_back(std::move(call));
    }
  }
  return results.back();
}

std::vector<Argument> Lowering::variables_of(std::span<const Fact> facts) const {
  std::vector<Argument> out;
  std::unordered_set<Symbol> seen;
  const auto add = [&](ExprId expr) {
    for (ExprId id = exprs_[expr].first; id <= expr; ++id) {
      const ExprNode& node = exprs_[id];
      if (node.kind != ExprNode::Kind::Variable || !seen.insert(node.name).second) continue;
      if (const auto found = names_.find(node.name); found != names_.end())
        out.push_back({.index = found->second, .type = variables_[found->second].type});
      else if (const FunctionInfo* info = context_.scope.find_global(node.name))
        out.push_back(globals_.at(info->name.text()));
    }
  };
  for (const Fact& fact : facts) {
    add(fact.left);
    if (fact.is_equality) add(fact.right);
  }
  return out;
}

// A row of a constructor of the rule's own, whose arguments are what matched and the number of the call.
Argument Lowering::fresh_id(const ExprNode& node) {
  if (!fresh_)
    fail_at(node.span, "unstable-fresh! makes an id for each match of a rule: it stands in its actions");
  PendingAction call;
  call.is_call = true;
  call.function = fresh_;
  call.span = node.span;
  call.args = fresh_args_;
  call.args.push_back({.is_literal = true,
                       .index = static_cast<uint32_t>(exprs_.literals.size()),
                       .type = solver_.add_term(node.span, "", fresh_->inputs.back())});
  exprs_.literals.emplace_back(fresh_count_++);
  call.value = {.index = static_cast<uint32_t>(variables_.size()),
                .type = solver_.add_term(node.span, std::string(node.span.text()), fresh_->output)};
  variables_.push_back({.name = fresh_->name, .type = call.value.type, .span = node.span, .is_result = true});
  actions_.push_back(call);
  return call.value;
}

Argument Lowering::bind(Symbol name, const SortInfo* sort) {
  const auto index = static_cast<uint32_t>(variables_.size());
  const TypeSolver::TermId type = solver_.add_term({}, name.text(), sort);
  variables_.push_back({.name = name, .type = type, .span = {}, .in_query = true});
  names_.emplace(name, index);
  return {.index = index, .type = type};
}

void Lowering::add_facts(std::span<const Fact> facts) {
  for (const Fact& fact : facts) {
    const Argument left = query_expr(fact.left);
    facts_.push_back(left);
    if (!fact.is_equality) continue;
    const Argument right = query_expr(fact.right);
    solver_.require_equal(left.type, right.type, fact.span);
    equalities_.emplace_back(left, right);
  }
}

// -- Actions

const FunctionInfo* Lowering::table(Symbol name, const Span& span, std::string_view action) const {
  if (const FunctionInfo* info = context_.scope.find_function(name)) return info;
  if (context_.scope.find_primitive(name))
    fail_at(span, "cannot {} '{}': it is a primitive, not a table", action, name.text());
  fail_at(span, "unknown function '{}'{}", name.text(), context_.scope.suggest_callable(name));
}

void Lowering::add_row_action(const ActionSyntax& action) {
  using Kind = ActionSyntax::Kind;
  PendingAction out;
  out.kind = action.kind;
  out.span = action.span;
  const std::string_view verb = action.kind == Kind::Set      ? "set"
                                : action.kind == Kind::Delete ? "delete rows of"
                                                              : "subsume rows of";
  out.function = table(action.name, action.span, verb);
  const std::string& name = action.name.text();
  if (action.kind == Kind::Set && out.function->kind != FunctionKind::Function)
    fail_at(action.span, "cannot set {} '{}': use (union ({} ...) ...), or declare it as a function",
            out.function->kind == FunctionKind::Relation ? "relation" : "constructor", name, name);
  if (action.kind == Kind::Subsume && out.function->kind == FunctionKind::Function)
    command_failed(action.span,
                   "cannot subsume a row of function '{}': only rows of constructors and relations", name);
  std::vector<TypeSolver::TermId> types;
  for (const ExprId arg : action.args) {
    out.args.push_back(add_expr(arg));
    types.push_back(out.args.back().type);
  }
  solver_.add_row(out.function, types, action.span);
  if (action.kind == Kind::Set) {
    out.value = add_expr(action.value);
    solver_.require_equal(out.value.type,
                          solver_.add_term(action.span, "(" + name + " ...)", out.function->output),
                          action.span);
  }
  actions_.push_back(std::move(out));
}

// Adds the row if it is missing, then sets its cost.
void Lowering::add_cost(const ActionSyntax& action) {
  const FunctionInfo* constructor = table(action.name, action.span, "set the cost of");
  const Symbol costs = context_.symbols.intern(cost_table_name(action.name.text()));
  PendingAction row, cost;
  cost.function = context_.scope.find_function(costs);
  if (constructor->kind != FunctionKind::Constructor || !cost.function)
    fail_at(action.span, "rows of '{}' have no costs of their own: declare it within (with-dynamic-cost ...)",
            action.name.text());
  row.is_call = true;
  row.function = constructor;
  row.span = cost.span = action.span;
  cost.kind = ActionSyntax::Kind::Set;
  std::vector<TypeSolver::TermId> types;
  for (const ExprId arg : action.args) {
    row.args.push_back(add_expr(arg));
    types.push_back(row.args.back().type);
  }
  solver_.add_row(constructor, types, action.span);
  cost.args = row.args;
  cost.value = add_expr(action.value);
  solver_.require(cost.value.type, cost.function->output);
  row.value = {.index = static_cast<uint32_t>(variables_.size()),
               .type = solver_.add_term(action.span, action.name.text(), constructor->output)};
  variables_.push_back({.name = action.name, .type = row.value.type, .span = action.span, .is_result = true});
  actions_.push_back(std::move(row));
  actions_.push_back(std::move(cost));
}

// (union v (f args)) sets the row of f to v: no id is made only to be united at once.
void Lowering::add_union(const ActionSyntax& action) {
  PendingAction out;
  out.span = action.span;
  const auto constructor_of = [&](ExprId id) -> const FunctionInfo* {
    const ExprNode& node = exprs_[id];
    const FunctionInfo* info =
        node.kind == ExprNode::Kind::Call ? context_.scope.find_function(node.name) : nullptr;
    return info && info->kind == FunctionKind::Constructor && info->inputs.size() == node.arg_count ? info
                                                                                                    : nullptr;
  };
  const bool left_known = exprs_[action.value].kind == ExprNode::Kind::Variable;
  const bool right_known = exprs_[action.right].kind == ExprNode::Kind::Variable;
  const ExprId call = left_known ? action.right : action.value;
  out.function = left_known != right_known && !context_.own_terms ? constructor_of(call) : nullptr;
  if (!out.function) {
    out.kind = ActionSyntax::Kind::Union;
    out.value = add_expr(action.value);
    out.right = add_expr(action.right);
    solver_.require_equal(out.value.type, out.right.type, action.span);
  } else {
    out.kind = ActionSyntax::Kind::Set;
    std::vector<TypeSolver::TermId> types;
    const std::vector<ExprId> args(exprs_.args_of(call).begin(), exprs_.args_of(call).end());
    for (const ExprId arg : args) {
      out.args.push_back(add_expr(arg));
      types.push_back(out.args.back().type);
    }
    solver_.add_row(out.function, types, exprs_[call].span);
    out.value = add_expr(left_known ? action.value : action.right);
    const std::string shown(exprs_[call].span.text().substr(0, 60));
    solver_.require_equal(out.value.type, solver_.add_term(exprs_[call].span, shown, out.function->output),
                          action.span);
  }
  actions_.push_back(std::move(out));
}

void Lowering::add_action(const ActionSyntax& action) {
  using Kind = ActionSyntax::Kind;
  switch (action.kind) {
    case Kind::Set:
    case Kind::Delete:
    case Kind::Subsume:
      return add_row_action(action);
    case Kind::SetCost:
      return add_cost(action);
    case Kind::Expr:
      add_expr(action.value);
      return;
    case Kind::Let: {
      if (names_.contains(action.name) || lets_.contains(action.name))
        fail_at(action.span, "variable '{}' was already defined", action.name.text());
      check_shadowing(action.name, action.span);
      lets_.emplace(action.name, add_expr(action.value));
      return;
    }
    case Kind::Union:
      return add_union(action);
    case Kind::Panic: {
      PendingAction out;
      out.kind = Kind::Panic;
      out.span = action.span;
      out.message = action.message;
      actions_.push_back(std::move(out));
    }
  }
}

void Lowering::forbid_lookups() const {
  for (const PendingAction& action : actions_) {
    if (!action.is_call || action.function) continue;
    const FunctionInfo* function = solver_.meaning(action.call).function;
    if (function && function->kind == FunctionKind::Function)
      fail_at(action.span,
              "the actions of a rule cannot look up function '{}', because semi-naive evaluation would miss "
              "later "
              "changes of it: bind its value in the conditions, or mark the rule :naive",
              function->name.text());
  }
}

SortId literal_sort(const Literal& literal) {
  constexpr SortId kSorts[] = {kUnit, kI64, kF64, kString, kBool};
  return kSorts[literal.index()];
}

Term literal_term(EGraph& graph, const Literal& literal) {
  const SortId sort = literal_sort(literal);
  struct Visitor {
    EGraph& graph;
    Value operator()(std::monostate) const { return kUnitValue; }
    Value operator()(int64_t x) const { return graph.i64(x); }
    Value operator()(double x) const { return graph.f64(x); }
    Value operator()(const std::string& x) const { return graph.string(x); }
    Value operator()(bool x) const { return EGraph::boolean(x); }
  };
  return Term::constant(sort, std::visit(Visitor{graph}, literal));
}

std::vector<const SortInfo*> variable_sorts(const LoweringContext& context, std::span<const Fact> facts) {
  Lowering lowering(context, Context::Pure, Context::Write, true);
  lowering.add_facts(facts);
  lowering.solve();
  std::vector<const SortInfo*> out;
  for (const Argument& variable : lowering.variables_of(facts)) out.push_back(lowering.sort_of(variable));
  return out;
}

// A function value is known when the rule runs; its sort tells which tables it may stand for.
bool Lowering::may_be_table(const SortInfo* sort) const {
  if (sort->presort != SortInfo::Presort::Function) return false;
  const auto inputs = sort->inputs();
  return std::ranges::any_of(context_.scope.function_order, [&](const FunctionInfo* f) {
    return f->output == sort->output() && f->inputs.size() >= inputs.size() &&
           std::equal(inputs.begin(), inputs.end(), f->inputs.end() - static_cast<ptrdiff_t>(inputs.size()));
  });
}

bool Lowering::facts_look_up() const {
  const auto takes_table = [&](const Argument& arg) { return may_be_table(sort_of(arg)); };
  return std::ranges::any_of(atoms_, [&](const CallAtom& atom) {
    const Overload* primitive = solver_.meaning(atom.call).primitive;
    if (!primitive) return false;
    const auto id = [&](Context where) { return primitive->ids[static_cast<size_t>(where)]; };
    return id(Context::Pure) != id(Context::Read) && std::ranges::any_of(atom.args, takes_table);
  });
}

RuleSpec lower_rule(const LoweringContext& context, const RuleSyntax& rule, const FunctionInfo* fresh) {
  const bool may_read = !context.seminaive || rule.mode != EvalMode::Seminaive;
  Lowering lowering(context, may_read ? Context::Read : Context::Pure,
                    may_read ? Context::Full : Context::Write, true);
  lowering.add_facts(rule.body);
  if (fresh) lowering.set_fresh(fresh, lowering.variables_of(rule.body));
  for (const ActionSyntax& action : rule.head) lowering.add_action(action);
  lowering.solve();
  if (!may_read) lowering.forbid_lookups();
  const bool looks_up = lowering.facts_look_up();
  if (looks_up) lowering.let_facts_read();
  RuleSpec spec;
  spec.origin = show_location(rule.span);
  spec.query = lowering.build_query(rule.span);
  spec.query.match_subsumed = rule.include_subsumed;
  spec.actions = lowering.build_actions();
  spec.naive =
      !context.seminaive || rule.mode == EvalMode::Naive || (looks_up && rule.mode == EvalMode::Seminaive);
  return spec;
}

std::vector<const SortInfo*> fact_sorts(const LoweringContext& context, std::span<const Fact> facts) {
  Lowering lowering(context, Context::Read, Context::Full, true);
  lowering.add_facts(facts);
  lowering.solve();
  std::vector<const SortInfo*> out;
  for (const Argument& fact : lowering.facts()) out.push_back(lowering.sort_of(fact));
  return out;
}

Query lower_query(const LoweringContext& context, std::span<const Fact> facts, const Span& span) {
  Lowering lowering(context, Context::Read, Context::Full, true);
  lowering.add_facts(facts);
  lowering.solve();
  Query query = lowering.build_query(span);
  query.match_subsumed = true;
  return query;
}

ActionBlock lower_action(const LoweringContext& context, const ActionSyntax& action) {
  Lowering lowering(context, Context::Read, Context::Full, false);
  lowering.add_action(action);
  lowering.solve();
  return lowering.build_actions();
}

LoweredExpr lower_expr(const LoweringContext& context, ExprId expr, const SortInfo* expected) {
  Lowering lowering(context, Context::Read, Context::Full, false);
  const Argument value = lowering.add_expr(expr);
  if (expected) lowering.require(value, expected);
  lowering.solve();
  LoweredExpr out;
  out.block = lowering.build_actions();
  out.value = lowering.term(value);
  out.sort = lowering.sort_of(value);
  return out;
}

Merge lower_merge(const LoweringContext& context, ExprId expr, const SortInfo* output) {
  Lowering lowering(context, Context::Write, Context::Write, false);
  const Argument previous = lowering.bind(context.symbols.intern("old"), output);
  const Argument next = lowering.bind(context.symbols.intern("new"), output);
  const Argument value = lowering.add_expr(expr);
  lowering.require(value, output);
  lowering.solve();
  ActionBlock program = lowering.build_actions();
  const Term result = lowering.term(value);
  if (program.actions.empty() && result == lowering.term(previous)) return Merge::keep_old();
  if (program.actions.empty() && result == lowering.term(next)) return Merge::keep_new();
  return Merge::computed(std::move(program), result);
}

}  // namespace luminal::egraph::language
