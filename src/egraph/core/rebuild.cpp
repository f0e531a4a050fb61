#include <algorithm>
#include <utility>

#include "egraph/core/explain.h"
#include "egraph/core/limits.h"
#include "egraph/core/state.h"

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

/// Brings one table up to date with the ids displaced so far.
class TableRebuild {
 public:
  TableRebuild(EngineState& state, FunctionId f, const Column& displaced)
      : state_(state),
        f_(f),
        info_(state.at(f)),
        table_(info_.table),
        displaced_(displaced),
        moved_(table_.width()) {}

  void run() {
    if (info_.holds_containers)
      scan_containers();
    else
      scan_ids();
    change_outputs();
    take_moved();
    insert_moved();
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

  void scan_ids() {
    Row row = 0;
    if (walk_pays()) {
      const std::vector<Row> mentions = rows_that_mention();
      found_.emplace_back();
      look_at_rows(found_.back(), mentions.size(), [&](size_t i) { return mentions[i]; });
      row = walked_;
    }
    const size_t first = found_.size(), count = table_.rows() - row;
    found_.resize(first + (state_.parallel == nullptr ? 1 : state_.parallel->team.size()));
    split(count, [&](uint32_t piece, size_t begin, size_t end) {
      look_at_rows(found_[first + piece], end - begin,
                   [&](size_t i) { return row + static_cast<Row>(begin + i); });
    });
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
    for (size_t i = 0; i < count; i++) {
      const Row row = row_at(i);
      if (last[row] == kDead) continue;
      bool key_changed = false;
      for (const ColumnView& key : keys) key_changed |= displaced(key[row]);
      if (key_changed)
        found.moved.push_back(row);
      else if (id_output && displaced(last[row]))
        found.output_changed.push_back(row);
    }
  }

  // A few ids in a large table: their rows are found by index. Building the indexes costs several scans, so
  // they are built once that many scans were spent on this table.
  bool walk_pays() {
    const uint64_t rows = table_.rows();
    if (rows < 1024 || displaced_.size() * 32 > rows) return false;
    info_.scan_debt += rows;
    return info_.scan_debt > 8 * rows;
  }

  /// Rows below `walked_` that may hold a displaced id, in order.
  std::vector<Row> rows_that_mention() {
    std::vector<Row> found;
    walked_ = table_.rows();
    for (uint32_t c = 0; c < table_.width(); c++) {
      if (info_.kinds[c] != SortKind::Eq) continue;
      JoinIndex& index = info_.indexes[index_for(info_, uint64_t{1} << c)];
      index.ensure(table_, table_.rows());
      for (const JoinIndex::Part& part : index.parts()) {
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

  void scan_containers() {
    Found& found = found_.emplace_back();
    const Row rows = table_.rows();
    const auto is_stale = [&](uint32_t c, Row row) {
      return canonical(c, table_.column(c)[row]) != table_.column(c)[row];
    };
    for (Row row = 0; row < rows; row++) {
      if (!table_.is_live(row)) continue;
      bool key_changed = false;
      for (uint32_t c = 0; c < table_.key_width() && !key_changed; c++) key_changed = is_stale(c, row);
      if (key_changed)
        found.moved.push_back(row);
      else if (table_.has_output() && is_stale(table_.key_width(), row))
        found.output_changed.push_back(row);
    }
  }

  /// The rows of one kind from all pieces, and where each piece's begin.
  [[nodiscard]] Column join(Column Found::* kind) const {
    Column all;
    size_t size = 0;
    for (const Found& found : found_) size += (found.*kind).size();
    all.reserve(size);
    for (const Found& found : found_)
      for (size_t i = 0; i < (found.*kind).size(); i++) all.push_back_unchecked((found.*kind)[i]);
    return all;
  }

  void change_outputs() {
    const Column rows = join(&Found::output_changed);
    Column outputs;
    outputs.resize_uninitialized(rows.size());
    split(rows.size(), [&](uint32_t, size_t begin, size_t end) {
      for (size_t i = begin; i < end; i++)
        outputs[i] = canonical(table_.key_width(), table_.output_of(rows[i]));
    });
    table_.change_outputs({rows.data(), rows.size()}, {outputs.data(), outputs.size()},
                          state_.team_for(rows.size()));
  }

  // The canonical forms of rows whose key changed; the rows die.
  void take_moved() {
    const Column rows = join(&Found::moved);
    found_.clear();
    for (Column& column : moved_) column.resize_uninitialized(rows.size());
    for (size_t i = 0; i < rows.size(); i++) {
      if (!table_.terms.empty()) moved_terms_.push_back(table_.terms[rows[i]]);
      if (table_.has_subsumed()) moved_subsumed_.push_back(table_.is_subsumed(rows[i]) ? 1 : 0);
    }
    split(rows.size(), [&](uint32_t, size_t begin, size_t end) {
      for (size_t i = begin; i < end; i++) {
        for (uint32_t c = 0; c < table_.width(); c++) moved_[c][i] = canonical(c, table_.column(c)[rows[i]]);
        table_.wipe(rows[i]);
      }
    });
    table_.count_wiped(rows.size());
  }

  void insert_moved() {
    const bool unites = info_.spec.merge.kind == Merge::Kind::Union;
    std::vector<const uint32_t*> columns;
    for (const Column& column : moved_) columns.push_back(column.data());
    const uint32_t* outputs = table_.has_output() ? columns.back() : nullptr;
    std::vector<Value> key(table_.key_width());
    std::vector<const uint32_t*> at(columns.size());
    for (size_t first = 0; first < moved_[0].size(); first += kBlock) {
      const uint32_t n = static_cast<uint32_t>(std::min(kBlock, moved_[0].size() - first));
      table_.reserve(n, state_.team_for(table_.rows()));
      conflicts_.clear();
      for (uint32_t c = 0; c < at.size(); c++) at[c] = columns[c] + first;
      insert_block(first, n, at.data(), outputs, unites);
      for (const size_t i : conflicts_) {
        for (uint32_t c = 0; c < key.size(); c++) key[c] = columns[c][i];
        state_.merge_output(f_, table_.find(key), outputs[i]);
      }
    }
  }

  void insert_block(size_t first, uint32_t n, const uint32_t* const* at, const uint32_t* outputs,
                    bool unites) {
    const auto differ = [&](size_t i, Value present) {
      if (unites)
        state_.unite(present, outputs[i]);
      else
        conflicts_.push_back(i);
    };
    Parallel* parallel = state_.parallel_for(n);
    if (parallel != nullptr && moved_terms_.empty() && moved_subsumed_.empty()) {
      parallel->insert.run(table_, {at, n, outputs == nullptr ? nullptr : outputs + first, 0}, nullptr);
      for (const auto& [i, present] : parallel->insert.differences()) differ(first + i, present);
      return;
    }
    with_width(table_.key_width(), [&](auto width) {
      constexpr uint32_t K = decltype(width)::value;
      table_.find_each<K>(at, n, [&](uint32_t k, uint32_t hash, Row row) {
        const size_t i = first + k;
        if (row == kNoRow) {
          row = table_.append_at<K>(at, k, hash, outputs ? outputs[i] : kUnitValue);
          if (!moved_terms_.empty()) table_.terms.push_back(moved_terms_[i]);
        } else if (outputs != nullptr && table_.output_of(row) != outputs[i]) {
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
  Row walked_ = 0;
  std::vector<Column> moved_;  // canonical rows whose key changed
  Column moved_subsumed_, moved_terms_;
  std::vector<Found> found_;  // by piece of the rows
  std::vector<size_t> conflicts_;
};

}  // namespace

void EngineState::rebuild(Limits* limits) {
  if (!needs_rebuild()) return;
  const uint64_t rows_before = limits == nullptr ? 0 : total_rows();
  while (ids.has_displaced()) {
    const Column treated = ids.begin_pass();
    rebuild_epoch++;
    try {
      for (uint32_t f = 0; f < functions.size(); f++) {
        const FunctionInfo& info = functions[f];
        if ((!info.holds_ids && !info.holds_containers) || info.table.live_rows() == 0) continue;
        if (limits != nullptr && limits->rebuild_must_stop(rows_before)) return ids.restore(treated);
        TableRebuild(*this, FunctionId{f}, treated).run();
      }
    } catch (...) {
      ids.restore(treated);
      throw;
    }
    ids.end_pass(treated);
  }
  for (FunctionInfo& info : functions) info.table.compact_if_sparse(team_for(info.table.rows()));
}

}  // namespace luminal::egraph
