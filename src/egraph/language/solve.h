#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "egraph/language/types.h"

namespace luminal::egraph::language {

/// What a call may mean: a table, or one overload of a primitive (with its target, for unstable-fn).
struct Candidate {
  const FunctionInfo* function = nullptr;
  const Overload* primitive = nullptr;
  FunctionTarget target;
};

/// Infers sorts: unknowns are the terms of a rule or command, constraints are calls, each of which must be
/// read as exactly one of its candidates, and equalities.
///
/// A call narrows its candidates whenever a sort around it becomes known; when those that are left agree on a
/// sort it becomes known in turn. The work is linear in calls times candidates times the few wake-ups.
class TypeSolver {
 public:
  using TermId = uint32_t;
  using CallId = uint32_t;

  explicit TypeSolver(const Scope& scope) : scope_(scope) {}

  /// A term of yet unknown sort; `shown` is its text in messages.
  TermId add_term(const Span& span, std::string shown, const SortInfo* sort = nullptr);
  void require(TermId term, const SortInfo* sort);
  void require_equal(TermId left, TermId right, const Span& span);
  /// A call of `name`; `target` is the name that a first argument spells, if that is a string literal.
  CallId add_call(Symbol name, std::vector<TermId> args, TermId output, const Span& span, Context context,
                  Symbol target = {});
  /// A table whose output does not matter (`set` passes the value as output, `delete` has none).
  void add_row(const FunctionInfo* function, std::span<const TermId> args, const Span& span);

  /// Errors: ProgramError naming the sorts that clash, the candidates that were tried, or the term whose sort
  /// nothing determines.
  void solve(const std::function<void()>& poll);

  [[nodiscard]] const SortInfo* sort_of(TermId term) const { return terms_[term].sort; }
  /// The reading of a call, after `solve`.
  [[nodiscard]] const Candidate& meaning(CallId call) const { return calls_[call].candidates.front(); }

 private:
  struct TermState {
    const SortInfo* sort = nullptr;
    Span span;
    std::string shown;
    std::vector<uint32_t> watchers;
  };
  struct Call {
    Symbol name;
    Symbol target;  ///< of unstable-fn, if it is a literal
    Span span;
    std::vector<TermId> args;
    TermId output = 0;
    bool is_equality = false;
    std::vector<Candidate> candidates;
    bool queued = false;
  };

  void assign(TermId term, const SortInfo* sort);
  void wake(uint32_t call);
  void narrow(Call& call);
  void narrow_equality(Call& call);
  void add_function_makers(Call& call, const Overload* maker, Symbol target);
  [[nodiscard]] bool fits(const Call& call, const Candidate& candidate) const;
  [[nodiscard]] bool target_fits(const Overload* maker, const FunctionTarget& target, size_t partial) const;
  /// Sort a candidate gives to argument `i` (i == args: the output); null = unknown.
  [[nodiscard]] const SortInfo* expected(const Call& call, const Candidate& candidate, size_t i) const;
  [[nodiscard]] TermId term_at(const Call& call, size_t i) const {
    return i == call.args.size() ? call.output : call.args[i];
  }
  [[nodiscard]] std::string signature(const Candidate& candidate) const;
  [[nodiscard]] std::string target_signatures(const Call& call) const;
  [[nodiscard]] std::string actual(const Call& call) const;
  [[noreturn]] void fail_no_candidate(const Call& call, std::span<const Candidate> tried) const;
  [[noreturn]] void fail_unknown(Symbol name, const Span& span) const;

  const Scope& scope_;
  std::vector<TermState> terms_;
  std::vector<Call> calls_;
  std::deque<uint32_t> queue_;
};

}  // namespace luminal::egraph::language
