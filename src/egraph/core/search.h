#pragma once
#include "egraph/core/rule_sink.h"

namespace luminal::egraph {

/// Runs a rule's plan and hands the matches to the sink. A long scan at its begin is cut into pieces that are
/// searched one after the other, or by several threads at once; matches come in the same order either way.
/// Returns false if the sink stopped it; `searched` grows by the rows looked at.
bool search(EngineState& state, const CompiledQuery& query, const Plan& plan,
            std::span<const RowRange> ranges, RuleSink& sink, uint64_t& searched);

}  // namespace luminal::egraph
