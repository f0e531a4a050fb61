// Proofs: why a fact holds, from the engine's explanations.
#include <algorithm>

#include "base/fail.h"
#include "egraph/core/explain.h"
#include "egraph/core/growing_text.h"
#include "egraph/core/state.h"
#include "egraph/language/interpreter.h"

namespace luminal::egraph::language {

void Interpreter::require_proofs(const Span& span) const {
  if (!graph_.explanations_enabled())
    command_failed(span, "proofs are off: run the program with proofs enabled (luminal egg --proofs)");
}

void Interpreter::prove(const Command& c) {
  const Query query = lower_query(lowering(), c.facts, c.span);
  require_proofs(c.span);
  emit(proof_of(query, c.facts, c.span));
}

// Each fact of a query that matches: an equality as a chain of terms and reasons, a term with the rule that
// made it, a row of another table as what it is, a fact.
std::string Interpreter::proof_of(const Query& query, std::span<const Fact> facts, const Span& span) {
  if (!graph_.check(query))
    command_failed(span, "nothing in the database matches, so there is nothing to prove");
  GrowingText out(graph_.state());
  const std::vector<const SortInfo*> sorts = fact_sorts(lowering(), facts);
  for (size_t i = 0; i < facts.size(); ++i) {
    const Fact& fact = facts[i];
    const std::string shown = to_text(*exprs_, fact);
    const std::optional<Value> left = original_term(fact.left, sorts[i]);
    const std::optional<Value> right = fact.is_equality ? original_term(fact.right, sorts[i]) : left;
    out.add(shown + "\n");
    if (!left || !right)
      out.add("  holds in the database\n");
    else if (!fact.is_equality)
      append_origin(out, *left);
    else
      append_proof(out, fact, *left, *right);
  }
  return out.take();
}

void Interpreter::append_origin(GrowingText& out, Value id) const {
  const std::optional<RuleId> rule = graph_.term_of(id).rule;
  out.add("  ");
  append_made_term(out, graph_.state(), id);
  out.add("   " + (rule ? "by " + rule_name(*rule) : "given") + "\n");
}

bool Interpreter::is_text_of(Value id, const std::string& text) const {
  GrowingText made(graph_.state());
  append_made_term(made, graph_.state(), id, text.size());
  return made.text() == text;
}

// A side that was not made as it is written stands for a congruent term.
void Interpreter::append_proof(GrowingText& out, const Fact& fact, Value left, Value right) const {
  const Explanation explanation = graph_.explain(left, right);
  const std::string wrong = graph_.check_explanation(left, right, explanation);
  LUMINAL_CHECK(wrong.empty(), "the proof of {} = {} does not check: {}", graph_.term_text(left),
                graph_.term_text(right), wrong);
  const std::string first = to_text(*exprs_, fact.left), last = to_text(*exprs_, fact.right);
  const std::string_view by_congruence = "   by congruence\n";
  out.add("  " + first + "\n");
  if (!is_global(fact.left) && !is_text_of(left, first)) {
    out.add("  = ");
    append_made_term(out, graph_.state(), left);
    out.add(by_congruence);
  }
  append_chain(out, explanation, 0);
  if (!is_global(fact.right) && !is_text_of(right, last)) {
    out.add("  = " + last);
    out.add(by_congruence);
  }
}

bool Interpreter::is_global(ExprId expr) const { return (*exprs_)[expr].kind == ExprNode::Kind::Variable; }

// A rule that unites the class of a term it matched speaks of that term, which need not be the one that the
// class is known by.
Value Interpreter::matched_term(const ExplanationStep& step, Value id) const {
  if (step.kind != ExplanationStep::Kind::Rule) return id;
  const Query& query = graph_.spec(step.rule).query;
  for (size_t i = 0; i < query.atoms.size() && i < step.premises.size(); ++i) {
    const Term& output = query.atoms[i].output;
    const bool is_it =
        output.is_variable() && output.at < step.bindings.size() && step.bindings[output.at] == id;
    if (is_it && step.premises[i] != kNoValue) return step.premises[i];
  }
  return id;
}

void Interpreter::append_chain(GrowingText& out, const Explanation& explanation, int depth) const {
  constexpr int kDeepest = 64;
  const auto connect = [&](Value from, Value to) {
    if (from != to && depth < kDeepest && graph_.find(from) == graph_.find(to))
      append_chain(out, graph_.explain(from, to), depth + 1);
  };
  for (const Explanation::Link& link : explanation.chain) {
    const ExplanationStep& step = explanation.steps[link.step];
    const Value from = link.backward ? step.to : step.from, to = link.backward ? step.from : step.to;
    const Value matched = matched_term(step, from), reached = matched_term(step, to);
    connect(from, matched);
    std::string reason = "given";
    if (step.kind == ExplanationStep::Kind::Congruence) reason = "by congruence";
    if (step.kind == ExplanationStep::Kind::Rule) reason = "by " + rule_name(step.rule);
    out.add("  = ");
    append_made_term(out, graph_.state(), reached);
    out.add(fmt::format("   {}{}\n", reason, link.backward ? ", read backward" : ""));
    connect(reached, to);
  }
}

std::string Interpreter::rule_name(RuleId rule) const {
  const auto found = shown_rules_.find(static_cast<uint32_t>(rule));
  std::string name = found == shown_rules_.end() ? graph_.spec(rule).name : found->second;
  std::replace(name.begin(), name.end(), '\n', ' ');
  return name;
}

std::vector<Value> Interpreter::evaluate_args(ExprId call, const FunctionInfo& constructor) {
  const std::vector<ExprId> args(exprs_->args_of(call).begin(), exprs_->args_of(call).end());
  std::vector<Value> values;
  for (size_t i = 0; i < args.size(); ++i) {
    const Evaluated value = evaluate(args[i], constructor.inputs[i]);
    values.push_back(graph_.canonical(value.sort->id, value.value));
  }
  return values;
}

// The id that a global's term was made with, just now or before.
std::optional<Value> Interpreter::made_term(ExprId expr) {
  const ExprNode node = (*exprs_)[expr];
  const FunctionInfo* function = scope_.find_function(node.name);
  if (node.kind == ExprNode::Kind::Variable) function = scope_.find_global(node.name);
  if (node.kind == ExprNode::Kind::Constant || !function) return {};
  if (function->is_global) return function->term;
  if (function->kind != FunctionKind::Constructor) return {};
  std::vector<Value> key = evaluate_args(expr, *function);
  if (key.empty()) key.push_back(kUnitValue);
  const Table& table = graph_.state().at(function->id).table;
  const Row row = table.find(key);
  return row == kNoRow ? std::nullopt : std::optional(table.terms[row]);
}

// The id that a ground term had when it was made. Among congruent ones that whose text is the expression's.
std::optional<Value> Interpreter::original_term(ExprId expr, const SortInfo* sort) {
  const ExprPool& exprs = *exprs_;
  for (ExprId id = exprs[expr].first; id <= expr; ++id)
    if (exprs[id].kind == ExprNode::Kind::Variable && !scope_.find_global(exprs[id].name)) return {};
  const Evaluated root = evaluate(expr, sort);
  if (!root.sort->is_eq() || !root.sort->unionable) return {};
  const ExprNode node = exprs[expr];
  if (node.kind == ExprNode::Kind::Variable)
    if (const std::optional<Value> term = scope_.find_global(node.name)->term) return term;
  const FunctionInfo* function =
      node.kind == ExprNode::Kind::Call ? scope_.find_function(node.name) : nullptr;
  std::vector<Value> args;
  if (function && function->kind == FunctionKind::Constructor) args = evaluate_args(expr, *function);
  const Value wanted = graph_.find(root.value);
  const std::string text = to_text(exprs, expr);
  std::optional<Value> best;
  for (Value id = 0; id < graph_.state().ids.size(); ++id) {
    graph_.state().poll();
    if (graph_.find(id) != wanted) continue;
    const std::optional<TermOrigin> origin = origin_of(id);
    if (!origin) continue;
    if (is_text_of(id, text)) return id;
    const bool is_same_call =
        !args.empty() && origin->function == function->id && same_args(*function, *origin, args);
    if (!best || is_same_call) best = id;
  }
  return best;
}

std::optional<TermOrigin> Interpreter::origin_of(Value id) const {
  try {
    return graph_.term_of(id);
  } catch (const Error&) {
    return {};  // an id that no term was made for
  }
}

bool Interpreter::same_args(const FunctionInfo& function, const TermOrigin& origin,
                            std::span<const Value> args) const {
  for (size_t i = 0; i < args.size(); ++i)
    if (graph_.canonical(function.inputs[i]->id, origin.args[i]) != args[i]) return false;
  return true;
}

void Interpreter::prove_exists(const Command& c) {
  const FunctionInfo* info = scope_.find_function(c.name);
  if (!info || info->kind != FunctionKind::Constructor)
    fail_at(c.span, "prove-exists takes the name of a constructor{}",
            info ? std::string() : scope_.suggest_callable(c.name));
  require_proofs(c.span);
  for (Value id = 0; id < graph_.state().ids.size(); ++id) {
    const std::optional<TermOrigin> origin = origin_of(id);
    if (!origin || origin->function != info->id) continue;
    GrowingText out(graph_.state());
    append_origin(out, id);
    return emit(out.take());
  }
  command_failed(c.span, "no term of constructor '{}' exists", c.name.text());
}

}  // namespace luminal::egraph::language
