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
    case SortKind::Container:
      return at(sort).hooks.rebuild(v, to_canonical);
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
  TableRebuild(EngineState& state, FunctionId f)
      : state_(state), f_(f), info_(state.at(f)), table_(info_.table), moved_(table_.width()) {}

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
    const Row rows = table_.rows();
    for (Row row = 0; row < rows; row++) {
      if (last[row] == kDead) continue;
      bool key_changed = false;
      for (const ColumnView& key : keys) key_changed |= displaced(key[row]);
      if (key_changed)
        move(row);
      else if (id_output && displaced(last[row]))
        output_changed_.push_back(row);
    }
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
          TableRebuild(*this, FunctionId{f}).run();
    } catch (...) {
      ids.restore(treated);
      throw;
    }
    ids.end_pass(treated);
  }
  for (FunctionInfo& info : functions) info.table.compact_if_sparse();
}

}  // namespace luminal::egraph
