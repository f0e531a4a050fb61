#include "egraph/core/run.h"

#include <algorithm>

#include "egraph/core/limits.h"
#include "egraph/core/rule_sink.h"
#include "egraph/core/search.h"

namespace luminal::egraph {

namespace {

class Runner {
 public:
  Runner(EngineState& state, const Budget& budget) : state_(state), limits_(state, budget) {}

  Report run(const Schedule& schedule) {
    const auto begin = Clock::now();
    const uint64_t unions = state_.ids.union_count();
    const bool updated = execute(schedule);
    report_.updated = updated;
    report_.unions = state_.ids.union_count() - unions;
    report_.stop = StopReason::Finished;
    if (!last_changed_) report_.stop = StopReason::Saturated;
    if (until_) report_.stop = StopReason::Until;
    if (limits_.reason()) report_.stop = *limits_.reason();
    for (RuleReport& rule : by_rule_)
      if (rule.runs != 0) report_.rules.push_back(std::move(rule));
    report_.total_s = seconds_between(begin, Clock::now());
    return std::move(report_);
  }

 private:
  bool execute(const Schedule& schedule) {
    if (limits_.exceeded()) return false;
    switch (schedule.kind) {
      case Schedule::Kind::Run:
        return step(schedule);
      case Schedule::Kind::Seq:
        return sequence(schedule.body);
      case Schedule::Kind::Repeat: {
        bool updated = false;
        for (int64_t i = 0; i < schedule.count && sequence(schedule.body); i++) updated = true;
        return updated;
      }
      case Schedule::Kind::Saturate: {
        bool updated = false;
        while (sequence(schedule.body)) updated = true;
        return updated;
      }
    }
    return false;
  }

  bool sequence(const std::vector<Schedule>& body) {
    bool updated = false;
    for (const Schedule& part : body) updated |= execute(part);
    return updated && !limits_.reason();
  }

  bool until_holds(const std::vector<Query>& until) {
    return !until.empty() && std::all_of(until.begin(), until.end(), [&](const Query& query) {
      return has_match(state_, compile_query(state_, query, "until"));
    });
  }

  /// False if there is no time for it.
  bool rebuild() {
    if (!state_.needs_rebuild()) return true;
    const auto begin = Clock::now();
    state_.rebuild(&limits_);
    report_.rebuild_s += seconds_between(begin, Clock::now());
    return !state_.needs_rebuild();
  }

  bool step(const Schedule& schedule) {
    if (!rebuild()) return false;
    until_ = until_holds(schedule.until);
    if (until_) return false;
    const uint64_t before = state_.changes;
    const std::vector<RuleId> rules = rules_of(state_, schedule.ruleset);
    refresh_constants(rules);
    state_.begin_step();
    try {
      for (const RuleId rule : rules) {
        if (limits_.reason()) break;
        run_rule(rule);
      }
    } catch (...) {
      state_.end_step();
      throw;
    }
    const auto begin = Clock::now();
    state_.end_step();
    state_.rebuild(&limits_);
    report_.rebuild_s += seconds_between(begin, Clock::now());
    report_.iterations++;
    report_.rows_after.push_back(state_.total_rows());
    last_changed_ = state_.changes != before;
    return last_changed_;
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
    if (by_rule_.size() <= index_of(id)) by_rule_.resize(index_of(id) + 1);
    RuleReport& report = by_rule_[index_of(id)];
    if (report.runs == 0) {
      report.rule = id;
      report.name = state_.rules[index_of(id)].spec.name;
    }
    return report;
  }

  void run_rule(RuleId id) {
    RuleInfo& rule = state_.rules[index_of(id)];
    RuleReport& report = report_of(id);
    report.runs++;
    const CompiledQuery& query = rule.query;
    if (query.never) return;
    for (const auto& [a, b] : query.equal)
      if (query.slots[a].value != query.slots[b].value) return;
    const size_t atoms = query.atoms.size();
    std::vector<RowRange>& ranges = ranges_;
    ranges.resize(atoms);
    old_.resize(atoms);
    bool anything_new = atoms == 0 || rule.spec.naive;
    for (size_t i = 0; i < atoms; i++) {
      const Table& table = state_.at(query.atoms[i].function).table;
      if (table.step_begin() == 0) return;
      old_[i] = rule.spec.naive ? 0 : table.row_at(rule.seen);
      anything_new |= old_[i] < table.step_begin();
    }
    if (!anything_new) {
      rule.seen = state_.clock;
      return;
    }
    const auto begin = Clock::now();
    const double known_before = report.apply_s + report_.plan_s;
    bool finished = true;
    RuleSink sink(state_, rule, limits_, report);
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
      finished = search(state_, query, rule.plans[fresh], ranges, sink, report.searched);
      if (finished) sink.finish();
    }
    if (finished) rule.seen = state_.clock;
    report.search_s +=
        seconds_between(begin, Clock::now()) - (report.apply_s + report_.plan_s - known_before);
  }

  // Chooses the join and makes its indexes.
  void prepare(const CompiledQuery& query, PlanCache& cache) {
    const auto begin = Clock::now();
    prepare_indexes(state_, query, cached_plan(state_, query, ranges_, cache), ranges_);
    report_.plan_s += seconds_between(begin, Clock::now());
  }

  EngineState& state_;
  Limits limits_;
  Report report_;
  std::vector<RuleReport> by_rule_;
  std::vector<RowRange> ranges_;
  std::vector<Row> old_;
  bool last_changed_ = true, until_ = false;
};

class FirstMatch : public MatchSink {
 public:
  void take(Batch&) override { found = true; }
  bool should_stop() override { return found; }
  bool found = false;
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
  return Runner(state, budget).run(schedule);
}

std::vector<RuleId> rules_of(const EngineState& state, RulesetId ruleset) {
  std::vector<RuleId> out;
  std::vector<bool> seen(state.rulesets.size(), false);
  collect_rules(state, ruleset, seen, out);
  return out;
}

bool has_match(EngineState& state, const CompiledQuery& query) {
  FirstMatch sink;
  run_query(state, query, sink);
  return sink.found;
}

}  // namespace luminal::egraph
