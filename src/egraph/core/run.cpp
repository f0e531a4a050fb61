#include "egraph/core/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "egraph/core/clipped.h"
#include "egraph/core/limits.h"
#include "egraph/core/rule_sink.h"
#include "egraph/core/search.h"

namespace luminal::egraph {

namespace {

class Runner {
 public:
  Runner(EngineState& state, const Budget& budget)
      : state_(state), limits_(state, budget, state.limits), scope_(state, &limits_) {}

  Report run(const Schedule& schedule) {
    const auto begin = last_ = Clock::now();
    const uint64_t unions = state_.ids.union_count();
    try {
      execute(schedule);
    } catch (const Stopped& stopped) {
      limits_.stop(stopped.reason);
    }
    report_.unions = state_.ids.union_count() - unions;
    report_.stop = StopReason::Finished;
    if (!last_changed_) report_.stop = StopReason::Saturated;
    if (until_) report_.stop = StopReason::Until;
    if (limits_.reason()) report_.stop = *limits_.reason();
    report_.rules.reserve(by_rule_.size());
    for (RuleReport& rule : by_rule_)
      if (rule.runs != 0) report_.rules.push_back(std::move(rule));
    report_.plan_s += lap();
    report_.total_s = seconds_between(begin, last_);
    return std::move(report_);
  }

 private:
  /// False if doing it again would do nothing.
  bool execute(const Schedule& schedule) {
    if (limits_.exceeded()) return false;
    switch (schedule.kind) {
      case Schedule::Kind::Run:
        return step(schedule);
      case Schedule::Kind::Seq:
        return sequence(schedule.body);
      case Schedule::Kind::Repeat: {
        bool goes_on = false;
        for (int64_t i = 0; i < schedule.count && sequence(schedule.body); i++) goes_on = true;
        return goes_on;
      }
      case Schedule::Kind::Saturate: {
        bool goes_on = false;
        while (sequence(schedule.body)) goes_on = true;
        return goes_on;
      }
    }
    return false;
  }

  bool sequence(const std::vector<Schedule>& body) {
    bool goes_on = false;
    for (const Schedule& part : body) goes_on |= execute(part);
    return goes_on && !limits_.reason();
  }

  bool until_holds(const std::vector<Query>& until) {
    return !until.empty() && std::all_of(until.begin(), until.end(), [&](const Query& query) {
      return has_match(state_, compile_query(state_, query, "until"));
    });
  }

  /// Seconds since the last call: all of a run is in one of them, so that none is missing in the report.
  double lap() {
    const auto now = Clock::now();
    const double seconds = seconds_between(last_, now);
    last_ = now;
    return seconds;
  }

  /// False if there is no time for it.
  bool rebuild() {
    if (!state_.needs_rebuild()) return true;
    report_.plan_s += lap();
    state_.rebuild(&limits_);
    report_.rebuild_s += lap();
    return !state_.needs_rebuild();
  }

  bool step(const Schedule& schedule) {
    if (!rebuild()) return false;
    until_ = until_holds(schedule.until);
    if (until_) {
      report_.plan_s += lap();
      return false;
    }
    const uint64_t before = state_.changes;
    const std::vector<RuleId> rules = rules_of(state_, schedule.ruleset);
    refresh_constants(rules);
    state_.begin_step();
    report_.plan_s += lap();
    const std::exception_ptr error = run_rules(rules, schedule.scheduler);
    state_.end_step();
    if (error) std::rethrow_exception(error);
    rebuild_after_rules();
    report_.iterations++;
    report_.rows_after.push_back(state_.total_rows());
    report_.rebuild_s += lap();
    const bool changed = state_.changes != before;
    report_.updated |= changed;
    report_.held_back = !changed && schedule.scheduler && schedule.scheduler->state().shorten_bans(rules);
    last_changed_ = changed || report_.held_back;
    return last_changed_;
  }

