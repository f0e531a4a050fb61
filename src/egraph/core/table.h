#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "egraph/core/column.h"
#include "egraph/core/keys.h"
#include "luminal/egraph.h"

namespace luminal::egraph {

class Team;

/// In the first and the last column of a row that is gone. No value is equal to it.
inline constexpr uint32_t kDead = 0xffffffff;

/// The values of one column.
class ColumnView {
 public:
  ColumnView(const uint32_t* first, uint32_t stride) : first_(first), stride_(stride) {}
  uint32_t operator[](Row row) const { return first_[size_t{row} * stride_]; }

 private:
  const uint32_t* first_;
  uint32_t stride_;
};

/// One function's rows (keys, then the output if there is one), append-only, and one open-addressing hash on
/// the key. Rows lie together: nearly all access is to whole rows at random places, and then a row costs one
/// cache line instead of one for each column. Row order is insertion order, so "what is new since then" is a
/// suffix. A changed row is a dead one and an append.
///
/// While a step (one iteration of a ruleset) runs, its matches must see the rows as they were when it began:
/// rows that are changed or deleted meanwhile stay in place until `end_step`.
class Table {
 public:
  Table(uint32_t key_width, bool has_output);

  [[nodiscard]] uint32_t key_width() const { return key_width_; }
  [[nodiscard]] bool has_output() const { return has_output_; }
  [[nodiscard]] uint32_t width() const { return width_; }
  [[nodiscard]] Row rows() const { return rows_; }  ///< dead ones included
  [[nodiscard]] Row live_rows() const { return rows() - dead_; }
  /// Valid until rows are added.
  [[nodiscard]] ColumnView column(uint32_t c) const { return {cells_.data() + c, width_}; }
  [[nodiscard]] uint32_t output_of(Row row) const {
    return has_output_ ? cells(row)[key_width_] : kUnitValue;
  }
  [[nodiscard]] bool is_live(Row row) const { return cells(row)[width_ - 1] != kDead; }
  [[nodiscard]] size_t size_bytes() const;

  // -- The hash.

  /// Needs at least one reserve() before.
  template <uint32_t K>
  [[nodiscard]] KeyProbe<K> probe() const {
    return {slots_.data(), slots_.size(), cells_.data(), key_width_, width_};
  }
  /// Calls `body(i, hash, row)` for each of `count` keys, `keys` being their columns; row is the newest with
  /// the key at that moment, or kNoRow.
  template <uint32_t K, class Body>
  void find_each(const uint32_t* const* keys, size_t count, Body&& body) const {
    const auto now = [this] { return probe<K>(); };  // the body may make the table grow
    const auto find = [&](uint32_t i, uint32_t hash) {
      body(i, hash, now().find(hash, [keys, i](uint32_t c) { return keys[c][i]; }));
    };
    each_ahead(now, keys, 0, count, [](size_t) {}, find);
  }
  [[nodiscard]] Row find(std::span<const Value> key) const;
  /// Of a key's versions (`row` is the newest) the one that a search of rows [0, end) sees.
  [[nodiscard]] Row visible_in(Row row, Row end) const {
    while (row != kNoRow && row >= end && row >= step_begin_) {
      const size_t at = row - step_begin_;
      row = at < previous_.size() ? previous_[at] : kNoRow;
    }
    return row;
  }

  // -- Changes.

  struct Growth {
    size_t slots = 0, bytes = 0;
  };
  /// Slots that `reserve` would refill, and by how much they would grow.
  [[nodiscard]] Growth growth(size_t count) const;
  /// Room for `count` appends: no column and no slot moves until then.
  void reserve(size_t count, Team* team = nullptr);
  /// The same for rows that take the place of others that died, where memory is short: the hash grows only if
  /// it is nearly full with the slots of dead rows freed.
  void reserve_tightly(size_t count, Team* team);
  /// Appends; the key must be missing. The caller reserved.
  template <uint32_t K>
  Row append_at(const uint32_t* const* keys, size_t i, uint32_t hash, uint32_t output) {
    const Row row = rows();
    put(hash, row);
    uint32_t* at = add_cells();
    for (uint32_t c = 0; c < (K != 0 ? K : key_width_); c++) at[c] = keys[c][i];
    if (has_output_) at[key_width_] = output;
    return row;
  }
  Row append(std::span<const Value> key, Value output);
  /// Gives the key of `row` a new output. Returns the row that holds it now.
  Row change_output(Row row, Value output);
  /// Outside a step: the rows get these outputs, in this order, at the end.
  void change_outputs(std::span<const Row> rows, std::span<const Value> outputs, Team* team = nullptr);
  /// Removes a row; in a step rows that existed before it stay visible until its end.
  void remove(Row row);
  /// True if the row was removed in this step and is still visible to it.
  [[nodiscard]] bool is_doomed(Row row) const {
    return (row >> 6) < doomed_bits_.size() && (doomed_bits_[row >> 6] >> (row & 63) & 1) != 0;
  }
  /// For tables that rules delete from: the row was put again in this step, so a deletion in it has no
  /// effect.
  void set_deletable() { deletable_ = true; }
  [[nodiscard]] bool is_deletable() const { return deletable_; }
  void touch(Row row);
  /// Puts a key back whose row is doomed. Returns its new row.
  Row revive(Row row, Value output);
  /// Hash entry of `row` (about to die) leads to `replacement` from now on.
  void retarget(Row row, Row replacement);
  /// Only for rebuilding: the row dies now, its hash entry dangles until the next compaction.
  void kill(Row row) {
    wipe(row);
    count_wiped(1);
  }
  /// The two halves of `kill`, for several threads.
  void wipe(Row row) {
    cells(row)[0] = kDead;
    cells(row)[width_ - 1] = kDead;
  }
  void count_wiped(size_t count) {
    dead_ += static_cast<Row>(count);
    kills_ += count;
  }

