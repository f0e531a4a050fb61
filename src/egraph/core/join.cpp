#include "egraph/core/join.h"

#include <algorithm>

#include "egraph/core/limits.h"

namespace luminal::egraph {

namespace {
constexpr uint64_t kRowsBetweenChecks = 1 << 14;
}

void prepare_indexes(EngineState& state, const CompiledQuery& query, const JoinPlan& plan,
                     std::span<const RowRange> ranges) {
  if (state.limits != nullptr) {
    const uint64_t rows = rows_to_index(state, query, plan, ranges);
    if (rows != 0)
      state.limits->require(static_cast<double>(rows) * kIndexSecondsPerRow, rows * kIndexBytesPerRow);
  }
  for (const PlanStep& step : plan.steps) {
    if (step.kind != PlanStep::Kind::Probe) continue;
    FunctionInfo& info = state.at(query.atoms[step.at].function);
    state.ensure_index(info, step.index, ranges[step.at].end);
  }
}

uint64_t rows_to_index(const EngineState& state, const CompiledQuery& query, const JoinPlan& plan,
                       std::span<const RowRange> ranges) {
  uint64_t rows = 0;
  for (const PlanStep& step : plan.steps) {
    if (step.kind != PlanStep::Kind::Probe) continue;
    const FunctionInfo& info = state.at(query.atoms[step.at].function);
    rows += info.indexes[step.index].outdated(info.table, ranges[step.at].end);
  }
  return rows;
}

JoinRun::JoinRun(EngineState& state, const CompiledQuery& query, const JoinPlan& plan,
                 std::span<const RowRange> ranges, MatchSink& sink, Scratch& scratch)
    : state_(state), query_(query), plan_(plan), ranges_(ranges), sink_(sink), mark_(scratch) {
  const size_t slots = query.slots.size();
  pointers_.assign(slots * (plan.steps.size() + 1), nullptr);
  levels_.resize(plan.steps.size() + 1);
  for (size_t i = 0; i < levels_.size(); i++) levels_[i].columns = pointers_.data() + i * slots;
  const bool expands = std::any_of(plan.steps.begin(), plan.steps.end(), [](const PlanStep& s) {
    return s.kind == PlanStep::Kind::Scan || s.kind == PlanStep::Kind::Probe;
  });
  // A query of look-ups and calls alone moves a single binding.
  const size_t room = expands ? kBatch : 1;
  for (Slot s = 0; s < slots; s++) {
    if (!query.slots[s].constant) continue;
    uint32_t* column = scratch.take(room);
    std::fill_n(column, room, query.slots[s].value);
    for (Batch& level : levels_) level.columns[s] = column;
  }
  uint32_t** current = levels_[0].columns;
  for (size_t i = 0; i < plan.steps.size(); i++) {
    const PlanStep& step = plan.steps[i];
    if (step.kind == PlanStep::Kind::Scan || step.kind == PlanStep::Kind::Probe) {
      current = levels_[i + 1].columns;
      for (const Slot s : step.carry) current[s] = scratch.take(room);
    }
    for (const ColumnSlot& b : step.bind) current[b.slot] = scratch.take(room);
    if (step.kind == PlanStep::Kind::Call && step.binds_output)
      current[query.calls[step.at].output] = scratch.take(room);
  }
  source_ = scratch.take(kBatch);
  rows_ = scratch.take(kBatch);
}

bool JoinRun::run(double most_rows) {
  most_rows_ = most_rows;
  counts_.assign(plan_.steps.size(), {});
  next_check_ = kRowsBetweenChecks;
  levels_[0].count = 1;
  advance(0, levels_[0]);
  // Batches that did not fill up, from the outermost in.
  for (size_t i = 1; i < levels_.size() && !stopped_; i++) {
    if (levels_[i].count == 0) continue;
    advance(i, levels_[i]);
    levels_[i].count = 0;
  }
  return !stopped_;
}

void JoinRun::advance(size_t at, Batch& batch) {
  if (batch.count == 0 || stopped_) return;
  for (; at < plan_.steps.size(); at++) {
    const PlanStep& step = plan_.steps[at];
    counts_[at].bindings += batch.count;
    switch (step.kind) {
      case PlanStep::Kind::Scan:
        return scan(step, at, batch);
      case PlanStep::Kind::Probe:
        return probe(step, at, batch);
      case PlanStep::Kind::Get:
        get(step, batch);
        break;
      case PlanStep::Kind::Call:
        call(step, batch);
        break;
    }
    if (batch.count == 0) return;
  }
  sink_.take(batch);
  stopped_ = stopped_ || sink_.should_stop();
}

void JoinRun::scan(const PlanStep& step, size_t at, Batch& in) {
  const RowRange range = ranges_[step.at];
  Batch& out = levels_[at + 1];
  for (uint32_t i = 0; i < in.count && !stopped_; i++) {
    for (Row row = range.begin; row < range.end && !stopped_;) {
      const uint32_t room = static_cast<uint32_t>(kBatch) - out.count - pairs_;
      const uint32_t n = std::min<uint32_t>(room, range.end - row);
      for (uint32_t k = 0; k < n; k++) {
        source_[pairs_ + k] = i;
        rows_[pairs_ + k] = row + k;
      }
      pairs_ += n;
      row += n;
      if (out.count + pairs_ == kBatch) emit(step, at, in, true);
    }
  }
  if (pairs_ != 0) emit(step, at, in, true);
}

void JoinRun::probe(const PlanStep& step, size_t at, Batch& in) {
  const RowRange range = ranges_[step.at];
  const FunctionInfo& info = state_.at(query_.atoms[step.at].function);
  // Parts can't change while this runs: only `prepare_indexes` makes them, and it ran before.
  const std::vector<JoinIndex::Part>& parts = info.indexes[step.index].parts();
  const size_t width = step.key.size();
  for (size_t p = 0; p < parts.size() && !stopped_; p++) {
    const JoinIndex::Part& part = parts[p];
    if (part.end() <= range.begin || part.begin() >= range.end) continue;
    if (width == 1) {
      const uint32_t* key = in.columns[step.key[0].slot];
      probe_part(
          step, at, in, part, [&](uint32_t i) { return part.find(key[i]); },
          [&](uint32_t i) { part.prefetch(key[i]); });
      continue;
    }
    constexpr size_t kMaxKey = 64;
    const uint32_t* keys[kMaxKey];
    for (size_t k = 0; k < width; k++) keys[k] = in.columns[step.key[k].slot];
    uint32_t hashes[kBatch];
    for (uint32_t i = 0; i < in.count; i++)
      hashes[i] = hash_key<0>(static_cast<uint32_t>(width), [&](uint32_t c) { return keys[c][i]; });
    probe_part(
        step, at, in, part,
        [&](uint32_t i) {
          uint32_t key[kMaxKey];
          for (size_t k = 0; k < width; k++) key[k] = keys[k][i];
          return part.find_hashed(hashes[i], key);
        },
        [&](uint32_t i) { part.prefetch_hash(hashes[i]); });
  }
}

template <class Find, class Prefetch>
void JoinRun::probe_part(const PlanStep& step, size_t at, Batch& in, const JoinIndex::Part& part, Find&& find,
                         Prefetch&& prefetch) {
  const RowRange range = ranges_[step.at];
  const Table& table = state_.at(query_.atoms[step.at].function).table;
  const bool clip = part.begin() < range.begin || part.end() > range.end;
  const bool check_live = part.may_hold_dead(table);
  Batch& out = levels_[at + 1];
  constexpr uint32_t kChunk = 64;
  JoinIndex::Range found[kChunk];
  for (uint32_t first = 0; first < in.count && !stopped_; first += kChunk) {
    const uint32_t n = std::min(kChunk, in.count - first);
    for (uint32_t i = 0; i < n; i++) prefetch(first + i);
    for (uint32_t i = 0; i < n; i++) {
      found[i] = find(first + i);
      if (clip && found[i].begin != found[i].end) {
        found[i].begin = std::lower_bound(found[i].begin, found[i].end, range.begin);
        found[i].end = std::lower_bound(found[i].begin, found[i].end, range.end);
      }
      __builtin_prefetch(found[i].begin);
    }
    for (uint32_t i = 0; i < n && !stopped_; i++) {
      for (const Row* row = found[i].begin; row != found[i].end && !stopped_;) {
        const uint32_t room = static_cast<uint32_t>(kBatch) - out.count - pairs_;
        const uint32_t m = static_cast<uint32_t>(std::min<std::ptrdiff_t>(room, found[i].end - row));
        for (uint32_t k = 0; k < m; k++) {
          source_[pairs_ + k] = first + i;
          rows_[pairs_ + k] = row[k];
        }
        pairs_ += m;
        row += m;
        if (out.count + pairs_ == kBatch) emit(step, at, in, check_live);
      }
    }
  }
  if (pairs_ != 0) emit(step, at, in, check_live);
}

// Filters the pending pairs and appends their bindings to the outgoing batch, which goes on when full.
void JoinRun::emit(const PlanStep& step, size_t at, Batch& in, bool check_live) {
  const Table& table = state_.at(query_.atoms[step.at].function).table;
  uint32_t n = pairs_;
  pairs_ = 0;
  searched_ += n;
  counts_[at].looked_at += n;
  const auto filter = [&](auto&& pass) {
    uint32_t kept = 0;
    for (uint32_t k = 0; k < n; k++) {
      const uint32_t source = source_[k];
      const Row row = rows_[k];
      source_[kept] = source;
      rows_[kept] = row;
      kept += pass(source, row) ? 1 : 0;
    }
    n = kept;
  };
  if (check_live) {
    const ColumnView live = table.column(table.width() - 1);
    filter([&](uint32_t, Row row) { return live[row] != kDead; });
  }
  if (table.has_subsumed() && !query_.match_subsumed)
    filter([&](uint32_t, Row row) { return !table.is_subsumed(row); });
  for (const auto& [a, b] : step.same) {
    const ColumnView left = table.column(a), right = table.column(b);
    filter([&](uint32_t, Row row) { return left[row] == right[row]; });
  }
  for (const ColumnSlot& c : step.check) {
    const ColumnView column = table.column(c.column);
    const uint32_t* wanted = in.columns[c.slot];
    filter([&](uint32_t source, Row row) { return column[row] == wanted[source]; });
  }
  Batch& out = levels_[at + 1];
  for (const Slot s : step.carry) {
    const uint32_t* from = in.columns[s];
    uint32_t* to = out.columns[s] + out.count;
    for (uint32_t k = 0; k < n; k++) to[k] = from[source_[k]];
  }
  for (const ColumnSlot& b : step.bind) {
    const ColumnView from = table.column(b.column);
    uint32_t* to = out.columns[b.slot] + out.count;
    for (uint32_t k = 0; k < n; k++) to[k] = from[rows_[k]];
  }
  counts_[at].passed += n;
  out.count += n;
  if (out.count == kBatch) {
    advance(at + 1, out);
    out.count = 0;
  }
  if (searched_ >= next_check_) {
    next_check_ = searched_ + kRowsBetweenChecks;
    stopped_ = stopped_ || sink_.should_stop();
    if (!stopped_ && static_cast<double>(searched_) > most_rows_) stopped_ = wants_restart_ = sink_.restart();
  }
}

void JoinRun::keep(const PlanStep& step, Batch& batch, const uint32_t* kept, uint32_t count) {
  if (count != batch.count) {
    for (const Slot s : step.carry) {
      uint32_t* column = batch.columns[s];
      for (uint32_t k = 0; k < count; k++) column[k] = column[kept[k]];
    }
  }
  batch.count = count;
}

void JoinRun::get(const PlanStep& step, Batch& batch) {
  const Table& table = state_.at(query_.atoms[step.at].function).table;
  const RowRange range = ranges_[step.at];
  const uint32_t* keys[64];
  std::vector<const uint32_t*> wide;
  const uint32_t** key = keys;
  if (step.key.size() > 64) {
    wide.resize(step.key.size());
    key = wide.data();
  }
  for (const ColumnSlot& k : step.key) key[k.column] = batch.columns[k.slot];
  uint32_t *kept = source_, *found = rows_, count = 0;  // free: pairs are pending inside a scan or probe only
  searched_ += batch.count;
  if (table.rows() != 0) {
    with_width(table.key_width(), [&](auto width) {
      constexpr uint32_t K = decltype(width)::value;
      table.find_each<K>(key, batch.count, [&](uint32_t i, uint32_t, Row newest) {
        const Row row = table.visible_in(newest, range.end);
        if (row == kNoRow || row < range.begin || row >= range.end || !table.is_live(row)) return;
        if (table.has_subsumed() && !query_.match_subsumed && table.is_subsumed(row)) return;
        bool pass = true;
        for (const ColumnSlot& c : step.check)
          pass &= table.column(c.column)[row] == batch.columns[c.slot][i];
        kept[count] = i;
        found[count] = row;
        count += pass ? 1 : 0;
      });
    });
  }
  keep(step, batch, kept, count);
  for (const ColumnSlot& b : step.bind) {
    const ColumnView from = table.column(b.column);
    uint32_t* to = batch.columns[b.slot];
    for (uint32_t k = 0; k < count; k++) to[k] = from[found[k]];
  }
}

void JoinRun::call(const PlanStep& step, Batch& batch) {
  const CompiledCall& call = query_.calls[step.at];
  uint32_t* output = batch.columns[call.output];
  uint32_t *kept = source_, count = 0;
  std::vector<Value> args(call.args.size());
  for (uint32_t i = 0; i < batch.count; i++) {
    for (size_t a = 0; a < args.size(); a++) args[a] = batch.columns[call.args[a]][i];
    state_.poll();
    const std::optional<Value> result = state_.call_primitive(call.primitive, args);
    if (!result) continue;
    if (step.binds_output) {
      if (output != nullptr) output[count] = *result;  // count <= i: what lies there was read already
    } else if (output[i] != *result) {
      continue;
    }
    kept[count++] = i;
  }
  keep(step, batch, kept, count);
}

bool run_query(EngineState& state, const CompiledQuery& query, MatchSink& sink) {
  if (query.never) return true;
  for (const auto& [a, b] : query.equal)
    if (state.canonical(query.slots[a].sort, query.slots[a].value) !=
        state.canonical(query.slots[b].sort, query.slots[b].value))
      return true;
  const std::vector<RowRange> ranges = all_rows(state, query);
  if (std::ranges::any_of(ranges, [](const RowRange& range) { return range.size() == 0; })) return true;
  const JoinPlan plan = make_plan(state, query, ranges);
  prepare_indexes(state, query, plan, ranges);
  return JoinRun(state, query, plan, ranges, sink, state.scratch).run();
}

}  // namespace luminal::egraph
