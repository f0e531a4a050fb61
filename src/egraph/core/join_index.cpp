#include "egraph/core/join_index.h"

#include <algorithm>
#include <bit>

namespace luminal::egraph {

JoinIndex::Part::Part(const Table& table, const std::vector<uint32_t>& columns, Row begin, Row end)
    : begin_(begin), end_(end), key_width_(static_cast<uint32_t>(columns.size())), kills_(table.kills()) {
  const ColumnView live = table.column(table.width() - 1);
  if (columns.size() == 1) {
    const ColumnView keys = table.column(columns[0]);
    uint32_t limit = 0;
    for (Row row = begin; row < end; row++)
      if (live[row] != kDead) limit = std::max(limit, keys[row] + 1);
    if (limit <= 4 * uint64_t{end - begin} + 256) {
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
  constexpr size_t kBatch = 64;
  uint32_t hashes[kBatch];
  for (Row first = begin_; first < end_; first += kBatch) {
    const Row n = std::min<Row>(kBatch, end_ - first);
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

void JoinIndex::ensure(const Table& table, Row end) {
  // Dead rows in old parts cost a look each time; past an eighth, sorting again is cheaper.
  if (generation_ != table.generation() || table.kills() - kills_ > covered() / 8 + 64) {
    parts_.clear();
    generation_ = table.generation();
    kills_ = table.kills();
  }
  if (covered() >= end) return;
  Row begin = covered();
  while (!parts_.empty() && parts_.back().end() - parts_.back().begin() < 2 * (end - begin)) {
    begin = parts_.back().begin();
    parts_.pop_back();
  }
  parts_.emplace_back(table, columns_, begin, end);
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