  [[nodiscard]] bool has_subsumed() const { return !subsumed_.empty(); }
  [[nodiscard]] bool is_subsumed(Row row) const {
    return (row >> 6) < subsumed_.size() && (subsumed_[row >> 6] >> (row & 63) & 1) != 0;
  }
  void mark_subsumed(Row row);

  // -- Steps and time.

  [[nodiscard]] bool in_step() const { return in_step_; }
  /// Rows [0, step_begin) are what the step sees; they get the time `clock` as their upper bound.
  void begin_step(uint32_t clock);
  [[nodiscard]] Row step_begin() const { return step_begin_; }
  void end_step();
  /// First row that was appended at or after the step with this clock began.
  [[nodiscard]] Row row_at(uint32_t clock) const;

  /// Closes the gaps of dead rows if there are many. Not inside a step.
  void compact_if_sparse(Team* team);
  void compact(Team* team);
  /// Changes when rows moved: indexes are void.
  [[nodiscard]] uint32_t generation() const { return generation_; }
  /// Grows with each death: an index with another count must check that its rows are alive.
  [[nodiscard]] uint64_t kills() const { return kills_; }
  void clear();

  /// Ids that rows were made with, where explanations are kept; parallel to the rows.
  Column terms;

 private:
  struct Epoch {
    uint32_t clock;
    Row begin;
  };

  friend class ParallelInsert;
  [[nodiscard]] const uint32_t* cells(Row row) const { return cells_.data() + size_t{row} * width_; }
  [[nodiscard]] uint32_t* cells(Row row) { return cells_.data() + size_t{row} * width_; }
  /// One more row; the caller reserved.
  uint32_t* add_cells() {
    cells_.truncate(cells_.size() + width_);
    return cells(rows_++);
  }
  /// Leads the hash to a row whose key it does not hold.
  void put(uint32_t hash, Row row) {
    const KeyProbe<0> slots = probe<0>();
    const size_t at = slots.walk(slots.home(hash), hash, slots.plain, [](Row) { return false; }).at;
    slots_[at] = HashSlot(hash, row).bits;
    used_++;
  }
  /// Where the slot is that leads to this row, which is there.
  [[nodiscard]] size_t slot_of(uint32_t hash, Row row) const;
  /// The first slot for hashes of the t-th of n equal ranges.
  [[nodiscard]] static size_t first_slot(size_t capacity, uint32_t t, uint32_t n) {
    if (t == n) return capacity;
    const uint64_t hash = ((uint64_t{t} << 32) + n - 1) / n;
    return (hash * capacity) >> 32;
  }
  [[nodiscard]] uint32_t hash_of_row(Row row) const;
  void resize_slots(size_t capacity, Team* team);
  template <class NewRow>
  void refill_slots(size_t capacity, Team* team, NewRow&& new_row);
  template <class IsAlive>
  void close_gaps(Row count, Team* team, IsAlive&& is_alive);
  void move_outputs(std::span<const Row> rows, std::span<const Value> outputs, Row first);
  Row append_copy(Row row, Value output);

  uint32_t key_width_, width_;
  bool has_output_, in_step_ = false, deletable_ = false;
  Column cells_;  // width_ of them for each row
  Row rows_ = 0;
  Buffer<uint64_t> slots_;  // contents of HashSlot
  size_t used_ = 0;
  Row dead_ = 0;
  uint64_t kills_ = 0;
  uint32_t generation_ = 0;
  Row step_begin_ = 0;
  Column previous_;          // of row step_begin_ + i: the row it replaced in this step
  std::vector<Row> doomed_;  // rows deleted in this step
  Buffer<uint64_t> doomed_bits_, touched_bits_;
  std::vector<Row> replaced_;  // rows that changed in this step
  std::vector<Epoch> epochs_;
  Buffer<uint64_t> subsumed_;
};

}  // namespace luminal::egraph
