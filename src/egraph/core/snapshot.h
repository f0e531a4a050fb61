#pragma once
#include "egraph/core/explain.h"
#include "egraph/core/state.h"

namespace luminal::egraph {

struct Snapshot {
  std::vector<SortInfo> sorts;
  std::deque<FunctionInfo> functions;
  std::deque<RuleInfo> rules;
  std::vector<RulesetInfo> rulesets;
  std::unordered_map<std::string, SortId> sort_names;
  std::unordered_map<std::string, FunctionId> function_names;
  std::unordered_map<std::string, RulesetId> ruleset_names;
  std::unordered_map<std::string, RuleId> rule_names;
  UnionFind ids;
  uint32_t clock = 0;
  uint64_t changes = 0;
  size_t bytes = 0;
  std::unique_ptr<ExplanationLog> log = {};
};

/// What a snapshot of the present state would take, about.
[[nodiscard]] size_t saved_bytes(const EngineState& state);

}  // namespace luminal::egraph
