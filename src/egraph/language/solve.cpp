#include "egraph/language/solve.h"

#include <algorithm>

namespace luminal::egraph::language {

TypeSolver::TermId TypeSolver::add_term(const Span& span, std::string shown, const SortInfo* sort) {
  terms_.push_back({.sort = sort, .span = span, .shown = std::move(shown), .watchers = {}});
  return static_cast<TermId>(terms_.size() - 1);
}

void TypeSolver::require(TermId term, const SortInfo* sort) { assign(term, sort); }

void TypeSolver::require_equal(TermId left, TermId right, const Span& span) {
  const auto index = static_cast<uint32_t>(calls_.size());
  calls_.push_back({.name = {},
                    .target = {},
                    .span = span,
                    .args = {left},
                    .output = right,
                    .is_equality = true,
                    .candidates = {}});
  for (const TermId term : {left, right}) terms_[term].watchers.push_back(index);
  wake(index);
}

TypeSolver::CallId TypeSolver::add_call(Symbol name, std::vector<TermId> args, TermId output,
                                        const Span& span, Context context, Symbol target) {
  Call call{.name = name,
            .target = target,
            .span = span,
            .args = std::move(args),
            .output = output,
            .candidates = {}};
  const FunctionInfo* function = scope_.find_function(name);
  if (function) call.candidates.push_back({.function = function, .primitive = nullptr, .target = {}});
  const auto* overloads = scope_.find_primitive(name);
  if (overloads) {
    for (const Overload* overload : *overloads) {
      if ((overload->contexts & mask_of(context)) == 0) continue;
      if (overload->shape == Overload::Shape::FunctionMaker)
        add_function_makers(call, overload, target);
      else
        call.candidates.push_back({.function = nullptr, .primitive = overload, .target = {}});
    }
  }
  if (call.candidates.empty()) {
    if (!function && !overloads) fail_unknown(name, span);
    if (name.text() == "unstable-fn") fail_no_candidate(call, {});
    fail_at(span, "'{}' reads or writes the database, which {}", name.text(),
            context == Context::Pure || context == Context::Read
                ? "a condition must not do"
                : "the actions of a rule may only do if the rule is :naive");
  }
  const std::vector<Candidate> tried = call.candidates;
  const size_t arg_count = call.args.size();
  std::erase_if(call.candidates, [&](const Candidate& c) {
    return c.function ? c.function->inputs.size() != arg_count : !c.primitive->takes(arg_count);
  });
  if (call.candidates.empty()) fail_no_candidate(call, tried);
  const auto index = static_cast<CallId>(calls_.size());
  for (const TermId term : call.args) terms_[term].watchers.push_back(index);
  terms_[output].watchers.push_back(index);
  calls_.push_back(std::move(call));
  wake(index);
  return index;
}

// One candidate for each reading of the target: a table, or the overloads of a primitive that could be called
// with the partial arguments followed by the inputs of the function sort.
void TypeSolver::add_function_makers(Call& call, const Overload* maker, Symbol target) {
  if (!target || call.args.empty())
    fail_at(call.span,
            "unstable-fn takes the name of a function as a string literal: (unstable-fn \"name\" <expr>*)");
  const size_t partial = call.args.size() - 1;
  const auto try_target = [&](const FunctionTarget& candidate) {
    if (target_fits(maker, candidate, partial))
      call.candidates.push_back({.function = nullptr, .primitive = maker, .target = candidate});
  };
  const FunctionInfo* function = scope_.find_function(target);
  const auto* overloads = scope_.find_primitive(target);
  if (!function && !overloads) fail_unknown(target, terms_[call.args[0]].span);
  if (function)
    try_target({.function = function});
  else
    for (const Overload* overload : *overloads) try_target({.function = nullptr, .primitive = overload});
}

bool TypeSolver::target_fits(const Overload* maker, const FunctionTarget& target, size_t partial) const {
  const SortInfo* sort = maker->output;
  const auto inputs = sort->inputs();
  if (target.function) {
    const FunctionInfo& f = *target.function;
    return f.inputs.size() == partial + inputs.size() && f.output == sort->output() &&
           std::equal(inputs.begin(), inputs.end(), f.inputs.begin() + static_cast<ptrdiff_t>(partial));
  }
  const Overload& p = *target.primitive;
  if (p.shape == Overload::Shape::FunctionMaker || !p.takes(partial + inputs.size())) return false;
  if (p.output && p.output != sort->output()) return false;
  if (p.shape == Overload::Shape::AllEqual) {
    return std::all_of(inputs.begin(), inputs.end(), [&](auto* s) { return s == inputs[0]; }) &&
           (p.output || inputs.empty() || sort->output() == inputs[0]);
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    if (p.input(partial + i) != inputs[i]) return false;
  return true;
}

void TypeSolver::add_row(const FunctionInfo* function, std::span<const TermId> args, const Span& span) {
  if (args.size() != function->inputs.size())
    fail_at(span, "'{}' takes {} arguments, but {} are given: {}", function->name.text(),
            function->inputs.size(), args.size(),
            signature({.function = function, .primitive = nullptr, .target = {}}));
  for (size_t i = 0; i < args.size(); ++i) assign(args[i], function->inputs[i]);
}

void TypeSolver::assign(TermId term, const SortInfo* sort) {
  TermState& state = terms_[term];
  if (state.sort == sort) return;
  if (state.sort)
    fail_at(state.span, "'{}' has sort {}, but {} is expected here", state.shown, state.sort->name.text(),
            sort->name.text());
  state.sort = sort;
  for (const uint32_t call : state.watchers) wake(call);
}

void TypeSolver::wake(uint32_t call) {
  if (calls_[call].queued) return;
  calls_[call].queued = true;
  queue_.push_back(call);
}

const SortInfo* TypeSolver::expected(const Call& call, const Candidate& candidate, size_t i) const {
  const bool is_output = i == call.args.size();
  if (candidate.function) return is_output ? candidate.function->output : candidate.function->inputs[i];
  const Overload& p = *candidate.primitive;
  if (p.shape == Overload::Shape::FunctionMaker) {
    if (is_output) return p.output;
    if (i == 0) return p.inputs[0];
    if (candidate.target.function) return candidate.target.function->inputs[i - 1];
    const Overload& target = *candidate.target.primitive;
    if (target.shape != Overload::Shape::AllEqual) return target.input(i - 1);
    const auto inputs = p.output->inputs();
    return inputs.empty() ? nullptr : inputs[0];
  }
  if (is_output && p.output) return p.output;
  if (p.shape == Overload::Shape::AllEqual) {
    const size_t compared = call.args.size() + (p.output ? 0 : 1);
    for (size_t k = 0; k < compared; ++k)
      if (const SortInfo* sort = terms_[term_at(call, k)].sort) return sort;
    return nullptr;
  }
  return p.input(i);
}

bool TypeSolver::fits(const Call& call, const Candidate& candidate) const {
  for (size_t i = 0; i <= call.args.size(); ++i) {
    const SortInfo* have = terms_[term_at(call, i)].sort;
    const SortInfo* want = have ? expected(call, candidate, i) : nullptr;
    if (have && want && have != want) return false;
  }
  return true;
}

void TypeSolver::narrow_equality(Call& call) {
  const SortInfo* left = terms_[call.args[0]].sort;
  const SortInfo* right = terms_[call.output].sort;
  if (left && right && left != right)
    fail_at(call.span, "the two sides have different sorts: '{}' is {}, '{}' is {}",
            terms_[call.args[0]].shown, left->name.text(), terms_[call.output].shown, right->name.text());
  if (left)
    assign(call.output, left);
  else if (right)
    assign(call.args[0], right);
}

void TypeSolver::narrow(Call& call) {
  if (call.is_equality) return narrow_equality(call);
  std::vector<Candidate> left;
  for (const Candidate& candidate : call.candidates)
    if (fits(call, candidate)) left.push_back(candidate);
  if (left.empty()) fail_no_candidate(call, call.candidates);
  call.candidates = std::move(left);
  for (size_t i = 0; i <= call.args.size(); ++i) {
    const SortInfo* agreed = expected(call, call.candidates[0], i);
    for (size_t k = 1; agreed && k < call.candidates.size(); ++k)
      if (expected(call, call.candidates[k], i) != agreed) agreed = nullptr;
    if (agreed) assign(term_at(call, i), agreed);
  }
}

void TypeSolver::solve(const std::function<void()>& poll) {
  while (!queue_.empty()) {
    poll();
    const uint32_t index = queue_.front();
    queue_.pop_front();
    calls_[index].queued = false;
    narrow(calls_[index]);
  }
  for (const Call& call : calls_) {
    if (call.is_equality || call.candidates.size() == 1) continue;
    fail_at(call.span, "'{}' is ambiguous here: {} and {} fit alike", call.name.text(),
            signature(call.candidates[0]), signature(call.candidates[1]));
  }
  for (const TermState& term : terms_)
    if (!term.sort)
      fail_at(term.span, "cannot infer the sort of '{}': nothing here determines it", term.shown);
}

std::string TypeSolver::signature(const Candidate& candidate) const {
  std::string text = "(";
  const auto add = [&](std::string_view word) { text += (text.size() > 1 ? " " : "") + std::string(word); };
  if (candidate.function) {
    add(candidate.function->name.text());
    for (const SortInfo* sort : candidate.function->inputs) add(sort->name.text());
    return text + ") -> " + candidate.function->output->name.text();
  }
  const Overload& p = *candidate.primitive;
  add(p.name.text());
  if (p.shape == Overload::Shape::AllEqual) {
    for (size_t i = 0; i < p.arity; ++i) add("<any>");
  } else {
    for (const SortInfo* sort : p.inputs) add(sort->name.text());
  }
  if (p.shape == Overload::Shape::Variadic || p.shape == Overload::Shape::Alternating) add("...");
  return text + ") -> " + (p.output ? p.output->name.text() : "<any>");
}

std::string TypeSolver::actual(const Call& call) const {
  std::string text;
  for (const TermId arg : call.args)
    text +=
        (text.empty() ? "" : ", ") + (terms_[arg].sort ? terms_[arg].sort->name.text() : std::string("?"));
  return "(" + text + ")";
}

std::string TypeSolver::target_signatures(const Call& call) const {
  std::string text;
  if (const FunctionInfo* function = scope_.find_function(call.target))
    text = signature({.function = function, .primitive = nullptr, .target = {}});
  else
    for (const Overload* overload : *scope_.find_primitive(call.target))
      text +=
          (text.empty() ? "" : ", ") + signature({.function = nullptr, .primitive = overload, .target = {}});
  return fmt::format("{} with {} of its arguments given", text, call.args.size() - 1);
}

void TypeSolver::fail_unknown(Symbol name, const Span& span) const {
  fail_at(span, "unknown function '{}'{}", name.text(), scope_.suggest_callable(name));
}

void TypeSolver::fail_no_candidate(const Call& call, std::span<const Candidate> tried) const {
  if (tried.size() == 1) {
    const Candidate& only = tried[0];
    const bool arity_fits = only.function ? only.function->inputs.size() == call.args.size()
                                          : only.primitive->takes(call.args.size());
    if (!arity_fits)
      fail_at(call.span, "'{}' does not take {} arguments: {}", call.name.text(), call.args.size(),
              signature(only));
    for (size_t i = 0; i <= call.args.size(); ++i) {
      const TermState& term = terms_[term_at(call, i)];
      const SortInfo* want = expected(call, only, i);
      if (!term.sort || !want || term.sort == want) continue;
      if (i == call.args.size())
        fail_at(call.span, "'{}' returns {}, but {} is expected here", call.name.text(), want->name.text(),
                term.sort->name.text());
      fail_at(term.span, "'{}' has sort {}, but '{}' expects {} as its argument {}", term.shown,
              term.sort->name.text(), call.name.text(), want->name.text(), i + 1);
    }
  }
  constexpr size_t kShown = 8;
  std::string list;
  for (size_t i = 0; i < std::min(tried.size(), kShown); ++i) list += "\n    " + signature(tried[i]);
  if (tried.size() > kShown) list += fmt::format("\n    and {} more", tried.size() - kShown);
  if (tried.empty()) fail_at(call.span, "no function sort fits {}", target_signatures(call));
  const SortInfo* output = terms_[call.output].sort;
  fail_at(call.span, "no overload of '{}' takes {} arguments of sorts {}{}; it has{}", call.name.text(),
          call.args.size(), actual(call), output ? " and returns " + output->name.text() : "", list);
}

}  // namespace luminal::egraph::language
