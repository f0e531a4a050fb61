#pragma once
#include <fmt/format.h>

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "egraph/language/ast.h"
#include "egraph/language/parse.h"

namespace luminal::egraph::language {

/// One s-expression of a tree.
class Sexp {
 public:
  Sexp(const Sexps& tree, uint32_t index) : tree_(&tree), index_(index) {}
  [[nodiscard]] uint32_t index() const { return index_; }
  [[nodiscard]] const SexpNode& node() const { return tree_->nodes[index_]; }
  [[nodiscard]] const Span& span() const { return node().span; }
  [[nodiscard]] bool is_list() const { return node().kind == SexpNode::Kind::List; }
  [[nodiscard]] bool is_atom() const { return node().kind == SexpNode::Kind::Atom; }
  [[nodiscard]] bool is_literal() const { return node().kind == SexpNode::Kind::Constant; }
  [[nodiscard]] bool is_option() const { return is_atom() && node().atom.text().starts_with(':'); }
  [[nodiscard]] bool is_atom(std::string_view text) const { return is_atom() && node().atom.text() == text; }
  [[nodiscard]] const Literal& literal() const { return tree_->literals[node().literal]; }
  [[nodiscard]] std::vector<Sexp> items() const;
  [[nodiscard]] const Sexps& tree() const { return *tree_; }

 private:
  const Sexps* tree_;
  uint32_t index_;
};

/// `:name value...`, up to the next option.
struct Option {
  Sexp key;
  std::span<const Sexp> values;
  [[nodiscard]] const std::string& name() const { return key.node().atom.text(); }
};

/// Turns s-expressions into syntax trees. One parser reads one source.
class Parser {
 public:
  Parser(const Sexps& tree, Program& out, SymbolTable& symbols, FreshNames& fresh)
      : tree_(tree), out_(out), symbols_(symbols), fresh_(fresh) {}
  /// `callback` is called at each step; what it throws ends the parsing.
  void parse_all(const std::function<void()>& callback);
  /// Names of all commands that are not actions.
  [[nodiscard]] static std::vector<std::string_view> command_names();

 private:
  using List = std::span<const Sexp>;
  using CommandParser = Command (Parser::*)(const Sexp& whole, List args);
  struct Entry {
    CommandParser parse;
    const char* usage;
  };
  static const std::unordered_map<std::string_view, Entry>& commands();

  void poll() const;
  Command command(const Sexp& sexp);
  Command sort(const Sexp& whole, List args);
  Command datatype(const Sexp& whole, List args);
  Command datatypes(const Sexp& whole, List args);
  Command function(const Sexp& whole, List args);
  Command constructor(const Sexp& whole, List args);
  Command relation(const Sexp& whole, List args);
  Command ruleset(const Sexp& whole, List args);
  Command combined_ruleset(const Sexp& whole, List args);
  Command rule(const Sexp& whole, List args);
  Command rewrite(const Sexp& whole, List args);
  Command birewrite(const Sexp& whole, List args);
  Command run(const Sexp& whole, List args);
  Command run_schedule(const Sexp& whole, List args);
  Command extract(const Sexp& whole, List args);
  Command multi_extract(const Sexp& whole, List args);
  Command keep_best(const Sexp& whole, List args);
  Command check(const Sexp& whole, List args);
  Command prove(const Sexp& whole, List args);
  Command prove_exists(const Sexp& whole, List args);
  Command push(const Sexp& whole, List args);
  Command pop(const Sexp& whole, List args);
  Command print_stats(const Sexp& whole, List args);
  Command print_function(const Sexp& whole, List args);
  Command print_size(const Sexp& whole, List args);
  Command input(const Sexp& whole, List args);
  Command output(const Sexp& whole, List args);
  Command include(const Sexp& whole, List args);
  Command fail(const Sexp& whole, List args);
  Command for_each(const Sexp& whole, List args);
  Command with_ruleset(const Sexp& whole, List args);
  Command with_dynamic_cost(const Sexp& whole, List args);
  Command cost_table(const FunctionSyntax& constructor);

  Command rewrite_command(const Sexp& whole, List args, bool both_ways);
  void rule_option(const Sexp& whole, const Option& option, RuleSyntax& rule);
  FunctionSyntax variant(const Sexp& sexp, Symbol sort);
  SortSyntax container_sort(const Sexp& whole, List args);
  DatatypeSyntax recursive_datatype(const Sexp& sexp);
  FunctionSyntax signature(const Sexp& whole, List args, FunctionSyntax::Kind kind);
  ScheduleSyntax schedule(const Sexp& sexp, int depth);
  std::vector<ScheduleSyntax> schedules(List items, int depth);
  ScheduleSyntax let_scheduler(const Sexp& whole, List args);
  ScheduleSyntax run_step(const Sexp& whole, List args);
  std::optional<std::vector<Fact>> until(const Sexp& whole, List options);
  Fact fact(const Sexp& sexp);
  std::vector<Fact> facts(List items);
  std::vector<ActionSyntax> actions(List items);
  ActionSyntax action(const Sexp& sexp);
  void call_target(const Sexp& sexp, ActionSyntax& out);
  ExprId expr(const Sexp& sexp);
  std::vector<ExprId> exprs(List items);
  ExprId fresh_id(const Sexp& sexp);
  ExprId leaf_expr(const Sexp& sexp);

  std::vector<Option> options(List items) const;
  Symbol name(const Sexp& sexp, std::string_view what) const;
  Symbol new_name(const Sexp& sexp, std::string_view what) const;
  std::vector<Symbol> names(List items, std::string_view what) const;
  std::string text(const Sexp& sexp, std::string_view what) const;
  int64_t count(const Sexp& sexp, std::string_view what) const;
  std::vector<Sexp> list(const Sexp& sexp, std::string_view what) const;
  [[noreturn]] void wrong_use(const Sexp& whole) const;
  /// Takes `:cost <n>` or `:unextractable`, as constructors have them; false for any other option.
  bool constructor_option(const Option& option, std::optional<int64_t>& cost, bool& unextractable) const;
  [[noreturn]] void unknown_option(const Option& option, std::initializer_list<std::string> known) const;
  [[nodiscard]] Command start(Command::Kind kind, const Sexp& whole) const;

  const Sexps& tree_;
  Program& out_;
  SymbolTable& symbols_;
  FreshNames& fresh_;
  int command_depth_ = 0;
  const std::function<void()>* poll_ = nullptr;
};

}  // namespace luminal::egraph::language
