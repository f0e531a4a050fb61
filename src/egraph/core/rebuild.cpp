#include <algorithm>
#include <exception>
#include <utility>

#include "egraph/core/explain.h"
#include "egraph/core/limits.h"
#include "egraph/core/state.h"
#include "luminal/error.h"

namespace luminal::egraph {

Value EngineState::canonical(SortId sort, Value v) {
  switch (at(sort).kind) {
    case SortKind::Plain:
      return v;
    case SortKind::Eq:
      return ids.find(v);
    case SortKind::Container: {
      // Most containers hold nothing that changed, and looking is cheaper than interning a copy.
      const ContainerSort& hooks = at(sort).hooks;
      bool changed = false;
      hooks.elements(v, [&](SortId s, Value x) { changed = changed || canonical(s, x) != x; });
      return changed ? hooks.rebuild(v, to_canonical) : v;
    }
  }
  return v;
}

Value EngineState::canonical(SortId sort, Value v) const {
  switch (at(sort).kind) {
    case SortKind::Plain:
      return v;
    case SortKind::Eq:
      return ids.find(v);
    case SortKind::Container:
      return at(sort).hooks.rebuild(v, [this](SortId s, Value x) { return canonical(s, x); });
  }
  return v;
}

Value EngineState::container_image(SortId sort, Value v) {
  SortInfo& info = sorts[index_of(sort)];
  if (v >= info.image.size()) {
    info.image.resize(v + 1, kNoValue);
    info.image_epoch.resize(v + 1, 0);
  }
  if (info.image_epoch[v] != rebuild_epoch) {
    const Value image = canonical(sort, v);
    info.image[v] = image;  // not through a reference: nested containers may have grown the arrays
    info.image_epoch[v] = rebuild_epoch;
  }
  return info.image[v];
}

namespace {

// Rows that are looked at between two looks at the clock: about a millisecond.
constexpr Row kScanned = 1 << 20;

/// When a rebuild must stop.
struct RebuildLimits {
  Limits* limits = nullptr;
  uint64_t rows_before = 0;
  [[nodiscard]] bool reached() const { return limits != nullptr && limits->rebuild_must_stop(rows_before); }
  /// For what can't stop half-way: is there time and room for it?
  [[nodiscard]] bool allow(double seconds, size_t bytes) const {
    return limits == nullptr ||
           (limits->has_time_for(seconds) && (bytes == 0 || limits->has_room_for(bytes)));
  }
};

/// Brings one table up to date with the ids displaced so far. It may stop between any two blocks of rows:
/// those that are done are canonical, the others as they were.
class TableRebuild {
 public:
  TableRebuild(EngineState& state, FunctionId f, const Column& displaced, const RebuildLimits& limits)
      : state_(state),
        f_(f),
        info_(state.at(f)),
        table_(info_.table),
        displaced_(displaced),
        limits_(limits),
        moved_(table_.width()) {}

  /// The first error of a merge, after which the other rows had their turn.
  [[nodiscard]] std::exception_ptr error() const { return error_; }
  enum class Outcome : uint8_t {
    Done,
    Stopped,  ///< by a limit
    Full,     ///< it goes past the memory budget, but dead rows can make room
  };
  Outcome run() {
    if (!(info_.holds_containers ? scan_containers() : scan_ids()) || !change_outputs())
      return Outcome::Stopped;
    return move_rows();
  }

 private:
  /// Rows that hold something stale, in order: in a key column, or in the output alone.
  struct Found {
    Column moved, output_changed;
  };

  [[nodiscard]] Value canonical(uint32_t column, Value v) {
    switch (info_.kinds[column]) {
      case SortKind::Plain:
        return v;
      case SortKind::Eq:
        return std::as_const(state_.ids).find(v);
      case SortKind::Container:
        return state_.container_image(info_.sorts[column], v);
    }
    return v;
  }

  /// Calls body(piece, begin, end) for consecutive pieces of [0, count), on all threads if that pays and what
  /// is done is safe there (containers are interned: it is not).
  template <class Body>
  void split(size_t count, Body&& body) {
    Parallel* parallel = info_.holds_containers ? nullptr : state_.parallel_for(count);
    if (parallel != nullptr)
      parallel->team.split(count, body);
    else
      body(0, size_t{0}, count);
  }

