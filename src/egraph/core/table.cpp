#include "egraph/core/table.h"

#include <algorithm>
#include <atomic>
#include <bit>

#include "egraph/core/pages.h"
#include "egraph/core/team.h"

namespace luminal::egraph {

namespace {

// From so many slots on, a hash that moves gives its memory back bit by bit: that takes time.
constexpr size_t kReleased = size_t{1} << 21, kReleasedAtOnce = kHugePageBytes / sizeof(uint64_t);

// At most this part of the slots is used.
constexpr size_t kFull = 3, kFullOf = 4;

size_t slots_for(size_t count) { return std::max<size_t>(16, std::bit_ceil(count * kFullOf / kFull + 1)); }

}  // namespace

Table::Table(uint32_t key_width, bool has_output)
    : key_width_(key_width), width_(key_width + (has_output ? 1 : 0)), has_output_(has_output) {}

size_t Table::size_bytes() const {
  size_t bytes = slots_.size_bytes() + subsumed_.size_bytes() + terms.size_bytes();
  bytes += cells_.size_bytes();
  return bytes;
}

uint32_t Table::hash_of_row(Row row) const {
  return hash_key<0>(key_width_, [&](uint32_t c) { return cells(row)[c]; });
}

Row Table::find(std::span<const Value> key) const {
  if (slots_.empty()) return kNoRow;
  const auto at = [key](uint32_t c) { return key[c]; };
  return probe<0>().find(probe<0>().hash(at), at);
}

size_t Table::slot_of(uint32_t hash, Row row) const {
  const KeyProbe<0> slots = probe<0>();
  return slots.walk(slots.home(hash), hash, slots.relaxed, [row](Row found) { return found == row; }).at;
}

Table::Growth Table::growth(size_t count) const {
  const size_t needed = used_ + count;
  if (needed * kFullOf <= slots_.size() * kFull) return {};
  return {slots_.size(), (slots_for(needed) - slots_.size()) * sizeof(uint64_t)};
}

void Table::reserve(size_t count, Team* team) {
  const size_t needed = used_ + count;
  if (needed * kFullOf > slots_.size() * kFull) resize_slots(slots_for(needed), team);
  const size_t cells = (size_t{rows_} + count) * width_;
  if (cells > cells_.capacity()) cells_.reserve(std::max(cells, cells_.size() * 2));
}

// Slots of dead rows are freed when an eighth is left: at least that many are, since live rows had room
// before.
void Table::reserve_tightly(size_t count, Team* team) {
  const auto fits = [&] { return (used_ + count) * 8 <= slots_.size() * 7; };
  if (!fits()) refill_slots(slots_.size(), team, [this](Row row) { return is_live(row) ? row : kNoRow; });
  if (!fits()) return reserve(count, team);
  const size_t cells = (size_t{rows_} + count) * width_;
  if (cells > cells_.capacity()) cells_.reserve(std::max(cells, cells_.size() * 2));
}

void Table::resize_slots(size_t capacity, Team* team) {
  refill_slots(capacity, team, [](Row row) { return row; });
}

// Homes grow with the hash, so walking the old slots in order writes the new ones nearly in order, and a
// range of hashes is a range of both: each thread moves one. Slots that stand, or come to stand, outside are
// moved alone. Many old slots are given back a few at a time, so that the peak is the new ones alone.
template <class NewRow>
void Table::refill_slots(size_t capacity, Team* team, NewRow&& new_row) {
  Buffer<uint64_t> old;
  old.swap(slots_);
  const size_t old_capacity = old.size();
  slots_.assign_zeros(capacity);
  const KeyProbe<0> slots = probe<0>();
  const uint32_t ranges = team == nullptr ? 1 : team->pieces();
  const bool gives_back = old_capacity >= kReleased;
  const uint32_t rounds = gives_back ? static_cast<uint32_t>(old_capacity / kReleasedAtOnce) : 1;
  struct Part {
    size_t used = 0;
    std::vector<HashSlot> outside;
  };
  const uint32_t parts = ranges * rounds;
  std::vector<Part> done(parts);
  const auto move_part = [&](uint32_t t) {
    const size_t begin = first_slot(old_capacity, t, parts), end = first_slot(old_capacity, t + 1, parts);
    const size_t first = first_slot(capacity, t, parts), last = first_slot(capacity, t + 1, parts);
    Part part;
    // Which slots are used can't be predicted: first they are put together without branches.
    constexpr size_t kTogether = 256;
    uint64_t together[kTogether];
    uint64_t* const to = slots_.data();
    for (size_t o = begin; o < end; o += kTogether) {
      size_t count = 0;
      for (size_t i = o; i < std::min(o + kTogether, end); i++) {
        together[count] = old[i];
        count += old[i] != 0 ? 1 : 0;
      }
      for (size_t i = 0; i < count; i++) {
        const uint32_t hash = HashSlot(together[i]).hash();
        const Row row = new_row(HashSlot(together[i]).row());
        if (row == kNoRow) continue;
        size_t s = slots.home(hash);
        if (s >= first)
          while (s < last && to[s] != 0) s++;
        if (s < first || s >= last) {
          part.outside.emplace_back(hash, row);
          continue;
        }
        to[s] = HashSlot(hash, row).bits;
        part.used++;
      }
    }
    done[t] = std::move(part);
  };
  for (uint32_t round = 0; round < rounds; round++) {
    const uint32_t begin = round * ranges, end = begin + ranges;
    if (team == nullptr) {
      move_part(begin);
    } else {
      slots_.touch(first_slot(capacity, begin, parts), first_slot(capacity, end, parts));
      team->run(ranges, [&](uint32_t t) { move_part(begin + t); });
    }
    if (gives_back)
      release_pages(old.data() + first_slot(old_capacity, begin, parts),
                    old.data() + first_slot(old_capacity, end, parts));
  }
  used_ = 0;
  for (const Part& part : done) used_ += part.used;
  for (const Part& part : done)
    for (const HashSlot slot : part.outside) put(slot.hash(), slot.row());
}

Row Table::append(std::span<const Value> key, Value output) {
  reserve(1);
  const Row row = rows();
  put(hash_key<0>(key_width_, [&](uint32_t c) { return key[c]; }), row);
  uint32_t* at = add_cells();
  std::copy_n(key.data(), key_width_, at);
  if (has_output_) at[key_width_] = output;
  return row;
}

void Table::retarget(Row row, Row replacement) {
  const uint32_t hash = hash_of_row(row);
  slots_[slot_of(hash, row)] = HashSlot(hash, replacement).bits;
}

// The same key with another output, at the end; the hash leads there.
Row Table::append_copy(Row row, Value output) {
  cells_.reserve(cells_.size() + width_);
  const Row next = rows();
  retarget(row, next);
  uint32_t* at = add_cells();
  std::copy_n(cells(row), width_, at);
  if (has_output_) at[key_width_] = output;
  if (!terms.empty()) terms.push_back(terms[row]);
  return next;
}

Row Table::change_output(Row row, Value output) {
  if (in_step_ && row >= step_begin_) {  // nobody has seen it yet
    cells(row)[key_width_] = output;
    return row;
  }
  const Row next = append_copy(row, output);
  if (is_subsumed(row)) mark_subsumed(next);
  if (in_step_) {
    previous_.resize(next - step_begin_ + 1, kNoRow);
    previous_[next - step_begin_] = row;
    replaced_.push_back(row);
  } else {
    kill(row);
  }
  return next;
}

void Table::change_outputs(std::span<const Row> rows, std::span<const Value> outputs, Team* team) {
  const Row first = rows_;
  for (size_t i = 0; i < rows.size(); i++) {
    if (is_subsumed(rows[i])) mark_subsumed(first + static_cast<Row>(i));
    if (!terms.empty()) terms.push_back(terms[rows[i]]);
  }
  rows_ += static_cast<Row>(rows.size());
  cells_.resize_uninitialized(size_t{rows_} * width_);
  const auto move = [&](uint32_t, size_t begin, size_t end) {
    move_outputs(rows.subspan(begin, end - begin), outputs.subspan(begin, end - begin),
                 first + static_cast<Row>(begin));
  };
  if (team != nullptr) {
    cells_.touch(size_t{first} * width_, cells_.size());
    team->split(rows.size(), move);
  } else {
    move(0, 0, rows.size());
  }
  count_wiped(rows.size());
}

// Copies the rows to `first` and what follows, and leads their slots there. Other threads change other slots
// meanwhile: whichever value of those is seen, it isn't one of these rows.
void Table::move_outputs(std::span<const Row> rows, std::span<const Value> outputs, Row first) {
  constexpr size_t kAhead = 64;
  uint32_t hashes[kAhead];
  for (size_t begin = 0; begin < rows.size(); begin += kAhead) {
    const size_t n = std::min(kAhead, rows.size() - begin);
    for (size_t i = 0; i < n; i++) {
      hashes[i] = hash_of_row(rows[begin + i]);
      probe<0>().prefetch_slot(hashes[i]);
    }
    for (size_t i = 0; i < n; i++) {
      const Row row = rows[begin + i], next = first + static_cast<Row>(begin + i);
      std::atomic_ref(slots_[slot_of(hashes[i], row)])
          .store(HashSlot(hashes[i], next).bits, std::memory_order_relaxed);
      uint32_t* at = cells(next);
      std::copy_n(cells(row), key_width_, at);
      at[key_width_] = outputs[begin + i];
      wipe(row);
    }
  }
}

Row Table::revive(Row row, Value output) {
  const Row next = append_copy(row, output);
  previous_.resize(next - step_begin_ + 1, kNoRow);
  previous_[next - step_begin_] = row;
  return next;
}

namespace {
bool has_bit(const Buffer<uint64_t>& bits, Row row) {
  return (row >> 6) < bits.size() && (bits[row >> 6] >> (row & 63) & 1) != 0;
}
void set_bit(Buffer<uint64_t>& bits, Row row, Row size) {
  if (bits.empty()) bits.resize((size >> 6) + 1, 0);
  bits[row >> 6] |= uint64_t{1} << (row & 63);
}
}  // namespace

void Table::remove(Row row) {
  if (!in_step_) {
    kill(row);
  } else if (row < step_begin_ && !is_doomed(row) && !has_bit(touched_bits_, row)) {
    doomed_.push_back(row);
    set_bit(doomed_bits_, row, step_begin_);
  }
}

void Table::touch(Row row) {
  if (!in_step_ || row >= step_begin_) return;
  if (is_doomed(row))
    revive(row, has_output_ ? output_of(row) : kUnitValue);
  else
    set_bit(touched_bits_, row, step_begin_);
}

void Table::mark_subsumed(Row row) {
  const size_t word = row >> 6;
  if (word >= subsumed_.size()) subsumed_.resize(word + 1, 0);
  subsumed_[word] |= uint64_t{1} << (row & 63);
}

void Table::begin_step(uint32_t clock) {
  in_step_ = true;
  step_begin_ = rows();
  if (epochs_.empty() || epochs_.back().begin != step_begin_) epochs_.push_back({clock, step_begin_});
}

void Table::end_step() {
  for (const Row row : replaced_)
    if (is_live(row)) kill(row);
  for (const Row row : doomed_)
    if (is_live(row)) kill(row);
  replaced_.clear();
  doomed_.clear();
  doomed_bits_.clear();
  touched_bits_.clear();
  previous_.clear();
  in_step_ = false;
}

Row Table::row_at(uint32_t clock) const {
  // Epochs hold (clock, first row not seen by it). A step that found no growth shares the entry before it.
  const auto after = std::upper_bound(epochs_.begin(), epochs_.end(), clock,
                                      [](uint32_t at, const Epoch& epoch) { return at < epoch.clock; });
  return after == epochs_.begin() ? 0 : std::prev(after)->begin;
}

void Table::compact_if_sparse(Team* team) {
  if (dead_ >= 32 && uint64_t{dead_} * 4 > rows()) compact(team);
}

// Each piece of the rows moves together, then the pieces do.
template <class IsAlive>
void Table::close_gaps(Row count, Team* team, IsAlive&& is_alive) {
  struct Piece {
    size_t begin = 0, kept = 0;
  };
  std::vector<Piece> pieces(team == nullptr ? 1 : team->pieces());
  const auto close = [&](uint32_t p, size_t begin, size_t end) {
    Row to = static_cast<Row>(begin);
    for (Row row = to; row < end; row++) {
      if (!is_alive(row)) continue;
      if (to != row) std::copy_n(cells(row), width_, cells(to));
      if (!terms.empty()) terms[to] = terms[row];
      to++;
    }
    pieces[p] = {begin, to - begin};
  };
  if (team == nullptr)
    close(0, 0, count);
  else
    team->split(count, close);
  Row to = 0;
  for (const Piece& piece : pieces) {
    const Row from = static_cast<Row>(piece.begin);
    if (to != from) {
      std::copy_n(cells(from), piece.kept * width_, cells(to));
      if (!terms.empty()) std::copy_n(&terms[from], piece.kept, &terms[to]);
    }
    to += static_cast<Row>(piece.kept);
  }
  rows_ = to;
  cells_.truncate(size_t{to} * width_);
  if (!terms.empty()) terms.truncate(to);
}

void Table::compact(Team* team) {
  const Row count = rows();
  const size_t words = (size_t{count} >> 6) + 1;
  std::vector<uint64_t> live(words, 0);
  std::vector<Row> before(words + 1, 0);  // live rows before word w
  const ColumnView last = column(width_ - 1);
  const auto find_live = [&](uint32_t, size_t begin, size_t end) {
    for (size_t w = begin; w < end; w++) {
      const Row first = static_cast<Row>(w << 6), n = std::min<Row>(64, count - first);
      uint64_t bits = 0;
      for (Row i = 0; i < n; i++) bits |= uint64_t{last[first + i] != kDead} << i;
      live[w] = bits;
      before[w + 1] = static_cast<Row>(std::popcount(bits));
    }
  };
  if (team == nullptr)
    find_live(0, 0, words);
  else
    team->split(words, find_live);
  for (size_t w = 0; w < words; w++) before[w + 1] += before[w];
  const auto is_alive = [&](Row row) { return (live[row >> 6] >> (row & 63) & 1) != 0; };
  const auto moved = [&](Row row) {
    return before[row >> 6] +
           static_cast<Row>(std::popcount(live[row >> 6] & ((uint64_t{1} << (row & 63)) - 1)));
  };
  const size_t live_count = before.back();
  refill_slots(slots_for(live_count), team, [&](Row row) { return is_alive(row) ? moved(row) : kNoRow; });
  for (Epoch& epoch : epochs_)
    epoch.begin = epoch.begin >= count ? static_cast<Row>(live_count) : moved(epoch.begin);
  Buffer<uint64_t> subsumed;
  subsumed.swap(subsumed_);
  const auto was_subsumed = [&](Row row) {
    return (row >> 6) < subsumed.size() && (subsumed[row >> 6] >> (row & 63) & 1) != 0;
  };
  if (!subsumed.empty())
    for (Row row = 0; row < count; row++)
      if (last[row] != kDead && was_subsumed(row)) mark_subsumed(moved(row));
  close_gaps(count, team, is_alive);
  dead_ = 0;
  generation_++;
}

void Table::clear() {
  cells_.clear();
  rows_ = 0;
  terms.clear();
  if (slots_.size() > 1024)
    slots_.release();
  else
    std::fill_n(slots_.data(), slots_.size(), 0);
  used_ = 0;
  dead_ = 0;
  generation_++;
  step_begin_ = 0;
  in_step_ = false;
  previous_.clear();
  doomed_.clear();
  doomed_bits_.clear();
  touched_bits_.clear();
  replaced_.clear();
  epochs_.clear();
  subsumed_.clear();
}

}  // namespace luminal::egraph
