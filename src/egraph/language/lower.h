#pragma once
#include <optional>
#include <string>
#include <vector>

#include "egraph/language/ast.h"
#include "egraph/language/parse.h"
#include "egraph/language/types.h"
#include "luminal/egraph.h"

/// From syntax to the engine's queries and actions: names are resolved, sorts inferred, expressions
/// flattened.
namespace luminal::egraph::language {

/// What lowering needs of its surroundings.
struct LoweringContext {
  const Scope& scope;
  EGraph& graph;
  ExprPool& exprs;
  SymbolTable& symbols;
  /// The number of an unstable-fn target with its first arguments' sorts: what the primitive gets for the
  /// name.
  std::function<int64_t(const FunctionTarget&, std::vector<const SortInfo*>)> make_target;
  bool own_terms = false;  ///< every term gets an id of its own, so that proofs can name it
  bool seminaive = true;   ///< false: every rule may read the database in its actions, and matches it all
};

/// An expression as actions that compute it, and its value among their variables.
struct LoweredExpr {
  ActionBlock block;
  Term value;
  const SortInfo* sort = nullptr;
};

/// The rule for the engine; `body` and `head` types agree, every variable is bound and grounded.
/// Errors: ProgramError for an unknown name, sorts that clash or cannot be inferred, a variable that is
/// unbound, ungrounded or shadows another name, an action that is not allowed where it stands.
/// `fresh` is the constructor whose rows are what `unstable-fresh!` makes in this rule.
[[nodiscard]] RuleSpec lower_rule(const LoweringContext& context, const RuleSyntax& rule,
                                  const FunctionInfo* fresh = nullptr);

/// Sorts of the variables and globals of a rule's conditions, in order of appearance.
[[nodiscard]] std::vector<const SortInfo*> variable_sorts(const LoweringContext& context,
                                                          std::span<const Fact> facts);

/// The sort of each fact, of both sides where it is an equality.
[[nodiscard]] std::vector<const SortInfo*> fact_sorts(const LoweringContext& context,
                                                      std::span<const Fact> facts);

/// A query as `check` and `:until` ask it: subsumed rows match too.
[[nodiscard]] Query lower_query(const LoweringContext& context, std::span<const Fact> facts,
                                const Span& span);

/// A top-level action. `let` is not among them: it declares a function.
[[nodiscard]] ActionBlock lower_action(const LoweringContext& context, const ActionSyntax& action);

/// A top-level expression; `expected` may name the sort it must have.
[[nodiscard]] LoweredExpr lower_expr(const LoweringContext& context, ExprId expr,
                                     const SortInfo* expected = nullptr);

/// A `:merge` expression over `old` and `new`, both of the sort `output`.
[[nodiscard]] Merge lower_merge(const LoweringContext& context, ExprId expr, const SortInfo* output);

/// The engine's constant for a literal.
[[nodiscard]] Term literal_term(EGraph& graph, const Literal& literal);
[[nodiscard]] SortId literal_sort(const Literal& literal);

}  // namespace luminal::egraph::language
