#include "egraph/core/parallel_insert.h"

#include <algorithm>
#include <atomic>
#include <bit>

namespace luminal::egraph {

namespace {
constexpr size_t kGroup = 64;
}

uint32_t ParallelInsert::run(Table& table, const Keys& keys, uint32_t* results) {
  table_ = &table;
  keys_ = keys;
  if (!table.has_output_) keys_.outputs = nullptr;
  results_ = results;
  base_ = table.rows();
  const auto count = static_cast<uint32_t>(pieces_.size());
  for (Piece& piece : pieces_) {
    piece.differences.clear();
    piece.fresh.store(0, std::memory_order_relaxed);
  }
  any_outside_.store(false, std::memory_order_relaxed);
  if (keys.count == 0) return 0;
  for (uint32_t p = 0; p < count; p++) {
    pieces_[p].begin = static_cast<uint32_t>(team_.piece(keys.count, p));
    pieces_[p].end = static_cast<uint32_t>(team_.piece(keys.count, p + 1));
  }
  number_.reserve(keys.count);
  with_width(table.key_width(), [&](auto width) {
    constexpr uint32_t K = decltype(width)::value;
    if (many_are_missing<K>()) {
      team_.run(count, [&](uint32_t p) { sort_by_part<K>(p); });
    } else {
      team_.run(count, [&](uint32_t p) { find_missing<K>(p); });
      if (std::all_of(shares_.begin(), shares_.end(), [](const Share& s) { return s.keys.empty(); })) return;
    }
    team_.run(parts_, [&](uint32_t part) { look_up<K>(part); });
    if (any_outside_.load(std::memory_order_relaxed)) look_up_outside<K>();
    const uint32_t fresh = number_rows();
    table.used_ += fresh;
    table.rows_ += fresh;
    table.cells_.truncate(size_t{table.rows_} * table.width_);
    table.cells_.touch(size_t{base_} * table.width_, table.cells_.size());
    team_.run(count, [&](uint32_t p) { write_rows<K>(p); });
    if (fresh != 0 && fresh != keys.count) team_.run(parts_, [&](uint32_t part) { mend(part); });
  });
  return table.rows() - base_;
}

template <uint32_t K>
bool ParallelInsert::many_are_missing() const {
  constexpr uint32_t kLooks = 64;
  const KeyProbe<K> probe = table_->probe<K>();
  const auto sample = [&](uint32_t i) { return static_cast<uint32_t>(uint64_t{keys_.count} * i / kLooks); };
  uint32_t hashes[kLooks], missing = 0;
  for (uint32_t i = 0; i < kLooks; i++) {
    hashes[i] = probe.hash(keys_.at(sample(i)));
    probe.prefetch_slot(hashes[i]);
  }
  for (const uint32_t hash : hashes) probe.prefetch_row(hash);
  for (uint32_t i = 0; i < kLooks; i++)
    if (probe.find(hashes[i], keys_.at(sample(i))) == kNoRow) missing++;
  return missing > kLooks / 4;
}

// Homes grow with the hash: a part of the slots is a range of hashes.
template <uint32_t K>
void ParallelInsert::sort_by_part(uint32_t piece) {
  const KeyProbe<K> probe = table_->probe<K>();
  const Keys keys = keys_;
  const uint32_t begin = pieces_[piece].begin, end = pieces_[piece].end;
  const uint64_t parts = parts_;
  Share* const shares = &share(piece, 0);
  std::vector<uint64_t*> ends(parts);
  for (uint64_t t = 0; t < parts; t++) {
    shares[t].keys.resize_uninitialized(end - begin);
    ends[t] = shares[t].keys.data();
  }
  for (uint32_t at = begin; at < end; at++) {
    const uint64_t hash = probe.hash(keys.at(at));
    *ends[hash * parts >> 32]++ = hash << 32 | at;
  }
  for (uint64_t t = 0; t < parts; t++)
    shares[t].keys.truncate(static_cast<size_t>(ends[t] - shares[t].keys.data()));
}

template <uint32_t K>
void ParallelInsert::find_missing(uint32_t piece) {
  const KeyProbe<K> probe = table_->probe<K>();
  const Keys keys = keys_;
  const UnionFind* const classes = keys.outputs == nullptr ? nullptr : keys.classes;
  uint32_t* const results = results_;
  const uint32_t key_width = table_->key_width_;
  const uint64_t parts = parts_;
  Share* const shares = &share(piece, 0);
  for (uint64_t t = 0; t < parts; t++) shares[t].keys.clear();
  std::vector<Difference>& differences = pieces_[piece].differences;
  const auto ahead = [&](size_t at) {
    if (classes != nullptr) classes->prefetch(keys.outputs[at]);
  };
  const auto find = [&](uint32_t at, uint32_t hash) {
    const Row row = probe.find(hash, keys.at(at));
    if (row == kNoRow) {
      shares[hash * parts >> 32].keys.push_back(uint64_t{hash} << 32 | at);
      return;
    }
    const uint32_t* const present = probe.cells(row) + key_width;
    if (results != nullptr)
      results[at] = *present;
    else if (keys.outputs != nullptr && keys.differ(*present, at))
      differences.push_back({at, *present});
  };
  each_ahead([&] { return probe; }, keys.columns, pieces_[piece].begin, pieces_[piece].end, ahead, find);
}

/// Goes through the keys of a part, some at a time.
class ParallelInsert::Groups {
 public:
  Groups(ParallelInsert& insert, uint32_t part) : insert_(insert), part_(part) { begin_piece(); }
  struct Group {
    Share* share = nullptr;
    std::span<uint64_t> keys;
  };
  /// Empty at the end.
  Group next() {
    while (begin_ == share_->keys.size()) {
      if (++piece_ == insert_.pieces_.size()) {
        piece_--;
        return {share_, {}};
      }
      begin_piece();
    }
    const size_t first = begin_;
    begin_ = std::min(first + kGroup, share_->keys.size());
    return {share_, {share_->keys.data() + first, begin_ - first}};
  }

