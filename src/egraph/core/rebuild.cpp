#include <algorithm>

#include "egraph/core/explain.h"
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
      scan([&](uint32_t c, Value v) { return canonical(c, v); });
    else
      scan_ids();
    std::vector<Value> outputs;
    outputs.reserve(output_changed_.size());
    for (size_t i = 0; i < output_changed_.size(); i++)
      outputs.push_back(canonical(table_.key_width(), table_.output_of(output_changed_[i])));
    table_.change_outputs({output_changed_.data(), output_changed_.size()}, outputs);
    insert_moved();
  }

 private:
  Value canonical(uint32_t column, Value v) {
    switch (info_.kinds[column]) {
      case SortKind::Plain:
        return v;
      case SortKind::Eq:
        return state_.ids.find(v);
      case SortKind::Container:
        return state_.container_image(info_.sorts[column], v);
    }
    return v;
  }

  void scan_ids() {
    const uint64_t* bits = state_.ids.displaced_bits();
    const auto displaced = [bits](Value v) { return (bits[v >> 6] >> (v & 63) & 1) != 0; };
    std::vector<ColumnView> keys;
    for (uint32_t c = 0; c < table_.key_width(); c++)
      if (info_.kinds[c] == SortKind::Eq) keys.push_back(table_.column(c));
    const bool id_output = table_.has_output() && info_.kinds[table_.key_width()] == SortKind::Eq;
    const ColumnView last = table_.column(table_.width() - 1);
    const auto look_at = [&](Row row) {
      if (last[row] == kDead) return;
      bool key_changed = false;
      for (const ColumnView& key : keys) key_changed |= displaced(key[row]);
      if (key_changed)
        move(row);
      else if (id_output && displaced(last[row]))
        output_changed_.push_back(row);
    };
    Row row = 0;
    if (walk_pays()) {
      for (const Row mention : rows_that_mention()) look_at(mention);
      row = walked_;
    }
    for (const Row rows = table_.rows(); row < rows; row++) look_at(row);
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

  template <class Canonical>
  void scan(Canonical&& canonical_of) {
    const Row rows = table_.rows();
    for (Row row = 0; row < rows; row++) {
      if (!table_.is_live(row)) continue;
      bool key_changed = false;
      for (uint32_t c = 0; c < table_.key_width() && !key_changed; c++)
        key_changed = canonical_of(c, table_.column(c)[row]) != table_.column(c)[row];
      if (key_changed)
        move(row);
      else if (table_.has_output() &&
               canonical_of(table_.key_width(), table_.output_of(row)) != table_.output_of(row))
        output_changed_.push_back(row);
    }
  }

  void move(Row row) {
    for (uint32_t c = 0; c < table_.width(); c++) moved_[c].push_back(canonical(c, table_.column(c)[row]));
    if (!table_.terms.empty()) moved_terms_.push_back(table_.terms[row]);
    if (table_.has_subsumed()) moved_subsumed_.push_back(table_.is_subsumed(row) ? 1 : 0);
    table_.kill(row);
  }

  void insert_moved() {
    const bool unites = info_.spec.merge.kind == Merge::Kind::Union;
    std::vector<const uint32_t*> columns;
    for (const Column& column : moved_) columns.push_back(column.data());
    const uint32_t* outputs = table_.has_output() ? columns.back() : nullptr;
    std::vector<Value> key(table_.key_width());
    std::vector<const uint32_t*> at(columns.size());
    for (size_t first = 0; first < moved_[0].size(); first += kBatch) {
      const uint32_t n = static_cast<uint32_t>(std::min(kBatch, moved_[0].size() - first));
      table_.reserve(n);
      conflicts_.clear();
      for (uint32_t c = 0; c < at.size(); c++) at[c] = columns[c] + first;
      with_width(table_.key_width(), [&](auto width) {
        constexpr uint32_t K = decltype(width)::value;
        table_.find_each<K>(at.data(), n, [&](uint32_t k, uint32_t hash, Row row) {
          const size_t i = first + k;
          if (row == kNoRow) {
            row = table_.append_at<K>(at.data(), k, hash, outputs ? outputs[i] : kUnitValue);
            if (!moved_terms_.empty()) table_.terms.push_back(moved_terms_[i]);
          } else if (outputs != nullptr && table_.output_of(row) != outputs[i]) {
            if (!moved_terms_.empty())
              state_.log->add_congruence(state_, table_.terms[row], moved_terms_[i]);
            else if (unites)
              state_.unite(table_.output_of(row), outputs[i]);
            else
              conflicts_.push_back(i);
          }
          if (!moved_subsumed_.empty() && moved_subsumed_[i] != 0) table_.mark_subsumed(row);
        });
      });
      for (const size_t i : conflicts_) {
        for (uint32_t c = 0; c < key.size(); c++) key[c] = columns[c][i];
        state_.merge_output(f_, table_.find(key), outputs[i]);
      }
    }
  }

  EngineState& state_;
  FunctionId f_;
  FunctionInfo& info_;
  Table& table_;
  const Column& displaced_;  // the ids of this pass
  Row walked_ = 0;
  std::vector<Column> moved_;  // canonical rows whose key changed
  Column moved_subsumed_, moved_terms_;
  Column output_changed_;
  std::vector<size_t> conflicts_;
};

}  // namespace

void EngineState::rebuild() {
  if (!needs_rebuild()) return;
  while (ids.has_displaced()) {
    const Column treated = ids.begin_pass();
    rebuild_epoch++;
    try {
      for (uint32_t f = 0; f < functions.size(); f++)
        if ((functions[f].holds_ids || functions[f].holds_containers) && functions[f].table.live_rows() != 0)
          TableRebuild(*this, FunctionId{f}, treated).run();
    } catch (...) {
      ids.restore(treated);
      throw;
    }
    ids.end_pass(treated);
  }
  for (FunctionInfo& info : functions) info.table.compact_if_sparse();
}

}  // namespace luminal::egraph
