#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "egraph/core/state.h"
#include "egraph/language/lower.h"
#include "egraph/language/solve.h"

namespace luminal::egraph::language {

// A place in an expression before numbering: a variable of the rule, or a literal.
struct Argument {
  bool is_literal = false;
  uint32_t index = 0;  // of the variable, or of the literal in the pool
  TypeSolver::TermId type = 0;
};

struct VariableState {
  Symbol name;
  TypeSolver::TermId type = 0;
  Span span;
  bool in_query = false;   // else an action binds it
  bool is_result = false;  // of a call: has no name of its own
};

struct CallAtom {
  TypeSolver::CallId call = 0;
  std::vector<Argument> args;
  Argument output;
  Span span;
};

struct PendingAction {
  ActionSyntax::Kind kind = ActionSyntax::Kind::Expr;
  bool is_call = false;  // a call that an expression needs: `call` decides what runs
  TypeSolver::CallId call = 0;
  const FunctionInfo* function = nullptr;
  std::vector<Argument> args;
  Argument value, right;
  std::string message;
  Span span;
};

/// The work of lower.h on one rule or command: facts and actions are added, then sorts are solved, then the
/// engine's query and actions are built.
class Lowering {
 public:
  Lowering(const LoweringContext& context, Context query_context, Context action_context, bool has_query)
      : context_(context),
        exprs_(context.exprs),
        solver_(context.scope),
        query_context_(query_context),
        action_context_(action_context),
        has_query_(has_query) {}

  void add_facts(std::span<const Fact> facts);
  void add_action(const ActionSyntax& action);
  Argument add_expr(ExprId expr);  // in an action
  /// Of each fact that was added its term, or the left one.
  [[nodiscard]] std::span<const Argument> facts() const { return facts_; }
  /// Variables and globals of the facts, which were added, in order of appearance.
  [[nodiscard]] std::vector<Argument> variables_of(std::span<const Fact> facts) const;
  void set_fresh(const FunctionInfo* constructor, std::vector<Argument> arguments) {
    fresh_ = constructor;
    fresh_args_ = std::move(arguments);
  }
  Argument bind(Symbol name, const SortInfo* sort);
  void require(const Argument& argument, const SortInfo* sort) { solver_.require(argument.type, sort); }
  void solve() {
    solver_.solve([this] { poll(); });
  }
  void forbid_lookups() const;
  /// Whether facts apply function values that may be tables: what these give changes with later rows.
  [[nodiscard]] bool facts_look_up() const;
  void let_facts_read() { query_context_ = Context::Read; }

  // After `solve`:
  [[nodiscard]] Query build_query(const Span& span);
  [[nodiscard]] ActionBlock build_actions();
  [[nodiscard]] Term term(const Argument& argument) const;
  [[nodiscard]] const SortInfo* sort_of(const Argument& argument) const {
    return solver_.sort_of(argument.type);
  }

 private:
  [[nodiscard]] bool may_be_table(const SortInfo* sort) const;
  /// Programs may have commands of millions of calls.
  void poll() const { context_.graph.state().poll(); }
  Argument query_expr(ExprId expr);
  Argument literal(ExprId node);
  Argument fresh_id(const ExprNode& node);
  Argument new_result(ExprId node, bool in_query);
  Argument query_variable(const ExprNode& node);
  Argument action_variable(const ExprNode& node) const;
  Argument global(const FunctionInfo* info, const Span& span);
  std::vector<Argument> arguments(ExprId call, ExprId first, std::span<const Argument> results) const;
  TypeSolver::CallId type_call(ExprId node, std::span<const Argument> args, const Argument& output,
                               Context where);
  void check_shadowing(Symbol name, const Span& span) const;
  const FunctionInfo* table(Symbol name, const Span& span, std::string_view action) const;
  void add_row_action(const ActionSyntax& action);
  void add_union(const ActionSyntax& action);
  void add_cost(const ActionSyntax& action);
  void finish_unions() const;

  uint32_t find(uint32_t variable);
  void merge_variables(Query& query);
  bool merge_duplicate_rows(Query& query);
  bool unify_relation_rows(Query& query);
  void unify(const Term& left, const Term& right, Query& query);
  void check_grounded(const Span& span);
  void number_variables();
  [[nodiscard]] Term raw_term(const Argument& argument);
  Action build_call(const PendingAction& pending) const;
  [[nodiscard]] PrimitiveId primitive_of(const CallAtom& call, const Candidate& meaning, Context where,
                                         std::vector<Term>& args) const;

  const LoweringContext& context_;
  ExprPool& exprs_;
  TypeSolver solver_;
  Context query_context_, action_context_;
  bool has_query_;
  const FunctionInfo* fresh_ = nullptr;  // of unstable-fresh!, or null where that cannot stand
  std::vector<Argument> fresh_args_;
  int64_t fresh_count_ = 0;
  std::vector<VariableState> variables_;
  std::unordered_map<Symbol, uint32_t> names_;
  std::unordered_map<Symbol, Argument> lets_;
  std::map<std::string, Argument> globals_;
  std::vector<CallAtom> atoms_;
  std::vector<Argument> facts_;
  std::vector<std::pair<const FunctionInfo*, Argument>> global_atoms_;
  std::vector<std::pair<Argument, Argument>> equalities_;
  std::vector<PendingAction> actions_;
  // Of build_query: what each variable stands for.
  std::vector<uint32_t> parent_;
  std::vector<std::optional<Term>> constant_;
  std::vector<uint32_t> number_;
  uint32_t query_count_ = 0;
};

}  // namespace luminal::egraph::language
