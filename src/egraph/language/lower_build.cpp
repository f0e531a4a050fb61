// Lowering, second part: with all sorts known, the engine's query and actions.
#include <algorithm>
#include <map>
#include <numeric>

#include "egraph/language/lowering.h"

namespace luminal::egraph::language {

// -- The query: variables that equalities and functional dependency identify become one

uint32_t Lowering::find(uint32_t variable) {
  while (parent_[variable] != variable) variable = parent_[variable] = parent_[parent_[variable]];
  return variable;
}

Term Lowering::raw_term(const Argument& argument) {
  if (argument.is_literal) return literal_term(context_.graph, exprs_.literals[argument.index]);
  const uint32_t root = find(argument.index);
  return constant_[root] ? *constant_[root] : Term::variable(root);
}

void Lowering::unify(const Term& left, const Term& right, Query& query) {
  if (left == right) return;
  if (left.is_variable() && right.is_variable()) {
    // The smaller number stays: it was written first.
    const auto [keep, drop] = std::minmax(left.at, right.at);
    parent_[drop] = keep;
  } else if (left.is_variable()) {
    constant_[left.at] = right;
  } else if (right.is_variable()) {
    constant_[right.at] = left;
  } else {
    query.equalities.push_back({left, right});
  }
}

// f(a, b) = x and f(a, b) = y mean x = y and one row.
bool Lowering::merge_duplicate_rows(Query& query) {
  std::map<std::vector<uint64_t>, size_t> seen;
  std::vector<CallAtom> kept;
  bool changed = false;
  for (CallAtom& atom : atoms_) {
    poll();
    const Candidate& meaning = solver_.meaning(atom.call);
    std::vector<uint64_t> key{meaning.function ? 1U : 0U,
                              meaning.function ? static_cast<uint64_t>(meaning.function->id)
                                               : reinterpret_cast<uint64_t>(meaning.primitive)};
    key.push_back(static_cast<uint64_t>(sort_of(atom.output)->id));
    for (const Argument& arg : atom.args) {
      const Term term = raw_term(arg);
      key.push_back(term.is_variable()
                        ? term.at
                        : (uint64_t{1} << 63 | static_cast<uint64_t>(term.sort) << 32 | term.at));
    }
    const auto [found, fresh] = seen.try_emplace(std::move(key), kept.size());
    if (fresh) {
      kept.push_back(std::move(atom));
      continue;
    }
    const Term left = raw_term(kept[found->second].output);
    const Term right = raw_term(atom.output);
    changed |= !(left == right);
    unify(left, right, query);
  }
  atoms_ = std::move(kept);
  return changed;
}

void Lowering::merge_variables(Query& query) {
  parent_.resize(variables_.size());
  std::iota(parent_.begin(), parent_.end(), 0U);
  constant_.assign(variables_.size(), std::nullopt);
  for (const auto& [left, right] : equalities_) unify(raw_term(left), raw_term(right), query);
  while (unify_relation_rows(query)) {
  }
  // Results of sort Unit have only one value: no variable is needed.
  for (uint32_t i = 0; i < variables_.size(); ++i)
    if (variables_[i].in_query && variables_[i].is_result && solver_.sort_of(variables_[i].type)->id == kUnit)
      constant_[find(i)] = Term::constant(kUnit, kUnitValue);
  while (merge_duplicate_rows(query)) {
  }
}

// Rows of a relation are terms that are never united: two are equal if their arguments are.
bool Lowering::unify_relation_rows(Query& query) {
  std::map<uint32_t, const CallAtom*> row_of;
  bool changed = false;
  for (const CallAtom& atom : atoms_) {
    const FunctionInfo* function = solver_.meaning(atom.call).function;
    if (!function || function->kind != FunctionKind::Relation) continue;
    const auto [found, fresh] = row_of.try_emplace(find(atom.output.index), &atom);
    for (size_t i = 0; !fresh && i < atom.args.size(); ++i) {
      const Term left = raw_term(found->second->args[i]), right = raw_term(atom.args[i]);
      const bool clash = !left.is_variable() && !right.is_variable();
      const auto is_pair = [&](const Equality& e) { return e.left == left && e.right == right; };
      if (left == right || (clash && std::any_of(query.equalities.begin(), query.equalities.end(), is_pair)))
        continue;
      unify(left, right, query);
      changed = true;
    }
  }
  return changed;
}

void Lowering::check_grounded(const Span& span) {
  std::vector<bool> grounded(variables_.size(), false);
  const auto is_grounded = [&](const Argument& o) {
    const Term term = raw_term(o);
    return !term.is_variable() || grounded[term.at];
  };
  const auto ground = [&](const Argument& o) {
    const Term term = raw_term(o);
    const bool changed = term.is_variable() && !grounded[term.at];
    if (changed) grounded[term.at] = true;
    return changed;
  };
  for (const auto& [info, argument] : global_atoms_) ground(argument);
  for (const CallAtom& atom : atoms_) {
    if (!solver_.meaning(atom.call).function) continue;
    for (const Argument& arg : atom.args) ground(arg);
    ground(atom.output);
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (const CallAtom& atom : atoms_) {
      poll();
      if (!solver_.meaning(atom.call).function &&
          std::all_of(atom.args.begin(), atom.args.end(), is_grounded))
        changed |= ground(atom.output);
    }
  }
  for (uint32_t i = 0; i < variables_.size(); ++i) {
    if (!variables_[i].in_query || is_grounded({.index = i})) continue;
    command_failed(variables_[i].span.source ? variables_[i].span : span,
                   "variable '{}' is ungrounded: it must appear as an argument or result of a constructor or "
                   "function in the "
                   "conditions, not only under primitives or equalities",
                   clipped(variables_[i].is_result ? variables_[i].span.text() : variables_[i].name.text()));
  }
}

void Lowering::number_variables() {
  number_.assign(variables_.size(), 0);
  uint32_t next = 0;
  for (const bool in_query : {true, false}) {
    for (uint32_t i = 0; i < variables_.size(); ++i) {
      const bool stands_alone = !has_query_ || !in_query || (find(i) == i && !constant_[i]);
      if (variables_[i].in_query == in_query && stands_alone) number_[i] = next++;
    }
    if (in_query) query_count_ = next;
  }
}

Term Lowering::term(const Argument& argument) const {
  if (argument.is_literal) return literal_term(context_.graph, exprs_.literals[argument.index]);
  uint32_t root = argument.index;
  if (has_query_ && variables_[root].in_query) {
    while (parent_[root] != root) root = parent_[root];
    if (constant_[root]) return *constant_[root];
  }
  return Term::variable(number_[root]);
}

// The name that unstable-fn is given becomes the number of what it means.
PrimitiveId Lowering::primitive_of(const CallAtom& call, const Candidate& meaning, Context where,
                                   std::vector<Term>& args) const {
  if (meaning.primitive->shape == Overload::Shape::FunctionMaker) {
    std::vector<const SortInfo*> partial;
    for (size_t i = 1; i < call.args.size(); ++i) partial.push_back(sort_of(call.args[i]));
    args[0] =
        Term::constant(kI64, context_.graph.i64(context_.make_target(meaning.target, std::move(partial))));
  }
  return meaning.primitive->ids[static_cast<size_t>(where)];
}

Query Lowering::build_query(const Span& span) {
  Query query;
  merge_variables(query);
  check_grounded(span);
  number_variables();
  for (uint32_t i = 0; i < variables_.size(); ++i)
    if (variables_[i].in_query && find(i) == i && !constant_[i])
      query.variables.push_back({variables_[i].name.text(), solver_.sort_of(variables_[i].type)->id});
  for (Equality& equality : query.equalities) {
    if (equality.left.is_variable()) equality.left = Term::variable(number_[equality.left.at]);
    if (equality.right.is_variable()) equality.right = Term::variable(number_[equality.right.at]);
  }
  for (const CallAtom& atom : atoms_) {
    poll();
    const Candidate& meaning = solver_.meaning(atom.call);
    std::vector<Term> args;
    for (const Argument& arg : atom.args) args.push_back(term(arg));
    if (meaning.function)
      query.atoms.push_back({meaning.function->id, std::move(args), term(atom.output)});
    else {
      const PrimitiveId id = primitive_of(atom, meaning, query_context_, args);
      query.primitives.push_back({id, std::move(args), term(atom.output)});
    }
  }
  for (const auto& [info, argument] : global_atoms_) query.atoms.push_back({info->id, {}, term(argument)});
  return query;
}

Action Lowering::build_call(const PendingAction& pending) const {
  std::vector<Term> args;
  for (const Argument& arg : pending.args) args.push_back(term(arg));
  if (pending.function) return Action::call(pending.function->id, std::move(args), term(pending.value));
  const Candidate& meaning = solver_.meaning(pending.call);
  if (meaning.function) {
    Action call = Action::call(meaning.function->id, std::move(args), term(pending.value));
    if (meaning.function->kind == FunctionKind::Function)
      call.message = render_diagnostic(
          pending.span, fmt::format("look-up of function '{}' failed: it has no value for these arguments",
                                    clipped(meaning.function->name.text())));
    return call;
  }
  const CallAtom atom{
      .call = pending.call, .args = pending.args, .output = pending.value, .span = pending.span};
  const PrimitiveId id = primitive_of(atom, meaning, action_context_, args);
  Action call = Action::primitive_call(id, std::move(args), term(pending.value));
  call.message = render_diagnostic(
      pending.span, fmt::format("call of primitive '{}' failed: it is not defined for these arguments",
                                meaning.primitive->name.text()));
  return call;
}

void Lowering::finish_unions() const {
  for (const PendingAction& action : actions_) {
    if (action.is_call || action.kind != ActionSyntax::Kind::Union) continue;
    const SortInfo* sort = sort_of(action.value);
    if (!sort->is_eq())
      fail_at(action.span, "cannot union values of sort {}: only values of sorts and datatypes can be united",
              sort->name.text());
    if (!sort->unionable)
      fail_at(action.span, "cannot union rows of a relation: they are facts, not terms of a sort");
  }
}

ActionBlock Lowering::build_actions() {
  finish_unions();
  if (!has_query_) number_variables();
  ActionBlock block;
  for (uint32_t i = 0; i < variables_.size(); ++i)
    if (!variables_[i].in_query)
      block.variables.push_back({variables_[i].name.text(), solver_.sort_of(variables_[i].type)->id});
  using Kind = ActionSyntax::Kind;
  for (const PendingAction& pending : actions_) {
    if (pending.is_call) {
      block.actions.push_back(build_call(pending));
      continue;
    }
    std::vector<Term> args;
    for (const Argument& arg : pending.args) args.push_back(term(arg));
    switch (pending.kind) {
      case Kind::Set:
        block.actions.push_back(Action::set(pending.function->id, std::move(args), term(pending.value)));
        break;
      case Kind::Delete:
        block.actions.push_back(Action::remove(pending.function->id, std::move(args)));
        break;
      case Kind::Subsume:
        block.actions.push_back(Action::subsume(pending.function->id, std::move(args)));
        break;
      case Kind::Panic:
        block.actions.push_back(Action::panic(
            render_diagnostic(pending.span, "panic: " + clipped(pending.message, kMostQuoted))));
        break;
      case Kind::Union:
        block.actions.push_back(Action::unite(term(pending.value), term(pending.right)));
        break;
      case Kind::Let:
      case Kind::SetCost:
      case Kind::Expr:
        break;
    }
  }
  return block;
}

}  // namespace luminal::egraph::language
