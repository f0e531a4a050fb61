#include "egraph/core/rule_sink.h"

#include <algorithm>

#include "egraph/core/explain.h"

namespace luminal::egraph {

RuleSink::RuleSink(EngineState& state, const RuleInfo& rule, Limits& limits, RuleReport& report)
    : state_(state),
      rule_(rule),
      limits_(limits),
      report_(report),
      mark_(state.scratch),
      columns_(rule.query.slots.size(), nullptr),
      room_(limits.matches_before_check(rule.actions.size())),
      actions_(state, rule.query, rule.actions, rule.spec.name, kBlock) {
  for (const Slot s : rule.query.outputs)
    if (!rule.query.slots[s].constant && columns_[s] == nullptr) {
      columns_[s] = state.scratch.take(kBlock);
      read_.push_back(s);
    }
  for (Slot s = 0; s < columns_.size(); s++)
    if (rule.query.slots[s].constant) columns_[s] = state.scratch.take(kBlock);
}

void RuleSink::take(Batch& batch) {
  for (uint32_t first = 0; first < batch.count;) {
    if (count_ == room_) apply_block();
    const uint32_t n = std::min(batch.count - first, static_cast<uint32_t>(room_) - count_);
    for (const Slot s : read_) std::copy_n(batch.columns[s] + first, n, columns_[s] + count_);
    count_ += n;
    first += n;
  }
}

void RuleSink::apply_block() {
  if (count_ == 0) return;
  restartable_ = false;
  const auto begin = Clock::now();
  const uint64_t before = state_.changes;
  report_.matched += count_;
  for (; filled_ < count_; filled_++)
    for (Slot s = 0; s < columns_.size(); s++)
      if (rule_.query.slots[s].constant) columns_[s][filled_] = rule_.query.slots[s].value;
  if (state_.log != nullptr) [[unlikely]] {
    apply_logged();
  } else {
    Batch block{count_, columns_.data()};
    actions_.apply(block);
  }
  count_ = 0;
  room_ = limits_.matches_before_check(rule_.actions.size());
  report_.applied += state_.changes - before;
  report_.apply_s += seconds_between(begin, Clock::now());
}

// One binding at a time, so that each new id and each union knows it.
void RuleSink::apply_logged() {
  const CompiledQuery& query = rule_.query;
  std::vector<uint32_t*> columns(query.slots.size(), nullptr);
  std::vector<Value> bindings(rule_.spec.query.variables.size());
  for (uint32_t i = 0; i < count_; i++) {
    for (Slot s = 0; s < columns.size(); s++) columns[s] = columns_[s] == nullptr ? nullptr : columns_[s] + i;
    for (size_t v = 0; v < bindings.size(); v++) bindings[v] = *columns[query.slot_of[v]];
    state_.log->begin_application(report_.rule, bindings);
    Batch one{1, columns.data()};
    actions_.apply(one);
    state_.log->end_application();
  }
}

}  // namespace luminal::egraph