  // A rule that raises an error has had its turn, and the others have theirs: as in egglog, a program that
  // goes on after the error is not met by it again, and does not depend on the order of rules.
  std::exception_ptr run_rules(const std::vector<RuleId>& rules, const std::optional<BackOff>& scheduler) {
    std::exception_ptr error;
    united_.clear();
    for (const RuleId rule : rules) {
      if (limits_.reason()) break;
      const uint64_t unions = state_.ids.union_count();
      try {
        run_rule(rule, scheduler);
      } catch (const Stopped& stopped) {
        limits_.stop(stopped.reason);
      } catch (const ErrorInRule& what) {
        if (!error)
          error = std::make_exception_ptr(Error(fmt::format("{}; in {}", what.what(), shown_rule(rule))));
        state_.rules[index_of(rule)].seen = state_.clock;
      } catch (...) {
        if (!error) error = std::current_exception();
        state_.rules[index_of(rule)].seen = state_.clock;
      }
      if (state_.ids.union_count() != unions) united_.push_back(rule);
    }
    return error;
  }

  // Of classes that are one now, two rows may be one too: a conflict is the doing of rules that united.
  void rebuild_after_rules() {
    try {
      state_.rebuild(&limits_);
    } catch (const ErrorInRule& conflict) {
      constexpr size_t kNamed = 3;
      if (united_.empty()) throw;
      std::string names;
      for (size_t i = 0; i < std::min(kNamed, united_.size()); i++)
        names += (i == 0 ? "" : ", ") + shown_rule(united_[i]);
      if (united_.size() > kNamed) names += fmt::format(" and {} more", united_.size() - kNamed);
      throw Error(fmt::format("{}; after unions by {}", conflict.what(), names));
    }
  }

  [[nodiscard]] std::string shown_rule(RuleId rule) const {
    const RuleSpec& spec = state_.rules[index_of(rule)].spec;
    std::string name;  // may be the rule's text, on several lines
    for (const char c : spec.name) {
      const bool blank = c == ' ' || c == '\n' || c == '\t';
      if (!blank || !name.ends_with(' ')) name += blank ? ' ' : c;
    }
    const std::string place = spec.origin.empty() ? "" : " at " + spec.origin;
    return fmt::format("rule '{}'{}", clipped(name), place);
  }

  // Constants of eq-sorts follow their class; the whole step uses the form that rows had when it began.
  void refresh_constants(const std::vector<RuleId>& rules) {
    for (const RuleId id : rules) {
      RuleInfo& rule = state_.rules[index_of(id)];
      if (!rule.has_id_constants) continue;
      for (SlotInfo& slot : rule.query.slots)
        if (slot.constant) slot.value = state_.canonical(slot.sort, slot.value);
    }
  }

  RuleReport& report_of(RuleId id) {
    if (by_rule_.size() <= index_of(id)) by_rule_.resize(state_.rules.size());
    RuleReport& report = by_rule_[index_of(id)];
    if (report.runs == 0) {
      report.rule = id;
      report.name = state_.rules[index_of(id)].spec.name;
    }
    return report;
  }

  void run_rule(RuleId id, const std::optional<BackOff>& scheduler) {
    RuleReport& report = report_of(id);
    const double known_before = report.apply_s + report_.plan_s;
    report.runs++;
    RuleInfo& rule = state_.rules[index_of(id)];
    if (scheduler)
      match_and_hold(rule, report, scheduler->state());
    else
      match_and_apply(rule, rule.seen, nullptr, report);
    const double known = report.apply_s + report_.plan_s - known_before;
    report.search_s += lap() - known;
  }

  void match_and_hold(RuleInfo& rule, RuleReport& report, BackOff::State& scheduler) {
    BackOff::State::Rule& waiting = scheduler.rules[index_of(report.rule)];
    if (waiting.searches) {
      const size_t before = waiting.held.count;
      bool finished = false;
      try {
        finished = match_and_apply(rule, waiting.seen, &waiting.held, report);
      } catch (const Stopped& stopped) {
        limits_.stop(stopped.reason);
      }
      if (!finished) return waiting.held.truncate(before);
    }
    if (scheduler.allows(waiting) && waiting.held.count != 0)
      RuleSink(state_, rule, limits_, report, &waiting.held).release();
  }

