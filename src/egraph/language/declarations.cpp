// Commands that declare: sorts, functions, rulesets, rules, globals.
#include <algorithm>
#include <array>

#include "base/fail.h"
#include "egraph/language/interpreter.h"

namespace luminal::egraph::language {

void Interpreter::check_name_free(Symbol name, const Span& span) const {
  const auto taken = scope_.names.find(name);
  if (taken == scope_.names.end()) return;
  fail_at(span, "'{}' is already declared at {}: shadowing is not allowed", name.text(),
          show_location(taken->second));
}

void Interpreter::take_name(Symbol name, const Span& span) {
  check_name_free(name, span);
  scope_.names.emplace(name, span);
}

void Interpreter::sort(const SortSyntax& syntax) {
  check_name_free(syntax.name, syntax.span);
  if (scope_.find_sort(syntax.name)) fail_at(syntax.span, "'{}' is a built-in sort", syntax.name.text());
  if (syntax.presort)
    library_.declare_container(scope_, syntax, *exprs_);
  else
    library_.declare_sort(scope_, syntax.name, syntax.union_table);
  scope_.names.emplace(syntax.name, syntax.span);
}

// Sorts first, then the containers that may hold them, then the constructors that may use either.
void Interpreter::datatypes(const Command& c) {
  for (const bool containers : {false, true})
    for (const DatatypeSyntax& type : c.datatypes)
      if (static_cast<bool>(type.sort.presort) == containers) sort(type.sort);
  for (const DatatypeSyntax& type : c.datatypes)
    for (const FunctionSyntax& variant : type.variants) function(variant);
}

void Interpreter::function(const FunctionSyntax& syntax) {
  using Kind = FunctionSyntax::Kind;
  const auto find = [&](Symbol name, const Span& span) {
    const SortInfo* sort = scope_.find_sort(name);
    if (!sort) fail_at(span, "unknown sort '{}'{}", name.text(), scope_.suggest_sort(name));
    return sort;
  };
  check_name_free(syntax.name, syntax.span);
  if (scope_.find_sort(syntax.name)) fail_at(syntax.span, "'{}' is the name of a sort", syntax.name.text());
  if (scope_.find_primitive(syntax.name))
    fail_at(syntax.span, "'{}' is the name of a primitive function", syntax.name.text());
  FunctionInfo* info = library_.new_function();
  info->name = syntax.name;
  info->span = syntax.span;
  info->hidden = syntax.hidden;
  FunctionSpec spec;
  spec.name = syntax.name.text();
  for (size_t i = 0; i < syntax.inputs.size(); ++i) {
    info->inputs.push_back(find(syntax.inputs[i], syntax.input_spans[i]));
    spec.inputs.push_back(info->inputs.back()->id);
  }
  if (syntax.kind == Kind::Relation) {
    info->kind = FunctionKind::Relation;
    info->output = library_.relation_sort(fresh_.make(syntax.name.text() + "Sort"));
  } else {
    info->kind = syntax.kind == Kind::Function ? FunctionKind::Function : FunctionKind::Constructor;
    info->output = find(syntax.output, syntax.output_span);
    if (info->kind == FunctionKind::Constructor && !info->output->is_eq())
      fail_at(syntax.output_span,
              "constructor '{}' must return a sort or datatype, not {}: values of {} have no e-classes",
              syntax.name.text(), syntax.output.text(), syntax.output.text());
  }
  spec.kind = info->kind;
  spec.output = info->output->id;
  spec.cost = static_cast<double>(syntax.cost.value_or(1));
  spec.unextractable = syntax.unextractable || info->kind != FunctionKind::Constructor;
  spec.hidden = syntax.hidden;
  if (syntax.merge) spec.merge = lower_merge(lowering(), *syntax.merge, info->output);
  info->id = graph_.function(std::move(spec));
  scope_.functions.emplace(syntax.name, info);
  scope_.function_order.push_back(info);
  scope_.names.emplace(syntax.name, syntax.span);
}

void Interpreter::ruleset(Symbol name, const Span& span) {
  take_name(name, span);
  scope_.rulesets.emplace(name,
                          RulesetInfo{.id = graph_.ruleset(name.text()), .parts = {}, .rule_names = {}});
}

void Interpreter::combined_ruleset(const Command& c) {
  RulesetInfo info;
  info.combined = true;
  std::vector<RulesetId> parts;
  for (const Symbol part : c.names) {
    parts.push_back(find_ruleset(part, c.span).id);
    info.parts.push_back(part);
  }
  take_name(c.name, c.span);
  info.id = graph_.combined_ruleset(c.name.text(), std::move(parts));
  scope_.rulesets.emplace(c.name, std::move(info));
}

// Null if no action has an (unstable-fresh! ...). The first of them speaks for all.
const FunctionInfo* Interpreter::fresh_constructor(const RuleSyntax& syntax) {
  const FreshSyntax* first = nullptr;
  const auto look = [&](ExprId expr) {
    for (ExprId id = (*exprs_)[expr].first; id <= expr && !first; ++id)
      if ((*exprs_)[id].kind == ExprNode::Kind::Fresh) first = &exprs_->fresh[(*exprs_)[id].literal];
  };
  for (const ActionSyntax& action : syntax.head) {
    for (const ExprId arg : action.args) look(arg);
    if (action.kind == ActionSyntax::Kind::Panic || action.kind == ActionSyntax::Kind::Delete ||
        action.kind == ActionSyntax::Kind::Subsume)
      continue;
    look(action.value);
    if (action.kind == ActionSyntax::Kind::Union) look(action.right);
  }
  if (!first) return nullptr;
  FunctionSyntax made;
  made.span = syntax.span;
  made.name = fresh_.make("GeneratedFreshTable");
  for (const SortInfo* sort : variable_sorts(lowering(), syntax.body)) made.inputs.push_back(sort->name);
  made.inputs.push_back(symbols_.intern("i64"));
  made.input_spans.assign(made.inputs.size(), syntax.span);
  made.output = first->sort;
  made.output_span = first->sort_span;
  made.cost = first->cost;
  made.unextractable = first->unextractable;
  function(made);
  return scope_.find_function(made.name);
}

void Interpreter::rule(const RuleSyntax& syntax, std::string name) {
  if (name.empty()) {
    name = to_text(*exprs_, syntax);
    std::replace(name.begin(), name.end(), '"', '\'');
  }
  RuleSpec spec = lower_rule(lowering(), syntax, fresh_constructor(syntax));
  static_cast<void>(find_ruleset(syntax.ruleset, syntax.span));
  RulesetInfo& ruleset = scope_.rulesets.at(syntax.ruleset);
  if (ruleset.combined)
    command_failed(syntax.span, "'{}' is a combined ruleset: rules are added to its parts",
                   syntax.ruleset.text());
  if (const auto [old, fresh] = ruleset.rule_names.try_emplace(name, syntax.span); !fresh)
    command_failed(syntax.span,
                   "the ruleset already has a rule of this name, from {}; give one of them a :name",
                   show_location(old->second));
  spec.name = name;
  for (size_t i = 2; !rule_names_.insert(spec.name).second; ++i) spec.name = fmt::format("{} #{}", name, i);
  const RuleId id = graph_.rule(ruleset.id, std::move(spec));
  shown_rules_.emplace(static_cast<uint32_t>(id), std::move(name));
}

// (rewrite left right) is the rule ((= v left)) ((union v right)), with v of its own.
void Interpreter::rewrite_rule(const RewriteSyntax& syntax, ExprId left, ExprId right, std::string name) {
  const ExprId root = exprs_->add_variable(fresh_.make("rewrite_var__"), syntax.span);
  RuleSyntax rewritten;
  rewritten.span = syntax.span;
  rewritten.ruleset = syntax.ruleset;
  rewritten.body.push_back({.is_equality = true, .span = syntax.span, .left = root, .right = left});
  rewritten.body.insert(rewritten.body.end(), syntax.conditions.begin(), syntax.conditions.end());
  ActionSyntax unite;
  unite.kind = ActionSyntax::Kind::Union;
  unite.span = syntax.span;
  unite.value = root;
  unite.right = right;
  rewritten.head.push_back(std::move(unite));
  if (syntax.subsume) {
    const ExprNode& node = (*exprs_)[left];
    if (node.kind != ExprNode::Kind::Call)
      fail_at(node.span, "a rewrite with :subsume needs a call on its left side");
    ActionSyntax subsume;
    subsume.kind = ActionSyntax::Kind::Subsume;
    subsume.span = syntax.span;
    subsume.name = node.name;
    subsume.args.assign(exprs_->args_of(left).begin(), exprs_->args_of(left).end());
    rewritten.head.push_back(std::move(subsume));
  }
  rule(rewritten, std::move(name));
}

void Interpreter::rewrite(const RewriteSyntax& syntax) {
  std::string name = syntax.name.empty() ? to_text(*exprs_, syntax) : syntax.name;
  if (syntax.name.empty()) std::replace(name.begin(), name.end(), '"', '\'');
  if (!syntax.both_ways) return rewrite_rule(syntax, syntax.left, syntax.right, std::move(name));
  rewrite_rule(syntax, syntax.left, syntax.right, name + "=>");
  rewrite_rule(syntax, syntax.right, syntax.left, name + "<=");
}

// A global is a nullary function that is set once.
void Interpreter::global(const ActionSyntax& syntax) {
  const bool has_prefix = syntax.name.text()[0] == '$';
  const LoweredExpr lowered = lower_expr(lowering(), syntax.value);
  if (options_.strict_globals && !has_prefix)
    fail_at(syntax.span, "global '{}' must start with '$'", syntax.name.text());
  check_name_free(syntax.name, syntax.span);
  FunctionInfo* info = library_.new_function();
  info->name = syntax.name;
  info->kind = FunctionKind::Function;
  info->output = lowered.sort;
  info->is_global = true;
  info->hidden = true;
  info->span = syntax.span;
  FunctionSpec spec;
  spec.name = syntax.name.text();
  spec.kind = FunctionKind::Function;
  spec.output = lowered.sort->id;
  spec.unextractable = true;
  spec.hidden = true;
  info->id = graph_.function(std::move(spec));
  scope_.functions.emplace(syntax.name, info);
  scope_.function_order.push_back(info);
  scope_.names.emplace(syntax.name, syntax.span);
  if (has_prefix)
    scope_.global_stems.emplace(symbols_.intern(std::string_view(syntax.name.text()).substr(1)), syntax.name);
  ActionBlock block = lowered.block;
  block.actions.push_back(Action::set(info->id, {}, lowered.value));
  execute(block, syntax.span);
  if (graph_.explanations_enabled()) info->term = made_term(syntax.value);
}

}  // namespace luminal::egraph::language
