#include <unordered_map>

#include "base/fail.h"
#include "base/hash.h"
#include "egraph/core/actions.h"
#include "egraph/core/clipped.h"
#include "egraph/core/explain.h"
#include "egraph/core/shown.h"
#include "egraph/core/state.h"

namespace luminal::egraph {

Value EngineState::get_or_insert(FunctionId f, std::span<const Value> key) {
  FunctionInfo& info = at(f);
  const Row row = info.table.find(key);
  if (row != kNoRow) return info.table.output_of(row);
  if (info.spec.kind == FunctionKind::Function)
    fail("[{}] has no value for these arguments; give it one with set first", clipped(info.spec.name));
  const Value output = info.spec.kind == FunctionKind::Relation ? kUnitValue : ids.fresh();
  info.table.append(key, output);
  if (log != nullptr && info.spec.kind == FunctionKind::Constructor) {
    info.table.terms.push_back(output);
    log->add_term(*this, output, f, key);
  }
  changes++;
  return output;
}

void EngineState::set_row(FunctionId f, std::span<const Value> key, Value output) {
  FunctionInfo& info = at(f);
  if (log != nullptr && info.spec.kind == FunctionKind::Constructor) {
    // The row's own term is made first, so that there is something to be equal to.
    get_or_insert(f, key);
    return unite_logged(info.table.terms[info.table.find(key)], output);
  }
  const Row row = info.table.find(key);
  if (row == kNoRow) {
    info.table.append(key, output);
    changes++;
  } else if (info.spec.kind != FunctionKind::Constructor && info.table.is_doomed(row)) {
    info.table.revive(row, output);
    changes++;
  } else {
    merge_output(f, row, output);
  }
}

void EngineState::merge_output(FunctionId f, Row row, Value output) {
  FunctionInfo& info = at(f);
  const Value before = info.table.output_of(row);
  const bool equal = before == output;
  if (equal && !info.merges_equal()) return;
  const auto change = [&](Row at_row, Value merged) {
    if (merged == info.table.output_of(at_row)) return;
    info.table.change_output(at_row, merged);
    changes++;
  };
  switch (info.spec.merge.kind) {
    case Merge::Kind::Union:
      unite(before, output);
      return;
    case Merge::Kind::Old:
      return;
    case Merge::Kind::New:
      change(row, output);
      return;
    case Merge::Kind::Callback:
      change(row, info.spec.merge.callback(before, output));
      return;
    case Merge::Kind::AssertEqual: {
      const SortId sort = info.spec.output;
      if (canonical(sort, before) == canonical(sort, output)) return;
      fail<ErrorInRule>(
          "[{}] illegal merge: the output is already {} and cannot become {}; declare how they merge",
          clipped(info.spec.name), shown_value(*this, sort, before), shown_value(*this, sort, output));
    }
    case Merge::Kind::Program:
      break;
  }
  const CompiledMerge& merge = *info.merge;
  std::vector<Value> key;
  if (!merge.pure)
    for (uint32_t c = 0; c < info.table.key_width(); c++) key.push_back(info.table.column(c)[row]);
  const Value initial[] = {before, output};
  const CompiledActions& actions = equal ? merge.actions_if_equal : merge.actions;
  const std::vector<Value> values = run_once(*this, merge.slots, actions, initial, info.spec.name);
  const Value merged = values[equal ? merge.result_if_equal : merge.result];
  // The merge's own actions may have moved the row.
  change(merge.pure ? row : info.table.find(key), merged);
}

void EngineState::unite_logged(Value a, Value b) {
  if (ids.find(a) == ids.find(b)) return;
  log->add_union(*this, a, b);
  ids.unite(a, b);
  changes++;
}

void EngineState::remove_row(FunctionId f, std::span<const Value> key) {
  Table& table = at(f).table;
  const Row row = table.find(key);
  if (row == kNoRow || table.is_doomed(row)) return;
  table.remove(row);
  changes++;
}

void EngineState::subsume_row(FunctionId f, std::span<const Value> key) {
  FunctionInfo& info = at(f);
  if (info.spec.kind == FunctionKind::Function)
    fail("[{}] only rows of constructors and relations can be subsumed, but this is a function",
         clipped(info.spec.name));
  get_or_insert(f, key);
  const Row row = info.table.find(key);
  if (info.table.is_subsumed(row)) return;
  changes++;
  if (info.table.in_step())
    subsumed_in_step.emplace_back(f, row);
  else
    info.table.mark_subsumed(row);
}

void EngineState::begin_step() {
  clock++;
  in_step = true;
  for (FunctionInfo& info : functions) info.table.begin_step(clock);
}

void EngineState::end_step() {
  in_step = false;
  for (const auto& [f, row] : subsumed_in_step) {
    Table& table = at(f).table;
    if (table.is_live(row)) table.mark_subsumed(row);
  }
  subsumed_in_step.clear();
  for (FunctionInfo& info : functions) info.table.end_step();
}

struct PrimitiveInfo::Memo {
  struct Hash {
    size_t operator()(const std::vector<Value>& key) const {
      return hash_bytes(key.data(), key.size() * sizeof(Value));
    }
  };
  std::unordered_map<std::vector<Value>, std::optional<Value>, Hash> results;
};

void PrimitiveInfo::remember_results() { memo = std::make_shared<Memo>(); }

std::optional<Value> EngineState::call_primitive(PrimitiveId p, std::span<const Value> args) {
  PrimitiveInfo& info = at(p);
  if (info.memo == nullptr) return info.spec.call(args);
  const std::vector<Value> key(args.begin(), args.end());
  const auto known = info.memo->results.find(key);
  if (known != info.memo->results.end()) return known->second;
  const std::optional<Value> result = info.spec.call(args);
  info.memo->results.emplace(key, result);
  return result;
}

}  // namespace luminal::egraph