 private:
  void begin_piece() {
    share_ = &insert_.share(piece_, part_);
    share_->outside.clear();
    share_->missing.clear();
    share_->repeats.clear();
    share_->differences.clear();
    begin_ = 0;
  }
  ParallelInsert& insert_;
  const uint32_t part_;
  Share* share_ = nullptr;
  size_t piece_ = 0, begin_ = 0;
};

/// What a look-up reads, so that loops keep it in registers.
template <uint32_t K>
struct ParallelInsert::View {
  explicit View(const ParallelInsert& insert)
      : probe(insert.table_->probe<K>()),
        keys(insert.keys_),
        slots(insert.table_->slots_.data()),
        base(insert.base_),
        key_width(insert.table_->key_width_),
        makes_ids(insert.results_ != nullptr) {}
  [[nodiscard]] bool is_it(Row row, uint32_t at) const {
    return row < base ? probe.holds(row, keys.at(at)) : probe.same_key(keys.at(at), keys.at(row - base));
  }
  /// The search of a key ended at a slot that is free, or leads to the same key.
  void settle(Share& share, uint64_t& key, size_t slot, HashSlot seen) const {
    const auto at = static_cast<uint32_t>(key);
    if (seen.is_free()) {
      // Atomic since the thread of the part before may look here, to ask for memory.
      std::atomic_ref(slots[slot])
          .store(HashSlot(HashSlot(key).hash(), base + at).bits, std::memory_order_relaxed);
      share.missing.push_back({at, slot});
      return;
    }
    const Row row = seen.row();
    if (keys.outputs != nullptr) {
      const Value present = row < base ? probe.cells(row)[key_width] : keys.outputs[row - base];
      if (keys.differ(present, at)) share.differences.push_back({at, present});
    } else if (makes_ids && row < base) {
      key = uint64_t{probe.cells(row)[key_width]} << 32 | at;
    } else if (makes_ids) {
      share.repeats.push_back({at, row - base});
    }
  }