  /// Searches what is new since `seen`. Matches are applied, or added to `held` if there is one. False if a
  /// limit stopped it: then the next call does it again.
  bool match_and_apply(RuleInfo& rule, uint32_t& seen, HeldMatches* held, RuleReport& report) {
    const CompiledQuery& query = rule.query;
    if (query.never) return true;
    for (const auto& [a, b] : query.equal)
      if (query.slots[a].value != query.slots[b].value) return true;
    const size_t atoms = query.atoms.size();
    std::vector<RowRange>& ranges = ranges_;
    ranges.resize(atoms);
    old_.resize(atoms);
    // Without atoms, nothing that a match depends on is ever new but the rule itself.
    bool anything_new = rule.spec.naive || (atoms == 0 && seen == 0);
    for (size_t i = 0; i < atoms; i++) {
      const Table& table = state_.at(query.atoms[i].function).table;
      if (table.step_begin() == 0) return true;
      old_[i] = rule.spec.naive ? 0 : table.row_at(seen);
      anything_new |= old_[i] < table.step_begin();
    }
    if (!anything_new) {
      seen = state_.clock;
      return true;
    }
    bool finished = true;
    RuleSink sink(state_, rule, limits_, report, held);
    rule.plans.resize(std::max<size_t>(1, atoms));
    const size_t variants = rule.spec.naive || atoms == 0 ? 1 : atoms;
    for (size_t fresh = 0; fresh < variants && finished; fresh++) {
      bool possible = true;
      for (size_t i = 0; i < atoms; i++) {
        const Row end = state_.at(query.atoms[i].function).table.step_begin();
        ranges[i] = i < fresh ? RowRange{0, old_[i]} : i == fresh ? RowRange{old_[i], end} : RowRange{0, end};
        possible &= ranges[i].size() != 0;
      }
      if (!possible) continue;
      prepare(query, rule.plans[fresh]);
      finished = search(state_, query, rule.plans[fresh], ranges, sink, report.searched) && sink.finish();
    }
    if (finished) seen = state_.clock;
    return finished;
  }

  /// Chooses the join and makes its indexes.
  void prepare(const CompiledQuery& query, PlanCache& cache) {
    const auto begin = Clock::now();
    prepare_indexes(state_, query, cached_plan(state_, query, ranges_, cache), ranges_);
    report_.plan_s += seconds_between(begin, Clock::now());
  }

  EngineState& state_;
  Limits limits_;
  LimitsScope scope_;
  Clock::time_point last_;
  Report report_;
  std::vector<RuleReport> by_rule_;
  std::vector<RowRange> ranges_;
  std::vector<Row> old_;
  std::vector<RuleId> united_;  // rules of this step
  bool last_changed_ = true, until_ = false;
};

class FirstMatch : public MatchSink {
 public:
  explicit FirstMatch(const EngineState& state) : state_(state) {}
  void take(Batch&) override { found = true; }
  bool should_stop() override {
    state_.poll();
    return found;
  }
  bool found = false;

 private:
  const EngineState& state_;
};

void collect_rules(const EngineState& state, RulesetId id, std::vector<bool>& seen,
                   std::vector<RuleId>& out) {
  if (seen[index_of(id)]) return;
  seen[index_of(id)] = true;
  const RulesetInfo& info = state.rulesets[index_of(id)];
  out.insert(out.end(), info.rules.begin(), info.rules.end());
  for (const RulesetId part : info.parts) collect_rules(state, part, seen, out);
}

}  // namespace

Report run_schedule(EngineState& state, const Schedule& schedule, const Budget& budget) {
  check_budget(budget);
  return Runner(state, budget).run(schedule);
}

std::vector<RuleId> rules_of(const EngineState& state, RulesetId ruleset) {
  std::vector<RuleId> out;
  std::vector<bool> seen(state.rulesets.size(), false);
  collect_rules(state, ruleset, seen, out);
  return out;
}

bool has_match(EngineState& state, const CompiledQuery& query) {
  FirstMatch sink(state);
  run_query(state, query, sink);
  return sink.found;
}

}  // namespace luminal::egraph
