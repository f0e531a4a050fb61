#pragma once
#include "egraph/core/state.h"

namespace luminal::egraph {

[[nodiscard]] Report run_schedule(EngineState& state, const Schedule& schedule, const Budget& budget);

/// All rules of a ruleset, those of its parts included, once each.
[[nodiscard]] std::vector<RuleId> rules_of(const EngineState& state, RulesetId ruleset);

/// True if the query has a match. The e-graph is rebuilt.
[[nodiscard]] bool has_match(EngineState& state, const CompiledQuery& query);

}  // namespace luminal::egraph
