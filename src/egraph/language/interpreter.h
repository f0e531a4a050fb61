#pragma once
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "egraph/language/ast.h"
#include "egraph/language/extraction.h"
#include "egraph/language/library.h"
#include "egraph/language/lower.h"
#include "egraph/language/parse.h"
#include "egraph/language/types.h"
#include "luminal/egglog.h"

namespace luminal::egraph::language {

/// Runs the commands of programs against one e-graph.
class Interpreter {
 public:
  explicit Interpreter(EgglogOptions options);
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  std::string run(std::string_view text, std::string file_name);
  void set_budget(const Budget& budget);
  SortId host_sort(ContainerSort sort, bool is_container);
  void host_primitive(PrimitiveSpec spec) { library_.add_host_primitive(scope_, std::move(spec)); }
  [[nodiscard]] EGraph& graph() { return graph_; }
  [[nodiscard]] const Report& report() const { return report_; }
  [[nodiscard]] const Scope& scope() const { return scope_; }

 private:
  struct Progress {
    bool updated = false;  // the database changed
    bool can_stop = true;  // nothing changed, or an :until held
  };
  struct RulesetTime {
    double search_s = 0, rebuild_s = 0;
  };
  /// What `push` saves beside the engine's own snapshot.
  struct Saved {
    Scope scope;
    std::unordered_set<std::string> rule_names;
    std::unordered_map<uint32_t, std::string> shown_rules;
  };

  [[nodiscard]] LoweringContext lowering();
  void emit(std::string text);
  void count_output();
  /// Errors: as `command`; BudgetError where a limit ends the parsing.
  [[nodiscard]] Program parsed(const Source& source);
  void run_source(const Source& source);
  void command(const Command& command);
  void dispatch(const Command& command);
  void push(int64_t count);
  [[nodiscard]] size_t saved_bytes() const;
  void pop(const Command& command);
  [[noreturn]] void stopped(StopReason reason, const Span& span) const;
  void fail(const Command& command);

  // declarations.cpp
  void take_name(Symbol name, const Span& span);
  void check_name_free(Symbol name, const Span& span) const;
  void sort(const SortSyntax& syntax);
  void datatypes(const Command& command);
  void function(const FunctionSyntax& syntax);
  void ruleset(Symbol name, const Span& span);
  void combined_ruleset(const Command& command);
  void rule(const RuleSyntax& syntax, std::string name);
  const FunctionInfo* fresh_constructor(const RuleSyntax& syntax);
  void rewrite(const RewriteSyntax& syntax);
  void rewrite_rule(const RewriteSyntax& syntax, ExprId left, ExprId right, std::string name);
  void global(const ActionSyntax& syntax);

  // interpreter.cpp
  void action(const ActionSyntax& syntax);
  const std::vector<Value>& execute(const ActionBlock& block, const Span& span);
  struct Evaluated {
    Value value = 0;
    const SortInfo* sort = nullptr;
  };
  Evaluated evaluate(ExprId expr, const SortInfo* expected = nullptr);
  void check(const Command& command);
  void run_schedule(const ScheduleSyntax& schedule);
  struct Prepared;
  Prepared prepare(const ScheduleSyntax& schedule);
  Progress step(const Prepared& schedule);
  Progress run_ruleset(const Prepared& schedule);
  const RulesetInfo& find_ruleset(Symbol name, const Span& span) const;

  // output.cpp
  [[nodiscard]] TermExtractor extractor(std::span<const SortInfo* const> roots) const;
  void extract(const Command& command);
  void multi_extract(const Command& command);
  void keep_best(const Command& command);
  void print_function(const Command& command);
  void print_size(const Command& command);
  void print_stats(const Command& command);
  [[nodiscard]] std::string stats_json() const;
  struct Wanted {
    const Evaluated& what;
    ExprId expr;
    const Span& span;
  };
  void append_best(GrowingText& out, TermExtractor& terms, const Wanted& wanted);
  void append_variants(GrowingText& out, TermExtractor& terms, const Wanted& wanted, int64_t count,
                       std::string_view indent);
  void append_row(GrowingText& out, TermExtractor& terms, const FunctionInfo& info,
                  std::span<const Value> args, Value output, bool csv);
  [[nodiscard]] Value representative(const Evaluated& what) const;
  bool emit_relation(ExprId expr);
  int64_t evaluate_count(ExprId expr);
  const FunctionInfo* visible_function(Symbol name, const Span& span) const;

  // files.cpp
  void input(const Command& command);
  void output(const Command& command);
  void include(const Command& command);
  [[nodiscard]] std::filesystem::path fact_file(const std::string& name) const;

  // prove.cpp
  void prove(const Command& command);
  void prove_exists(const Command& command);
  void require_proofs(const Span& span) const;
  std::string proof_of(const Query& query, std::span<const Fact> facts, const Span& span);
  void append_origin(GrowingText& out, Value id) const;
  void append_proof(GrowingText& out, const Fact& fact, Value left, Value right) const;
  void append_chain(GrowingText& out, const Explanation& explanation, int depth) const;
  /// Is this the text of the term, which may be much longer?
  [[nodiscard]] bool is_text_of(Value id, const std::string& text) const;
  [[nodiscard]] Value matched_term(const ExplanationStep& step, Value id) const;
  [[nodiscard]] std::optional<Value> made_term(ExprId expr);
  [[nodiscard]] bool is_global(ExprId expr) const;
  [[nodiscard]] std::string rule_name(RuleId rule) const;
  std::optional<Value> original_term(ExprId expr, const SortInfo* sort);
  /// The arguments of a call of a constructor, canonical.
  std::vector<Value> evaluate_args(ExprId call, const FunctionInfo& constructor);
  [[nodiscard]] std::optional<TermOrigin> origin_of(Value id) const;
  [[nodiscard]] bool same_args(const FunctionInfo& function, const TermOrigin& origin,
                               std::span<const Value> args) const;

  EgglogOptions options_;
  SymbolTable symbols_;
  EGraph graph_;
  Library library_;
  FreshNames fresh_;
  Scope scope_;
  std::vector<Saved> saved_;
  std::unordered_set<std::string> rule_names_;             // of the engine: unique over all rulesets
  std::unordered_map<uint32_t, std::string> shown_rules_;  // what reports call them
  std::deque<Source> sources_;
  ExprPool* exprs_ = nullptr;  // of the source that runs
  std::string output_;
  size_t counted_output_ = 0;  // of the bytes that the engine counts, those of the output
  std::vector<Value> values_;
  Report report_;
  std::vector<std::pair<Symbol, size_t>> visible_schedulers_;  // while a schedule is prepared: their places
  std::vector<std::optional<BackOff>> schedulers_;             // of the schedule that runs
  std::map<std::string, RulesetTime> ruleset_times_;
  int include_depth_ = 0;
};

}  // namespace luminal::egraph::language
