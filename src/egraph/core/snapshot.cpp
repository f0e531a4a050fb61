#include "egraph/core/snapshot.h"

namespace luminal::egraph {
namespace {

constexpr size_t kAllocation = 32;  // what a piece of memory takes beside its content, about
constexpr size_t kNamed = 2 * kAllocation + sizeof(std::string);

size_t bytes_of(const SortInfo& sort) {
  return sizeof sort + sort.hooks.name.size() + sort.image.size_bytes() + sort.image_epoch.size_bytes() +
         4 * kAllocation;
}

size_t bytes_of(const FunctionInfo& info) {
  const size_t per_column = sizeof(SortId) * 2 + sizeof(SortKind);
  return sizeof info + info.spec.name.size() + info.sorts.size() * per_column +
         info.statistics.size() * sizeof(ColumnStatistics) + info.table.size_bytes() + 4 * kAllocation;
}

// As it was written and compiled.
size_t bytes_of(const RuleInfo& rule) {
  size_t bytes = sizeof rule + rule.spec.name.size() + rule.spec.origin.size() + 8 * kAllocation;
  const Query& query = rule.spec.query;
  bytes += (query.variables.size() + rule.spec.actions.variables.size()) * (sizeof(Variable) + sizeof(Slot));
  for (const Atom& atom : query.atoms)
    bytes += sizeof atom + sizeof(CompiledAtom) + atom.args.size() * (sizeof(Term) + sizeof(Slot)) +
             2 * kAllocation;
  for (const PrimitiveAtom& atom : query.primitives)
    bytes += sizeof atom + sizeof(CompiledCall) + atom.args.size() * (sizeof(Term) + sizeof(Slot)) +
             2 * kAllocation;
  for (const Action& action : rule.spec.actions.actions)
    bytes += sizeof action + sizeof(CompiledAction) + action.args.size() * (sizeof(Term) + sizeof(Slot)) +
             2 * action.message.size() + 4 * kAllocation;
  return bytes + rule.query.slots.size() * sizeof(SlotInfo);
}

template <class Names>
size_t bytes_of_names(const Names& names) {
  size_t bytes = names.bucket_count() * sizeof(void*);
  for (const auto& [name, id] : names) bytes += kNamed + name.size();
  return bytes;
}

}  // namespace

size_t saved_bytes(const EngineState& state) {
  size_t bytes = sizeof(Snapshot) + state.ids.size_bytes() + 32 * kAllocation;
  for (const SortInfo& sort : state.sorts) bytes += bytes_of(sort);
  for (const FunctionInfo& info : state.functions) bytes += bytes_of(info);
  for (const RuleInfo& rule : state.rules) bytes += bytes_of(rule);
  for (const RulesetInfo& ruleset : state.rulesets)
    bytes += sizeof ruleset + ruleset.name.size() + ruleset.rules.size() * sizeof(RuleId) + 2 * kAllocation;
  bytes += bytes_of_names(state.sort_names) + bytes_of_names(state.function_names) +
           bytes_of_names(state.ruleset_names) + bytes_of_names(state.rule_names);
  return state.log == nullptr ? bytes : bytes + state.log->size_bytes();
}

void EngineState::count_saved(size_t bytes) {
  snapshots.back()->bytes += bytes;
  snapshot_bytes += bytes;
}

}  // namespace luminal::egraph