  bool scan_ids() {
    Row row = 0;
    if (walk_pays()) {
      const std::vector<Row> mentions = rows_that_mention();
      found_.emplace_back();
      look_at_rows(found_.back(), mentions.size(), [&](size_t i) { return mentions[i]; });
      row = walked_;
    }
    for (; row < table_.rows(); row += std::min(kScanned, table_.rows() - row)) {
      if (limits_.reached()) return false;
      const size_t first = found_.size();
      found_.resize(first + (state_.parallel == nullptr ? 1 : state_.parallel->team.pieces()));
      split(std::min(kScanned, table_.rows() - row), [&](uint32_t piece, size_t begin, size_t end) {
        look_at_rows(found_[first + piece], end - begin,
                     [&](size_t i) { return row + static_cast<Row>(begin + i); });
      });
    }
    return true;
  }

  template <class RowAt>
  void look_at_rows(Found& found, size_t count, RowAt&& row_at) const {
    const uint64_t* bits = state_.ids.displaced_bits();
    const auto displaced = [bits](Value v) { return (bits[v >> 6] >> (v & 63) & 1) != 0; };
    std::vector<ColumnView> keys;
    for (uint32_t c = 0; c < table_.key_width(); c++)
      if (info_.kinds[c] == SortKind::Eq) keys.push_back(table_.column(c));
    const bool id_output = table_.has_output() && info_.kinds[table_.key_width()] == SortKind::Eq;
    const ColumnView last = table_.column(table_.width() - 1);
    // Which rows are found can't be predicted: each is written, and kept by counting on.
    constexpr size_t kTogether = 256;
    Row moved[kTogether], output_changed[kTogether];
    for (size_t first = 0; first < count; first += kTogether) {
      size_t moves = 0, changes = 0;
      for (size_t i = first; i < std::min(first + kTogether, count); i++) {
        const Row row = row_at(i);
        const bool alive = last[row] != kDead;
        bool key_changed = false;
        for (const ColumnView& key : keys) key_changed |= displaced(alive ? key[row] : 0);
        const bool changed = id_output && displaced(alive ? last[row] : 0);
        moved[moves] = output_changed[changes] = row;
        moves += alive && key_changed ? 1 : 0;
        changes += alive && changed && !key_changed ? 1 : 0;
      }
      found.moved.append(moved, moves);
      found.output_changed.append(output_changed, changes);
    }
  }

  // A few ids in a large table: their rows are found by index. Building the indexes costs several scans, so
  // they are built once that many scans were spent on this table.
  bool walk_pays() {
    const uint64_t rows = table_.rows(), entries = rows * table_.width();
    if (rows < 1024 || displaced_.size() * 32 > rows) return false;
    info_.scan_debt += rows;
    return info_.scan_debt > 8 * rows &&
           limits_.allow(static_cast<double>(entries) * kIndexSecondsPerRow, entries * kIndexBytesPerRow);
  }

