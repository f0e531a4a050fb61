#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "egraph/language/sexp.h"
#include "egraph/language/source.h"
#include "egraph/language/symbol.h"

/// The syntax of a program, before names and types are known.
///
/// Expressions live in one flat pool, children before parents, and the subtree of a node is a contiguous
/// range that ends with it. Passes over an expression are plain loops over that range: nesting never costs
/// stack.
namespace luminal::egraph::language {

using ExprId = uint32_t;

struct ExprNode {
  enum class Kind : uint8_t { Constant, Variable, Call, Fresh };
  Kind kind = Kind::Constant;
  ExprId first = 0;      ///< first node of the subtree
  uint32_t literal = 0;  ///< of a literal: its index; Fresh: index in `ExprPool::fresh`
  uint32_t args = 0;     ///< of a call: where its arguments start in `ExprPool::args`
  uint32_t arg_count = 0;
  Symbol name;  ///< of a variable or call
  Span span;
};

/// `(unstable-fresh! Sort [:cost n] [:unextractable])`, an action's new id for each match.
struct FreshSyntax {
  Symbol sort;
  Span sort_span;
  std::optional<int64_t> cost;
  bool unextractable = false;
};

struct ExprPool {
  std::vector<ExprNode> nodes;
  std::vector<ExprId> args;
  std::vector<Literal> literals;
  std::vector<FreshSyntax> fresh;

  ExprId add_variable(Symbol name, const Span& span);
  ExprId add_literal(Literal literal, const Span& span);
  ExprId add_fresh(FreshSyntax syntax, const Span& span);
  /// The arguments must be the last expressions added, in order.
  ExprId add_call(Symbol name, std::span<const ExprId> arguments, ExprId first, const Span& span);

  [[nodiscard]] const ExprNode& operator[](ExprId id) const { return nodes[id]; }
  [[nodiscard]] std::span<const ExprId> args_of(ExprId id) const {
    return std::span(args).subspan(nodes[id].args, nodes[id].arg_count);
  }
  [[nodiscard]] const Literal& literal_of(ExprId id) const { return literals[nodes[id].literal]; }
};

/// A condition: that an expression has a value, or that two are equal.
struct Fact {
  bool is_equality = false;
  Span span;
  ExprId left = 0;
  ExprId right = 0;  ///< of an equality
};

struct ActionSyntax {
  enum class Kind : uint8_t { Let, Set, SetCost, Delete, Subsume, Union, Panic, Expr };
  Kind kind = Kind::Expr;
  Span span;
  Symbol name;               ///< Let: the variable; Set, SetCost, Delete, Subsume: the function
  std::vector<ExprId> args;  ///< Set, SetCost, Delete, Subsume
  ExprId value = 0;          ///< Let, Set, SetCost, Expr: the value; Union: the left side
  ExprId right = 0;          ///< Union
  std::string message;       ///< Panic
};

struct ScheduleSyntax {
  enum class Kind : uint8_t { Run, Seq, Repeat, Saturate, LetScheduler };
  Kind kind = Kind::Run;
  Span span;
  Symbol ruleset;
  Symbol scheduler;  ///< LetScheduler: its name; Run: which decides, or none
  int64_t count = 0;
  int64_t match_limit = 1000, ban_length = 5;  ///< LetScheduler
  std::optional<std::vector<Fact>> until;
  std::vector<ScheduleSyntax> body;
};

enum class EvalMode : uint8_t { Seminaive, Naive, UnsafeSeminaive };

struct RuleSyntax {
  Span span;
  std::string name;
  Symbol ruleset;
  std::vector<Fact> body;
  std::vector<ActionSyntax> head;
  EvalMode mode = EvalMode::Seminaive;
  bool include_subsumed = false;
};

struct RewriteSyntax {
  Span span;
  std::string name;
  Symbol ruleset;
  ExprId left = 0;
  ExprId right = 0;
  std::vector<Fact> conditions;
  bool subsume = false;
  bool both_ways = false;
};

struct FunctionSyntax {
  enum class Kind : uint8_t { Constructor, Function, Relation };
  Kind kind = Kind::Constructor;
  Span span;
  Symbol name;
  std::vector<Symbol> inputs;
  std::vector<Span> input_spans;
  Symbol output;  ///< empty for a relation
  Span output_span;
  std::optional<ExprId> merge;
  std::optional<int64_t> cost;
  bool unextractable = false;
  bool hidden = false;
};

/// `(sort Name)`, or `(sort Name (Presort arg ...))` for containers and function values.
struct SortSyntax {
  Span span;
  Symbol name;
  Symbol presort;
  std::vector<ExprId> args;
  Symbol union_table;  ///< of a sort without elements, or none
};

/// A member of `datatype` or `datatype*`: a sort with constructors, or a container sort.
struct DatatypeSyntax {
  SortSyntax sort;
  std::vector<FunctionSyntax> variants;
};

struct Command {
  enum class Kind : uint8_t {
    Sort,
    Datatypes,
    Function,
    Ruleset,
    CombinedRuleset,
    Rule,
    Rewrite,
    Action,
    RunSchedule,
    Check,
    Prove,
    ProveExists,
    Extract,
    MultiExtract,
    KeepBest,
    Push,
    Pop,
    PrintStats,
    PrintFunction,
    PrintSize,
    Input,
    Output,
    Include,
    Fail,
    Sequence,
  };
  Kind kind = Kind::Action;
  Span span;
  Symbol name;      ///< Ruleset, ProveExists, PrintFunction, PrintSize (may be empty), Input
  SortSyntax sort;  ///< Sort
  std::vector<DatatypeSyntax> datatypes;  ///< Datatypes
  FunctionSyntax function;                ///< Function
  std::vector<Symbol> names;              ///< CombinedRuleset: its parts; KeepBest: sorts and functions
  RuleSyntax rule;                        ///< Rule
  RewriteSyntax rewrite;                  ///< Rewrite
  ActionSyntax action;                    ///< Action
  ScheduleSyntax schedule;                ///< RunSchedule
  std::vector<Fact> facts;                ///< Check, Prove
  std::vector<ExprId> exprs;              ///< Extract (value, variants), MultiExtract, Output
  int64_t count = 0;                      ///< Push, Pop; PrintFunction: rows, -1 for all
  std::string file;           ///< Input, Output, Include; PrintFunction, PrintStats: "" for the terminal
  bool csv = false;           ///< PrintFunction
  std::vector<Command> body;  ///< Fail: one command; Sequence: what a sugar stands for
};

/// A parsed source: its commands, the expressions in them.
struct Program {
  ExprPool exprs;
  std::vector<Command> commands;
};

/// The function that holds the costs which `set-cost` gives to rows of a constructor.
[[nodiscard]] inline std::string cost_table_name(const std::string& constructor) {
  return "cost_table_" + constructor;
}

/// Texts as the language writes them, on one line where the reference implementation uses one.
[[nodiscard]] std::string to_text(const ExprPool& exprs, ExprId expr);
[[nodiscard]] std::string to_text(const ExprPool& exprs, const Fact& fact);
[[nodiscard]] std::string to_text(const ExprPool& exprs, const ActionSyntax& action);
[[nodiscard]] std::string to_text(const ExprPool& exprs, const RuleSyntax& rule);
[[nodiscard]] std::string to_text(const ExprPool& exprs, const RewriteSyntax& rewrite);

}  // namespace luminal::egraph::language
