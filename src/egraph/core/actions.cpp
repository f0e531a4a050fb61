#include "egraph/core/actions.h"

#include <algorithm>

#include "base/fail.h"
#include "egraph/core/clipped.h"
#include "egraph/core/explain.h"

namespace luminal::egraph {

ActionRun::ActionRun(EngineState& state, const CompiledQuery& query, const CompiledActions& actions,
                     std::string_view where, size_t room)
    : state_(state),
      query_(query),
      actions_(actions),
      where_(where),
      mark_(state.scratch),
      columns_(query.slots.size(), nullptr) {
  for (const CompiledAction& action : actions) {
    if (action.kind != Action::Kind::Call && action.kind != Action::Kind::Primitive) continue;
    columns_[action.value] = state.scratch.take(room);
    own_.push_back(action.value);
  }
}

void ActionRun::apply(Batch& batch) {
  count_ = batch.count;
  for (Slot s = 0; s < query_.slots.size(); s++)
    if (batch.columns[s] != nullptr) columns_[s] = batch.columns[s];
  if (state_.log != nullptr) terms_.assign(columns_.size(), kNoValue);
  for (const CompiledAction& action : actions_) {
    if (count_ == 0) return;
    keys_.clear();
    for (const Slot s : action.args) keys_.push_back(columns_[s]);
    if (state_.log != nullptr) [[unlikely]] {
      apply_logged(action);
      continue;
    }
    apply_one(action);
  }
}

Table::Growth ActionRun::growth(size_t bindings) const {
  const auto adds = [](const CompiledAction& action) {
    return action.kind == Action::Kind::Call || action.kind == Action::Kind::Set;
  };
  Table::Growth all;
  for (size_t i = 0; i < actions_.size(); i++) {
    if (!adds(actions_[i])) continue;
    const auto same = [&](const CompiledAction& other) {
      return adds(other) && other.function == actions_[i].function;
    };
    if (std::any_of(actions_.begin(), actions_.begin() + static_cast<std::ptrdiff_t>(i), same))
      continue;  // counted there
    const size_t rows =
        bindings * std::count_if(actions_.begin() + static_cast<std::ptrdiff_t>(i), actions_.end(), same);
    const Table::Growth one = state_.at(actions_[i].function).table.growth(rows);
    all.slots += one.slots;
    all.bytes += one.bytes;
  }
  return all;
}

void ActionRun::apply_one(const CompiledAction& action) {
  switch (action.kind) {
    case Action::Kind::Call:
      call(action);
      break;
    case Action::Kind::Primitive:
      primitive(action);
      break;
    case Action::Kind::Set:
      set(action, action.value);
      break;
    case Action::Kind::Union:
      unite();
      break;
    case Action::Kind::Delete:
      remove(action);
      break;
    case Action::Kind::Subsume:
      subsume(action);
      break;
    case Action::Kind::Panic:
      throw Error(action.message);
  }
}

// Row by row: each id and each union gets its reason.
void ActionRun::apply_logged(const CompiledAction& action) {
  const auto number = static_cast<size_t>(&action - actions_.data());
  const bool constructor = (action.kind == Action::Kind::Call || action.kind == Action::Kind::Set) &&
                           state_.at(action.function).spec.kind == FunctionKind::Constructor;
  if (action.kind == Action::Kind::Primitive) {
    const ExplanationLog::PrimitiveCall call(*state_.log, number);
    primitive(action);
    if (count_ == 0) return;
    const Value result = columns_[action.value][0];
    terms_[action.value] = call.term_of(result);
    state_.log->note_made(number, terms_[action.value] != kNoValue ? terms_[action.value] : result);
    return;
  }
  if (action.kind == Action::Kind::Call && !constructor) {
    this->call(action);
    if (count_ > 0) state_.log->note_made(number, columns_[action.value][0]);
    return;
  }
  if (!constructor && action.kind != Action::Kind::Union) return apply_one(action);
  const auto term = [&](Slot slot, uint32_t i) {
    return terms_[slot] != kNoValue ? terms_[slot] : columns_[slot][i];
  };
  for (uint32_t i = 0; i < count_; i++) {
    if (action.kind == Action::Kind::Union) {
      state_.unite_logged(term(action.args[0], i), term(action.args[1], i));
      continue;
    }
    read_key(action, i);
    if (action.kind == Action::Kind::Set) {
      state_.set_row(action.function, key_, columns_[action.value][i]);
      continue;
    }
    columns_[action.value][i] = state_.get_or_insert(action.function, key_);
    const Table& table = state_.at(action.function).table;
    terms_[action.value] = table.terms[table.find(key_)];
    state_.log->note_made(number, terms_[action.value]);
  }
}

void ActionRun::call(const CompiledAction& action) {
  if (action.fused_union) {
    set(action, action.known);
    std::copy_n(columns_[action.known], count_, columns_[action.value]);
  } else if (state_.at(action.function).spec.kind == FunctionKind::Function) {
    look_up(action);
  } else {
    insert(action);
  }
}

void ActionRun::look_up(const CompiledAction& action) {
  const Table& table = state_.at(action.function).table;
  std::vector<uint32_t> kept;
  for (uint32_t i = 0; i < count_; i++) {
    read_key(action, i);
    const Row row = table.find(key_);
    if (row == kNoRow && action.skip_on_failure) continue;
    if (row == kNoRow) raise(action, "has no value for these arguments");
    columns_[action.value][i] = table.output_of(row);
    kept.push_back(i);
  }
  drop_all_but(kept);
}

void ActionRun::insert(const CompiledAction& action) {
  FunctionInfo& info = state_.at(action.function);
  Table& table = info.table;
  const bool relation = info.spec.kind == FunctionKind::Relation;
  const uint32_t* const* keys = keys_.data();
  uint32_t* result = columns_[action.value];
  table.reserve(count_, state_.team_for(table.rows()));
  Parallel* parallel = table.is_deletable() ? nullptr : state_.parallel_for(count_);
  if (parallel != nullptr) {
    if (relation) std::fill_n(result, count_, kUnitValue);
    const uint32_t fresh =
        parallel->insert.run(table, {keys, count_, nullptr, state_.ids.size()}, relation ? nullptr : result);
    if (!relation) state_.ids.add_fresh(fresh);
    state_.changes += fresh;
    return;
  }
  state_.ids.reserve_fresh(count_);
  uint32_t added = 0;
  with_width(table.key_width(), [&](auto width) {
    constexpr uint32_t K = decltype(width)::value;
    table.find_each<K>(keys, count_, [&](uint32_t i, uint32_t hash, Row row) {
      if (row != kNoRow) {
        result[i] = table.output_of(row);
        return;
      }
      result[i] = relation ? kUnitValue : state_.ids.fresh_unchecked();
      table.append_at<K>(keys, i, hash, result[i]);
      added++;
    });
  });
  state_.changes += added;
}

void ActionRun::set(const CompiledAction& action, Slot value) {
  FunctionInfo& info = state_.at(action.function);
  Table& table = info.table;
  const bool unites = info.spec.merge.kind == Merge::Kind::Union;
  // A constructor's row that is about to be deleted still tells the class of its term.
  const bool constructor = info.spec.kind == FunctionKind::Constructor;
  const bool merges_equal = info.merges_equal();
  const uint32_t* const* keys = keys_.data();
  const uint32_t* outputs = columns_[value];
  table.reserve(count_, state_.team_for(table.rows()));
  conflicts_.clear();
  const auto differ = [&](uint32_t i, Value present) {
    if (unites)
      state_.unite(present, outputs[i]);
    else
      conflicts_.push_back(i);
  };
  uint32_t added = 0;
  const bool alone = table.is_deletable() || merges_equal;
  if (Parallel* parallel = alone ? nullptr : state_.parallel_for(count_)) {
    added = parallel->insert.run(table, {keys, count_, outputs, 0, unites ? &state_.ids : nullptr}, nullptr);
    parallel->insert.each_difference([&](const auto& found) { differ(found.at, found.present); });
  } else {
    with_width(table.key_width(), [&](auto width) {
      constexpr uint32_t K = decltype(width)::value;
      table.find_each<K>(keys, count_, [&](uint32_t i, uint32_t hash, Row row) {
        if (row == kNoRow) {
          table.append_at<K>(keys, i, hash, outputs[i]);
          added++;
        } else if (!constructor && table.is_doomed(row)) {
          table.revive(row, outputs[i]);
          table.reserve(count_ - i);
          added++;
        } else {
          const bool equal = table.output_of(row) == outputs[i];
          if (equal && !constructor && table.is_deletable()) table.touch(row);
          if (!equal || merges_equal) differ(i, table.output_of(row));
        }
      });
    });
  }
  state_.changes += added;
  // Merges may run actions of their own, on this table too.
  for (const uint32_t i : conflicts_) {
    read_key(action, i);
    state_.merge_output(action.function, info.table.find(key_), outputs[i]);
  }
}

// Most pairs are often equal already: threads look, one unites. Equal ones stay so, and change nothing.
void ActionRun::unite() {
  const Value *a = keys_[0], *b = keys_[1];
  Parallel* parallel = state_.parallel_for(count_);
  if (parallel == nullptr) {
    for (uint32_t i = 0; i < count_; i++) state_.unite(a[i], b[i]);
    return;
  }
  const UnionFind& ids = state_.ids;
  parallel->team.split(count_, [&](uint32_t p, size_t begin, size_t end) {
    constexpr size_t kAhead = 16;
    Column& differ = parallel->differ[p];
    differ.clear();
    for (size_t i = begin; i < end; i++) {
      if (i + kAhead < end) {
        ids.prefetch(a[i + kAhead]);
        ids.prefetch(b[i + kAhead]);
      }
      if (ids.find(a[i]) != ids.find(b[i])) differ.push_back(static_cast<uint32_t>(i));
    }
  });
  for (const Column& pairs : parallel->differ)
    for (size_t k = 0; k < pairs.size(); k++) state_.unite(a[pairs[k]], b[pairs[k]]);
}

void ActionRun::primitive(const CompiledAction& action) {
  std::vector<uint32_t> kept;
  bool dropped = false;
  uint32_t* result = columns_[action.value];
  for (uint32_t i = 0; i < count_; i++) {
    read_key(action, i);
    state_.poll();
    const std::optional<Value> value = state_.call_primitive(action.primitive, key_);
    if (value) {
      result[i] = *value;
      if (action.skip_on_failure) kept.push_back(i);
    } else if (action.skip_on_failure) {
      dropped = true;
    } else {
      raise(action, "fails on these arguments");
    }
  }
  if (dropped) drop_all_but(kept);
}

void ActionRun::remove(const CompiledAction& action) {
  for (uint32_t i = 0; i < count_; i++) {
    read_key(action, i);
    state_.remove_row(action.function, key_);
  }
}

void ActionRun::subsume(const CompiledAction& action) {
  for (uint32_t i = 0; i < count_; i++) {
    read_key(action, i);
    state_.subsume_row(action.function, key_);
  }
}

void ActionRun::read_key(const CompiledAction& action, uint32_t i) {
  key_.resize(action.args.size());
  for (size_t c = 0; c < key_.size(); c++) key_[c] = columns_[action.args[c]][i];
}

void ActionRun::drop_all_but(const std::vector<uint32_t>& kept) {
  if (kept.size() == count_) return;
  for (Slot s = 0; s < columns_.size(); s++) {
    if (columns_[s] == nullptr || query_.slots[s].constant) continue;
    for (size_t k = 0; k < kept.size(); k++) columns_[s][k] = columns_[s][kept[k]];
  }
  count_ = static_cast<uint32_t>(kept.size());
}

void ActionRun::raise(const CompiledAction& action, std::string_view what) const {
  if (!action.message.empty()) throw Error(action.message);
  const std::string& name = action.kind == Action::Kind::Primitive ? state_.at(action.primitive).spec.name
                                                                   : state_.at(action.function).spec.name;
  fail("[{}] {} {}", clipped(where_), clipped(name), what);
}

std::vector<Value> run_once(EngineState& state, const CompiledQuery& slots, const CompiledActions& actions,
                            std::span<const Value> initial, std::string_view where) {
  const Scratch::Mark mark(state.scratch);
  const ExplanationLog::OtherActions others(state.log.get());
  std::vector<uint32_t*> columns(slots.slots.size(), nullptr);
  std::vector<bool> made(slots.slots.size(), false);
  for (const CompiledAction& action : actions)
    if (action.kind == Action::Kind::Call || action.kind == Action::Kind::Primitive)
      made[action.value] = true;
  for (Slot s = 0; s < columns.size(); s++) {
    if (made[s]) continue;
    columns[s] = state.scratch.take(1);
    *columns[s] = s < initial.size() ? initial[s] : kNoValue;
    if (slots.slots[s].constant) *columns[s] = state.canonical(slots.slots[s].sort, slots.slots[s].value);
  }
  Batch batch{1, columns.data()};
  ActionRun run(state, slots, actions, where, 1);
  run.apply(batch);
  std::vector<Value> values(columns.size());
  for (Slot s = 0; s < columns.size(); s++) {
    const uint32_t* column = run.column(s);
    values[s] = column == nullptr ? kNoValue : *column;
  }
  return values;
}

}  // namespace luminal::egraph