  const KeyProbe<K> probe;
  const Keys keys;
  uint64_t* const slots;
  const Row base;
  const uint32_t key_width;
  const bool makes_ids;
};

// Memory is asked for ahead: slots one group ahead, then rows (as `Table::find_each` does).
template <uint32_t K>
void ParallelInsert::look_up(uint32_t part) {
  const View<K> view(*this);
  const KeyProbe<K>& probe = view.probe;
  const Value* outputs = view.keys.classes == nullptr ? nullptr : view.keys.outputs;
  const size_t end = Table::first_slot(table_->slots_.size(), part + 1, parts_);
  Groups groups(*this, part);
  Groups::Group group, following;
  do {
    following = groups.next();
    for (const uint64_t key : group.keys) probe.prefetch_row(HashSlot(key).hash());
    for (const uint64_t key : following.keys) {
      probe.prefetch_slot(HashSlot(key).hash());
      if (outputs != nullptr) view.keys.classes->prefetch(outputs[static_cast<uint32_t>(key)]);
    }
    for (uint64_t& key : group.keys) {
      const uint32_t hash = HashSlot(key).hash(), at = static_cast<uint32_t>(key);
      size_t slot = probe.home(hash);
      HashSlot seen;
      for (; slot < end; slot++) {
        seen = HashSlot(view.slots[slot]);
        if (seen.is_free() || (seen.hash() == hash && view.is_it(seen.row(), at))) break;
      }
      if (slot < end)
        view.settle(*group.share, key, slot, seen);
      else
        group.share->outside.push_back(static_cast<uint32_t>(&key - group.share->keys.data()));
    }
    group = following;
  } while (!group.keys.empty());
  for (size_t p = 0; p < pieces_.size(); p++) {
    const Share& mine = share(p, part);
    if (!mine.missing.empty())
      pieces_[p].fresh.fetch_add(static_cast<uint32_t>(mine.missing.size()), std::memory_order_relaxed);
    if (!mine.outside.empty()) any_outside_.store(true, std::memory_order_relaxed);
  }
}

// Equal keys belong to the same part, so that they come in order.
template <uint32_t K>
void ParallelInsert::look_up_outside() {
  const View<K> view(*this);
  for (uint32_t part = 0; part < parts_; part++) {
    for (uint32_t p = 0; p < pieces_.size(); p++) {
      Share& owner = share(p, part);
      const size_t before = owner.missing.size();
      for (const uint32_t i : owner.outside) {
        uint64_t& key = owner.keys[i];
        const uint32_t hash = HashSlot(key).hash(), at = static_cast<uint32_t>(key);
        const auto place = view.probe.walk(view.probe.home(hash), hash, view.probe.plain,
                                           [&](Row row) { return view.is_it(row, at); });
        view.settle(owner, key, place.at, place.slot);
      }
      pieces_[p].fresh += static_cast<uint32_t>(owner.missing.size() - before);
    }
  }
}

uint32_t ParallelInsert::number_rows() {
  uint32_t fresh = 0;
  for (Piece& piece : pieces_) {
    piece.fresh_before = fresh;
    fresh += piece.fresh.load(std::memory_order_relaxed);
  }
  return fresh;
}

template <uint32_t K>
void ParallelInsert::write_rows(uint32_t p) {
  Piece& piece = pieces_[p];
  const std::span<const Share> shares{&share(p, 0), parts_};
  const uint32_t begin = piece.begin;
  piece.is_missing.assign((piece.end - begin) / 64 + 1, 0);
  for (const Share& share : shares) {
    for (const Missing& key : share.missing)
      piece.is_missing[(key.at - begin) / 64] |= uint64_t{1} << ((key.at - begin) % 64);
    piece.differences.insert(piece.differences.end(), share.differences.begin(), share.differences.end());
    if (results_ == nullptr) continue;
    for (size_t i = 0; i < share.keys.size(); i++)  // those of missing keys are written again
      results_[static_cast<uint32_t>(share.keys[i])] = static_cast<uint32_t>(share.keys[i] >> 32);
  }
  std::sort(piece.differences.begin(), piece.differences.end(),
            [](const Difference& a, const Difference& b) { return a.at < b.at; });
  const Table& table = *table_;
  const Keys keys = keys_;
  const uint32_t width = K != 0 ? K : table.key_width_;
  const bool has_output = table.has_output_;
  uint32_t *const number = number_.data(), *const results = results_;
  uint32_t fresh = piece.fresh_before;
  uint32_t* cells = table_->cells(base_ + fresh);
  for (size_t word = 0; word < piece.is_missing.size(); word++) {
    for (uint64_t bits = piece.is_missing[word]; bits != 0; bits &= bits - 1) {
      const uint32_t at = begin + static_cast<uint32_t>(word * 64 + std::countr_zero(bits));
      for (uint32_t c = 0; c < width; c++) *cells++ = keys.columns[c][at];
      if (results != nullptr) results[at] = keys.first_id + fresh;
      if (has_output) *cells++ = results != nullptr ? results[at] : keys.outputs[at];
      number[at] = fresh++;
    }
  }
}

void ParallelInsert::mend(uint32_t part) {
  uint64_t* slots = table_->slots_.data();
  const uint32_t* number = number_.data();
  for (size_t p = 0; p < pieces_.size(); p++) {
    const Share& mine = share(p, part);
    for (const Missing& key : mine.missing)
      if (number[key.at] != key.at)
        slots[key.slot] = HashSlot(HashSlot(slots[key.slot]).hash(), base_ + number[key.at]).bits;
    for (const Repeat& key : mine.repeats) results_[key.at] = keys_.first_id + number[key.first];
  }
}

}  // namespace luminal::egraph
