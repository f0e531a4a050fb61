#include "egraph/core/rule_sink.h"

#include <algorithm>
#include <utility>

#include "egraph/core/explain.h"

namespace luminal::egraph {

RuleSink::RuleSink(EngineState& state, const RuleInfo& rule, Limits& limits, RuleReport& report,
                   HeldMatches* held)
    : state_(state),
      rule_(rule),
      limits_(limits),
      report_(report),
      mark_(state.scratch),
      columns_(rule.query.slots.size(), nullptr),
      held_(held),
      room_(limits.matches_before_check(rule.actions.size())),
      actions_(state, rule.query, rule.actions, rule.spec.name, kBlock) {
  for (const Slot s : rule.query.outputs)
    if (!rule.query.slots[s].constant && columns_[s] == nullptr) {
      columns_[s] = state.scratch.take(kBlock);
      read_.push_back(s);
    }
  for (Slot s = 0; s < columns_.size(); s++)
    if (rule.query.slots[s].constant) columns_[s] = state.scratch.take(kBlock);
  in_place_ = columns_;
  if (held_ != nullptr) held_->columns.resize(read_.size());
}

void RuleSink::hold(const Batch& batch) {
  for (size_t i = 0; i < read_.size(); i++) held_->columns[i].append(batch.columns[read_[i]], batch.count);
  held_->count += batch.count;
  restartable_ &= held_->count - held_before_ < room_;  // as if blocks were applied: the same plans follow
}

void RuleSink::drop() {
  count_ = 0;
  if (held_ != nullptr) held_->truncate(held_before_);
}

bool RuleSink::release() {
  HeldMatches* const from = std::exchange(held_, nullptr);
  HeldMatches held = std::exchange(*from, {});
  struct GiveBack {
    HeldMatches *from, *held;
    bool all = false;
    ~GiveBack() {
      if (!all) *from = std::move(*held);
    }
  } given{from, &held};
  // Ids may have been united since the matches were found.
  for (size_t i = 0; i < read_.size(); i++) {
    const SortId sort = rule_.query.slots[read_[i]].sort;
    if (state_.at(sort).kind == SortKind::Plain) continue;
    for (size_t m = 0; m < held.count; m++) held.columns[i][m] = state_.canonical(sort, held.columns[i][m]);
  }
  std::vector<uint32_t*> columns(columns_.size(), nullptr);
  for (size_t first = 0; first < held.count && !limits_.exceeded(); first += kBlock) {
    for (size_t i = 0; i < read_.size(); i++) columns[read_[i]] = held.columns[i].data() + first;
    Batch batch{static_cast<uint32_t>(std::min(kBlock, held.count - first)), columns.data()};
    take(batch);
  }
  given.all = finish() && !limits_.reason();
  return given.all;
}

void RuleSink::take(std::span<const Batch> batches, Team* team) {
  for (const Batch& batch : batches) {
    if (held_ != nullptr) {
      hold(batch);
      continue;
    }
    for (uint32_t first = 0; first < batch.count;) {
      const uint32_t left = batch.count - first, room = static_cast<uint32_t>(room_);
      if (count_ == 0 && left >= room) {  // a whole block, where it stands
        for (const Slot s : read_) in_place_[s] = batch.columns[s] + first;
        if (!apply(in_place_.data(), room) || limits_.exceeded()) return;
        first += room;
        continue;
      }
      const uint32_t n = std::min(left, room - count_);
      if (team != nullptr)
        waiting_.push_back({batch.columns, first, count_, n});
      else
        for (const Slot s : read_) std::copy_n(batch.columns[s] + first, n, columns_[s] + count_);
      count_ += n;
      first += n;
      if (count_ < room) continue;
      if (team != nullptr) copy_waiting(*team);
      if (!finish() || limits_.exceeded()) return;
    }
  }
  if (team != nullptr) copy_waiting(*team);
}

void RuleSink::copy_waiting(Team& team) {
  if (waiting_.empty()) return;
  const uint32_t begin = waiting_.front().to;
  team.split(count_ - begin, [&](uint32_t, size_t from, size_t to) {
    for (const Waiting& w : waiting_) {
      const size_t first = std::max<size_t>(w.to, begin + from);
      const size_t last = std::min<size_t>(w.to + w.count, begin + to);
      if (first >= last) continue;
      for (const Slot s : read_)
        std::copy_n(w.from[s] + w.first + (first - w.to), last - first, columns_[s] + first);
    }
  });
  waiting_.clear();
}

bool RuleSink::finish() {
  if (held_ != nullptr) return true;
  const bool applied = apply(columns_.data(), count_);
  count_ = 0;
  return applied;
}

bool RuleSink::apply(uint32_t** columns, uint32_t count) {
  if (count == 0) return true;
  restartable_ = false;
  const auto begin = Clock::now();
  const Table::Growth growth = actions_.growth(count);
  if (growth.slots != 0 &&
      !limits_.allows(static_cast<double>(growth.slots) * kResizeSecondsPerSlot, growth.bytes))
    return false;
  const uint64_t before = state_.changes;
  report_.matched += count;
  for (Slot s = 0; s < columns_.size() && filled_ < count; s++)
    if (rule_.query.slots[s].constant)
      std::fill(columns_[s] + filled_, columns_[s] + count, rule_.query.slots[s].value);
  filled_ = std::max(filled_, count);
  if (state_.log != nullptr) [[unlikely]] {
    apply_logged(columns, count);
  } else {
    Batch block{count, columns};
    actions_.apply(block);
  }
  room_ = limits_.matches_before_check(rule_.actions.size());
  report_.applied += state_.changes - before;
  report_.apply_s += seconds_between(begin, Clock::now());
  return true;
}

// One binding at a time, so that each new id and each union knows it.
void RuleSink::apply_logged(uint32_t** block, uint32_t count) {
  const CompiledQuery& query = rule_.query;
  std::vector<uint32_t*> columns(query.slots.size(), nullptr);
  std::vector<Value> bindings(rule_.spec.query.variables.size());
  for (uint32_t i = 0; i < count; i++) {
    for (Slot s = 0; s < columns.size(); s++) columns[s] = block[s] == nullptr ? nullptr : block[s] + i;
    for (size_t v = 0; v < bindings.size(); v++) bindings[v] = *columns[query.slot_of[v]];
    state_.log->begin_application(report_.rule, bindings);
    Batch one{1, columns.data()};
    actions_.apply(one);
    state_.log->end_application();
  }
}

}  // namespace luminal::egraph