  /// Rows below `walked_` that may hold a displaced id, in order.
  std::vector<Row> rows_that_mention() {
    std::vector<Row> found;
    walked_ = table_.rows();
    for (uint32_t c = 0; c < table_.width(); c++) {
      if (info_.kinds[c] != SortKind::Eq) continue;
      const uint32_t index = index_for(info_, uint64_t{1} << c);
      state_.ensure_index(info_, index, table_.rows());
      for (const JoinIndex::Part& part : info_.indexes[index].parts()) {
        for (size_t i = 0; i < displaced_.size(); i++) {
          const JoinIndex::Range range = part.find(displaced_[i]);
          found.insert(found.end(), range.begin, range.end);
        }
      }
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }

  bool scan_containers() {
    constexpr Row kLooks = 1024;  // containers are rebuilt meanwhile
    Found& found = found_.emplace_back();
    const Row rows = table_.rows();
    const auto is_stale = [&](uint32_t c, Row row) {
      return canonical(c, table_.column(c)[row]) != table_.column(c)[row];
    };
    for (Row row = 0; row < rows; row++) {
      if (row % kLooks == 0 && limits_.reached()) return false;
      if (!table_.is_live(row)) continue;
      bool key_changed = false;
      for (uint32_t c = 0; c < table_.key_width() && !key_changed; c++) key_changed = is_stale(c, row);
      if (key_changed)
        found.moved.push_back(row);
      else if (table_.has_output() && is_stale(table_.key_width(), row))
        found.output_changed.push_back(row);
    }
    return true;
  }

  /// The rows of one kind from all pieces.
  [[nodiscard]] Column join(Column Found::* kind) const {
    Column all;
    size_t size = 0;
    for (const Found& found : found_) size += (found.*kind).size();
    all.reserve(size);
    for (const Found& found : found_) all.append((found.*kind).data(), (found.*kind).size());
    return all;
  }

  bool change_outputs() {
    constexpr size_t kChanged = size_t{1} << 17;
    const Column all = join(&Found::output_changed);
    Column outputs;
    for (size_t first = 0; first < all.size(); first += kChanged) {
      if (limits_.reached()) return false;
      const std::span<const Row> rows{all.data() + first, std::min(kChanged, all.size() - first)};
      outputs.resize_uninitialized(rows.size());
      split(rows.size(), [&](uint32_t, size_t begin, size_t end) {
        for (size_t i = begin; i < end; i++)
          outputs[i] = canonical(table_.key_width(), table_.output_of(rows[i]));
      });
      table_.change_outputs(rows, {outputs.data(), outputs.size()}, state_.team_for(rows.size()));
    }
    return true;
  }

  // Block after block, so that a stop leaves no row outside of the table. Rows whose turn is yet to come do
  // not stand in the way meanwhile: their keys hold ids that are no roots, which canonical keys do not.
  Outcome move_rows() {
    const Column all = join(&Found::moved);
    found_.clear();
    Column alive;
    for (size_t first = 0; first < all.size(); first += kBlock) {
      if (limits_.reached()) return Outcome::Stopped;
      std::span<const Row> rows{all.data() + first, std::min(kBlock, all.size() - first)};
      if (is_full(rows.size())) return Outcome::Full;
      if (table_.has_output() && !unites_) {  // merges may have changed rows that were found
        alive.clear();
        for (const Row row : rows)
          if (table_.is_live(row)) alive.push_back(row);
        rows = {alive.data(), alive.size()};
      }
      take(rows);
      insert_taken();
    }
    return Outcome::Done;
  }

  /// Only if many rows are dead, so that rows moved since the last time.
  [[nodiscard]] bool is_full(size_t count) const {
    const uint64_t dead = table_.rows() - table_.live_rows();
    return limits_.limits != nullptr && dead * 8 >= table_.rows() &&
           !limits_.limits->has_room_for(count * table_.width() * sizeof(Value));
  }

  // The canonical forms of rows whose key changed; the rows die.
  void take(std::span<const Row> rows) {
    for (Column& column : moved_) column.resize_uninitialized(rows.size());
    moved_terms_.clear();
    moved_subsumed_.clear();
    for (const Row row : rows) {
      if (!table_.terms.empty()) moved_terms_.push_back(table_.terms[row]);
      if (table_.has_subsumed()) moved_subsumed_.push_back(table_.is_subsumed(row) ? 1 : 0);
    }
    split(rows.size(), [&](uint32_t, size_t begin, size_t end) {
      for (size_t i = begin; i < end; i++)
        for (uint32_t c = 0; c < table_.width(); c++) moved_[c][i] = canonical(c, table_.column(c)[rows[i]]);
      // Only now: a limit may stop a container's canonical form from being made.
      for (size_t i = begin; i < end; i++) table_.wipe(rows[i]);
    });
    table_.count_wiped(rows.size());
  }

  void insert_taken() {
    const auto count = static_cast<uint32_t>(moved_[0].size());
    std::vector<const uint32_t*> columns;
    for (const Column& column : moved_) columns.push_back(column.data());
    const uint32_t* outputs = table_.has_output() ? columns.back() : nullptr;
    Team* team = state_.team_for(table_.rows());
    if (limits_.limits == nullptr || limits_.limits->has_room_for(table_.growth(count).bytes))
      table_.reserve(count, team);
    else
      table_.reserve_tightly(count, team);
    conflicts_.clear();
    insert_block(count, columns.data(), outputs);
    // None may be left out, whatever happens: rows that were taken have no other place.
    const LimitsScope unlimited(state_, nullptr);
    std::vector<Value> key(table_.key_width());
    const bool only_fails = info_.spec.merge.kind == Merge::Kind::AssertEqual;
    for (const uint32_t i : conflicts_) {
      if (error_ && only_fails) break;  // the first one is told, and making its text takes time
      for (uint32_t c = 0; c < key.size(); c++) key[c] = columns[c][i];
      try {
        state_.merge_output(f_, table_.find(key), outputs[i]);
      } catch (const Error&) {
        if (!error_) error_ = std::current_exception();
      }
    }
  }

  void insert_block(uint32_t count, const uint32_t* const* columns, const uint32_t* outputs) {
    const auto differ = [&](uint32_t i, Value present) {
      if (unites_)
        state_.unite(present, outputs[i]);
      else
        conflicts_.push_back(i);
    };
    Parallel* parallel = merges_equal_ ? nullptr : state_.parallel_for(count);
    if (parallel != nullptr && moved_terms_.empty() && moved_subsumed_.empty()) {
      parallel->insert.run(table_, {columns, count, outputs, 0, unites_ ? &state_.ids : nullptr}, nullptr);
      parallel->insert.each_difference([&](const auto& found) { differ(found.at, found.present); });
      return;
    }
    with_width(table_.key_width(), [&](auto width) {
      constexpr uint32_t K = decltype(width)::value;
      table_.find_each<K>(columns, count, [&](uint32_t i, uint32_t hash, Row row) {
        if (row == kNoRow) {
          row = table_.append_at<K>(columns, i, hash, outputs ? outputs[i] : kUnitValue);
          if (!moved_terms_.empty()) table_.terms.push_back(moved_terms_[i]);
        } else if (outputs != nullptr && (merges_equal_ || table_.output_of(row) != outputs[i])) {
          if (!moved_terms_.empty())
            state_.log->add_congruence(state_, table_.terms[row], moved_terms_[i]);
          else
            differ(i, table_.output_of(row));
        }
        if (!moved_subsumed_.empty() && moved_subsumed_[i] != 0) table_.mark_subsumed(row);
      });
    });
  }

  EngineState& state_;
  FunctionId f_;
  FunctionInfo& info_;
  Table& table_;
  const Column& displaced_;  // the ids of this pass
  const RebuildLimits& limits_;
  const bool unites_ = info_.spec.merge.kind == Merge::Kind::Union;
  const bool merges_equal_ = info_.merges_equal();
  Row walked_ = 0;
  std::vector<Column> moved_;  // canonical rows of the block whose keys changed
  Column moved_subsumed_, moved_terms_;
  std::vector<Found> found_;  // by piece of the rows
  std::vector<uint32_t> conflicts_;
  std::exception_ptr error_;
};

}  // namespace

void EngineState::rebuild() {
  rebuild(limits);
  if (needs_rebuild()) throw Stopped{*limits->reason()};
}

// A merge that fails leaves the output that was there, and the rebuild goes on: what is thrown at its end
// does not come again.
void EngineState::rebuild(Limits* within) {
  if (!needs_rebuild()) return;
  const RebuildLimits until{within, within == nullptr ? 0 : total_rows()};
  std::exception_ptr error;
  while (ids.has_displaced()) {
    if (until.reached()) {
      if (error) std::rethrow_exception(error);
      return;
    }
    const Column treated = ids.begin_pass(team_for(ids.displaced().size()));
    rebuild_epoch++;
    try {
      for (uint32_t f = 0; f < functions.size(); f++) {
        FunctionInfo& info = functions[f];
        if ((!info.holds_ids && !info.holds_containers) || info.table.live_rows() == 0) continue;
        auto outcome = TableRebuild::Outcome::Full;
        while (outcome == TableRebuild::Outcome::Full && !until.reached()) {
          TableRebuild table(*this, FunctionId{f}, treated, until);
          outcome = table.run();
          if (!error) error = table.error();
          if (outcome == TableRebuild::Outcome::Full) info.table.compact(team_for(info.table.rows()));
        }
        if (outcome == TableRebuild::Outcome::Done) continue;
        ids.restore(treated);
        if (error) std::rethrow_exception(error);
        return;
      }
    } catch (...) {
      ids.restore(treated);
      throw;
    }
    ids.end_pass(treated);
  }
  for (FunctionInfo& info : functions)
    if (until.allow(static_cast<double>(info.table.rows()) * kCompactionSecondsPerRow, 0))
      info.table.compact_if_sparse(team_for(info.table.rows()));
  if (error) std::rethrow_exception(error);
}

}  // namespace luminal::egraph
