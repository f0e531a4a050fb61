// What programs are written in: actions, merges, schedules, reports.
#include <algorithm>

#include "luminal/egraph.h"

namespace luminal::egraph {

Action Action::call(FunctionId function, std::vector<Term> args, Term value) {
  Action a;
  a.kind = Kind::Call;
  a.function = function;
  a.args = std::move(args);
  a.value = value;
  return a;
}
Action Action::primitive_call(PrimitiveId primitive, std::vector<Term> args, Term value,
                              bool skip_on_failure) {
  Action a;
  a.kind = Kind::Primitive;
  a.primitive = primitive;
  a.args = std::move(args);
  a.value = value;
  a.skip_on_failure = skip_on_failure;
  return a;
}
Action Action::set(FunctionId function, std::vector<Term> args, Term value) {
  Action a = call(function, std::move(args), value);
  a.kind = Kind::Set;
  return a;
}
Action Action::unite(Term left, Term right) {
  Action a;
  a.kind = Kind::Union;
  a.args = {left, right};
  return a;
}
Action Action::remove(FunctionId function, std::vector<Term> args) {
  Action a = call(function, std::move(args), {});
  a.kind = Kind::Delete;
  return a;
}
Action Action::subsume(FunctionId function, std::vector<Term> args) {
  Action a = call(function, std::move(args), {});
  a.kind = Kind::Subsume;
  return a;
}
Action Action::panic(std::string message) {
  Action a;
  a.kind = Kind::Panic;
  a.message = std::move(message);
  return a;
}

Merge Merge::computed(ActionBlock program, Term result) {
  return {Kind::Program, std::move(program), result, {}};
}
Merge Merge::computed(std::function<Value(Value, Value)> callback) {
  return {Kind::Callback, {}, {}, std::move(callback)};
}

Schedule Schedule::run(RulesetId ruleset, std::vector<Query> until) {
  Schedule s;
  s.ruleset = ruleset;
  s.until = std::move(until);
  return s;
}
Schedule Schedule::run_with(BackOff scheduler, RulesetId ruleset, std::vector<Query> until) {
  Schedule s = run(ruleset, std::move(until));
  s.scheduler = std::move(scheduler);
  return s;
}
Schedule Schedule::seq(std::vector<Schedule> body) {
  Schedule s;
  s.kind = Kind::Seq;
  s.body = std::move(body);
  return s;
}
Schedule Schedule::repeat(int64_t count, Schedule body) {
  Schedule s;
  s.kind = Kind::Repeat;
  s.count = count;
  s.body.push_back(std::move(body));
  return s;
}
Schedule Schedule::saturate(Schedule body) {
  Schedule s;
  s.kind = Kind::Saturate;
  s.body.push_back(std::move(body));
  return s;
}

std::string_view name_of(StopReason reason) {
  switch (reason) {
    case StopReason::Finished:
      return "finished";
    case StopReason::Saturated:
      return "saturated";
    case StopReason::Until:
      return "until";
    case StopReason::TimeBudget:
      return "time budget";
    case StopReason::NodeBudget:
      return "node budget";
    case StopReason::ByteBudget:
      return "byte budget";
    case StopReason::Interrupted:
      return "interrupt";
  }
  return "";
}

void Report::add(const Report& later) {
  stop = later.stop;
  updated |= later.updated;
  held_back = later.held_back;
  iterations += later.iterations;
  unions += later.unions;
  total_s += later.total_s;
  rebuild_s += later.rebuild_s;
  plan_s += later.plan_s;
  rows_after.insert(rows_after.end(), later.rows_after.begin(), later.rows_after.end());
  for (const RuleReport& rule : later.rules) {
    const auto at =
        std::lower_bound(rules.begin(), rules.end(), rule,
                         [](const RuleReport& a, const RuleReport& b) { return a.rule < b.rule; });
    if (at == rules.end() || at->rule != rule.rule) {
      rules.insert(at, rule);
      continue;
    }
    at->runs += rule.runs;
    at->searched += rule.searched;
    at->matched += rule.matched;
    at->applied += rule.applied;
    at->search_s += rule.search_s;
    at->apply_s += rule.apply_s;
  }
}

}  // namespace luminal::egraph
