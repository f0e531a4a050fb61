#include "egraph/core/join_index.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "egraph/core/team.h"

namespace luminal::egraph {

namespace {

/// One more than the largest key of the rows that are alive.
uint32_t limit_of(ColumnView keys, ColumnView live, Row begin, Row end) {
  uint32_t limit = 0;
  for (Row row = begin; row < end; row++)
    if (live[row] != kDead) limit = std::max(limit, keys[row] + 1);
  return limit;
}

uint32_t limit_of(ColumnView keys, ColumnView live, Row begin, Row end, Team& team) {
  std::vector<uint32_t> limits(team.pieces());
  team.split(end - begin, [&](uint32_t p, size_t from, size_t to) {
    limits[p] = limit_of(keys, live, begin + static_cast<Row>(from), begin + static_cast<Row>(to));
  });
  return *std::max_element(limits.begin(), limits.end());
}

}  // namespace

JoinIndex::Part::Part(const Table& table, const std::vector<uint32_t>& columns, Row begin, Row end,
                      Team* team)
    : begin_(begin), end_(end), key_width_(static_cast<uint32_t>(columns.size())), kills_(table.kills()) {
  const ColumnView live = table.column(table.width() - 1);
  if (columns.size() == 1) {
    const ColumnView keys = table.column(columns[0]);
    const uint32_t limit =
        team == nullptr ? limit_of(keys, live, begin, end) : limit_of(keys, live, begin, end, *team);
    const uint64_t dense = 4 * uint64_t{end - begin} + 256;
    if (limit <= dense) {
      // Each thread counts on its own: fewer of them where that is more than a few counters a row.
      const auto threads = static_cast<uint32_t>(
          team == nullptr ? 1 : std::min<uint64_t>(team->size(), dense / std::max<uint32_t>(1, limit)));
      if (threads > 1)
        build_direct(keys, live, limit, *team, threads);
      else
        build_direct(keys, live, limit);
      return;
    }
  }
  build_hashed(table, columns);
}

void JoinIndex::Part::build_direct(ColumnView keys, ColumnView live, uint32_t key_limit) {
  direct_ = true;
  // Counted two places ahead: placing the rows then leaves each group's start where it belongs.
  starts_.assign(key_limit + 2, 0);
  uint32_t* starts = starts_.data();
  for (Row row = begin_; row < end_; row++)
    if (live[row] != kDead) starts[keys[row] + 2]++;
  for (size_t i = 2; i < starts_.size(); i++) starts[i] += starts[i - 1];
  rows_.resize_uninitialized(starts_.back());
  uint32_t* rows = rows_.data();
  for (Row row = begin_; row < end_; row++)
    if (live[row] != kDead) rows[starts[keys[row] + 1]++] = row;
}

// Each thread counts the keys of its rows; from all counts follows where the rows of each thread and key
// begin.
void JoinIndex::Part::build_direct(ColumnView keys, ColumnView live, uint32_t key_limit, Team& team,
                                   uint32_t threads) {
  direct_ = true;
  std::vector<Column> places(threads);
  const auto first_row = [&](uint32_t t) {
    return begin_ + static_cast<Row>(uint64_t{end_ - begin_} * t / threads);
  };
  for (Column& counts : places) {
    counts.reserve(key_limit);
    counts.touch(0, key_limit);
  }
  team.run(threads, [&](uint32_t t) {
    places[t].assign(key_limit, 0);
    uint32_t* counts = places[t].data();
    for (Row row = first_row(t); row < first_row(t + 1); row++)
      if (live[row] != kDead) counts[keys[row]]++;
  });
  std::vector<uint32_t> before(team.pieces() + 1, 0);
  team.split(key_limit, [&](uint32_t p, size_t from, size_t to) {
    for (const Column& counts : places)
      before[p + 1] = std::accumulate(counts.data() + from, counts.data() + to, before[p + 1]);
  });
  for (size_t p = 1; p < before.size(); p++) before[p] += before[p - 1];
  starts_.resize_uninitialized(key_limit + 2);
  starts_[key_limit] = starts_[key_limit + 1] = before.back();
  rows_.resize_uninitialized(before.back());
  starts_.touch(0, starts_.size());
  rows_.touch(0, rows_.size());
  team.split(key_limit, [&](uint32_t p, size_t from, size_t to) {
    uint32_t place = before[p];
    for (size_t key = from; key < to; key++) {
      starts_[key] = place;
      for (Column& counts : places) place += std::exchange(counts[key], place);
    }
  });
  team.run(threads, [&](uint32_t t) {
    uint32_t* const next = places[t].data();
    uint32_t* const rows = rows_.data();
    for (Row row = first_row(t); row < first_row(t + 1); row++)
      if (live[row] != kDead) rows[next[keys[row]]++] = row;
  });
}

void JoinIndex::Part::build_hashed(const Table& table, const std::vector<uint32_t>& columns) {
  const ColumnView live = table.column(table.width() - 1);
  std::vector<ColumnView> keys;
  for (const uint32_t c : columns) keys.push_back(table.column(c));
  const size_t count = end_ - begin_;
  slots_.assign(std::max<size_t>(8, std::bit_ceil(count * 3 / 2)), 0);
  Column group_of;
  group_of.resize_uninitialized(count);
  Column sizes;
  uint32_t live_count = 0;
  constexpr size_t kPrefetched = 64;
  uint32_t hashes[kPrefetched];
  for (Row first = begin_; first < end_; first += kPrefetched) {
    const Row n = std::min<Row>(kPrefetched, end_ - first);
    for (Row i = 0; i < n; i++) {
      hashes[i] = hash_key<0>(key_width_, [&](uint32_t c) { return keys[c][first + i]; });
      __builtin_prefetch(&slots_[slot_of(hashes[i])], 1);
    }
    for (Row i = 0; i < n; i++) {
      const Row row = first + i;
      if (live[row] == kDead) continue;
      live_count++;
      size_t s = slot_of(hashes[i]);
      uint32_t group = 0;
      for (;; s = s + 1 == slots_.size() ? 0 : s + 1) {
        const uint64_t slot = slots_[s];
        if (slot == 0) {
          group = static_cast<uint32_t>(sizes.size());
          slots_[s] = (uint64_t{hashes[i]} << 32) | (group + 1);
          sizes.push_back(0);
          for (const ColumnView& key : keys) group_keys_.push_back(key[row]);
          break;
        }
        if (static_cast<uint32_t>(slot >> 32) != hashes[i]) continue;
        group = static_cast<uint32_t>(slot) - 1;
        const uint32_t* known = group_keys_.data() + size_t{group} * key_width_;
        bool same = true;
        for (uint32_t c = 0; c < key_width_; c++) same &= known[c] == keys[c][row];
        if (same) break;
      }
      sizes[group]++;
      group_of[row - begin_] = group;
    }
  }
  starts_.assign(sizes.size() + 2, 0);
  for (size_t g = 0; g < sizes.size(); g++) starts_[g + 2] = starts_[g + 1] + sizes[g];
  rows_.resize_uninitialized(live_count);
  for (Row row = begin_; row < end_; row++)
    if (live[row] != kDead) rows_[starts_[group_of[row - begin_] + 1]++] = row;
}

JoinIndex::Range JoinIndex::Part::find_hashed(uint32_t hash, const uint32_t* key) const {
  for (size_t s = slot_of(hash);; s = s + 1 == slots_.size() ? 0 : s + 1) {
    const uint64_t slot = slots_[s];
    if (slot == 0) return {nullptr, nullptr};
    if (static_cast<uint32_t>(slot >> 32) != hash) continue;
    const uint32_t group = static_cast<uint32_t>(slot) - 1;
    const uint32_t* known = group_keys_.data() + size_t{group} * key_width_;
    bool same = true;
    for (uint32_t c = 0; c < key_width_; c++) same &= known[c] == key[c];
    if (same) return {rows_.data() + starts_[group], rows_.data() + starts_[group + 1]};
  }
}

size_t JoinIndex::Part::size_bytes() const {
  return starts_.size_bytes() + rows_.size_bytes() + slots_.size_bytes() + group_keys_.size_bytes();
}

JoinIndex::Step JoinIndex::next_step(const Table& table, Row end) const {
  if (is_void(table)) return {0, 0, end};
  if (covered() >= end) return {parts_.size(), end, end};
  Step step{parts_.size(), covered(), end};
  for (; step.kept != 0; step.kept--) {
    const Part& last = parts_[step.kept - 1];
    if (last.end() - last.begin() >= 2 * (end - step.begin)) break;
    step.begin = last.begin();
  }
  return step;
}

void JoinIndex::ensure(const Table& table, Row end, Team* team) {
  const Step step = next_step(table, end);
  if (is_void(table)) {
    generation_ = table.generation();
    kills_ = table.kills();
  }
  parts_.erase(parts_.begin() + static_cast<std::ptrdiff_t>(step.kept), parts_.end());
  if (step.begin != step.end) parts_.emplace_back(table, columns_, step.begin, step.end, team);
}

Row JoinIndex::missing(const Table& table, Row end) const {
  if (generation_ != table.generation()) return end;
  return covered() >= end ? 0 : end - covered();
}

size_t JoinIndex::size_bytes() const {
  size_t bytes = 0;
  for (const Part& part : parts_) bytes += part.size_bytes();
  return bytes;
}

}  // namespace luminal::egraph
