#include "egraph/core/parallel_insert.h"

#include <algorithm>

namespace luminal::egraph {

uint32_t ParallelInsert::run(Table& table, const Keys& keys, uint32_t* results) {
  table_ = &table;
  keys_ = keys;
  base_ = table.rows();
  if (rank_.size() < keys.count) rank_.resize(keys.count);
  for (uint32_t t = 0; t < team_.size(); t++) {
    pieces_[t].begin = static_cast<uint32_t>(team_.piece(keys.count, t));
    pieces_[t].end = static_cast<uint32_t>(team_.piece(keys.count, t + 1));
    owned_[t].end = Table::first_slot(table.capacity_, t + 1, team_.size());
    owned_[t].deferred.clear();
  }
  with_width(table.key_width(), [&](auto width) {
    constexpr uint32_t K = decltype(width)::value;
    team_.run([&](uint32_t t) { sort_by_owner<K>(pieces_[t]); });
    team_.run([&](uint32_t t) { find_owned<K>(t); });
    find_deferred<K>();
    team_.run([&](uint32_t t) { rank(pieces_[t]); });
    uint32_t fresh = 0;
    for (Piece& piece : pieces_) {
      piece.fresh_before = fresh;
      fresh += piece.fresh;
    }
    table.used_ += fresh;
    table.rows_ += fresh;
    table.cells_.truncate(size_t{table.rows_} * table.width_);
    team_.run([&](uint32_t t) {
      write_rows<K>(pieces_[t], results);
      if (fresh != 0) write_slots(t);
    });
  });
  differences_.clear();
  for (const Piece& piece : pieces_)
    differences_.insert(differences_.end(), piece.differences.begin(), piece.differences.end());
  return table.rows() - base_;
}

template <uint32_t K>
void ParallelInsert::sort_by_owner(Piece& piece) {
  piece.by_owner.resize(team_.size());
  for (std::vector<Entry>& list : piece.by_owner) {
    list.clear();
    list.reserve(piece.end - piece.begin);
  }
  piece.differences.clear();
  for (uint32_t i = piece.begin; i < piece.end; i++) {
    const uint32_t hash = table_->hash_at<K>(keys_.columns, i);
    piece.by_owner[owner_of(hash)].push_back({i, hash, kNoRow, 0});
  }
}

template <uint32_t K>
void ParallelInsert::find_owned(uint32_t owner) {
  constexpr size_t kSlotsAhead = 48, kRowsAhead = 16;
  const size_t end = owned_[owner].end;
  for (Piece& piece : pieces_) {
    std::vector<Entry>& list = piece.by_owner[owner];
    const size_t count = list.size();
    for (size_t i = 0; i < std::min(kSlotsAhead, count); i++) table_->prefetch_slot(list[i].hash);
    for (size_t i = 0; i < count; i++) {
      if (i + kSlotsAhead < count) table_->prefetch_slot(list[i + kSlotsAhead].hash);
      if (i + kRowsAhead < count) {
        const size_t home = table_->home(list[i + kRowsAhead].hash);
        const Row row = home < end ? static_cast<Row>(table_->slots_[home]) - 1 : kNoRow;
        if (row < base_) table_->prefetch_cells(row);
      }
      if (!find<K>(list[i], table_->home(list[i].hash), end)) owned_[owner].deferred.push_back(&list[i]);
    }
  }
}

/// Looks at slots from `from` on; false if the answer lies at `end` or later.
template <uint32_t K>
bool ParallelInsert::find(Entry& key, size_t from, size_t end) {
  Table& table = *table_;
  const uint32_t width = K != 0 ? K : table.key_width_;
  for (size_t s = from; s < end; s++) {
    const uint64_t slot = table.slots_[s];
    if (slot == 0) {
      table.slots_[s] = (uint64_t{key.hash} << 32) | (base_ + key.at + 1);
      const size_t home = table.home(key.hash);
      key.present = static_cast<uint32_t>(s >= home ? s - home : s + table.capacity_ - home);
      return true;
    }
    if (static_cast<uint32_t>(slot >> 32) != key.hash) continue;
    const Row row = static_cast<Row>(slot) - 1;
    bool same = true;
    if (row < base_) {
      const uint32_t* at = table.cells(row);
      for (uint32_t c = 0; c < width; c++) same &= at[c] == keys_.columns[c][key.at];
      if (same) key.present = table.output_of(row);
    } else {
      for (uint32_t c = 0; c < width; c++) same &= keys_.columns[c][row - base_] == keys_.columns[c][key.at];
    }
    if (!same) continue;
    key.row = row;
    return true;
  }
  return false;
}

// Equal keys were deferred by one thread, in order; different ones do not meet.
template <uint32_t K>
void ParallelInsert::find_deferred() {
  for (const Owned& owned : owned_) {
    for (Entry* key : owned.deferred) {
      const size_t home = table_->home(key->hash);
      if (!find<K>(*key, home, table_->capacity_)) (void)find<K>(*key, 0, home);
    }
  }
}

// Numbers the new keys of a piece in order: marks them, then sums.
void ParallelInsert::rank(Piece& piece) {
  uint32_t* rank = rank_.data();
  for (const std::vector<Entry>& list : piece.by_owner)
    for (const Entry& key : list) rank[key.at] = key.row == kNoRow ? 1 : 0;
  uint32_t fresh = 0;
  for (uint32_t i = piece.begin; i < piece.end; i++) {
    const uint32_t is_new = rank[i];
    rank[i] = fresh;
    fresh += is_new;
  }
  piece.fresh = fresh;
}

/// Output of the row that key `at`, a new one, gets.
Value ParallelInsert::output_of_new(uint32_t at) const {
  if (!table_->has_output_) return kUnitValue;
  if (keys_.outputs != nullptr) return keys_.outputs[at];
  uint32_t t = static_cast<uint32_t>(uint64_t{at} * team_.size() / keys_.count);
  while (at >= pieces_[t].end) t++;
  return keys_.first_id + pieces_[t].fresh_before + rank_[at];
}

template <uint32_t K>
void ParallelInsert::write_rows(Piece& piece, uint32_t* results) {
  Table& table = *table_;
  const uint32_t width = K != 0 ? K : table.key_width_;
  for (const std::vector<Entry>& list : piece.by_owner) {
    for (const Entry& key : list) {
      Value output = key.present;
      if (key.row == kNoRow) {
        const uint32_t rank = piece.fresh_before + rank_[key.at];
        uint32_t* cells = table.cells(base_ + rank);
        for (uint32_t c = 0; c < width; c++) cells[c] = keys_.columns[c][key.at];
        output = keys_.outputs != nullptr ? keys_.outputs[key.at] : keys_.first_id + rank;
        if (table.has_output_)
          cells[width] = output;
        else
          output = kUnitValue;
      } else {
        if (key.row >= base_) output = output_of_new(key.row - base_);
        if (keys_.outputs != nullptr && output != keys_.outputs[key.at])
          piece.differences.push_back({key.at, output});
      }
      if (results != nullptr) results[key.at] = output;
    }
  }
  std::sort(piece.differences.begin(), piece.differences.end(),
            [](const Difference& a, const Difference& b) { return a.at < b.at; });
}

// Provisional rows become the real ones.
void ParallelInsert::write_slots(uint32_t owner) {
  for (const Piece& piece : pieces_) {
    for (const Entry& key : piece.by_owner[owner]) {
      if (key.row != kNoRow) continue;
      size_t s = table_->home(key.hash) + key.present;
      if (s >= table_->capacity_) s -= table_->capacity_;
      table_->slots_[s] = (uint64_t{key.hash} << 32) | (base_ + piece.fresh_before + rank_[key.at] + 1);
    }
  }
}

}  // namespace luminal::egraph
