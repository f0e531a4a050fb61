#pragma once
#include "egraph/core/rule_sink.h"

namespace luminal::egraph {

/// Runs the cached plan of a rule's query, whose indexes are prepared, and hands the matches to the sink. A
/// long scan at its begin is cut into pieces that are searched one after the other, or by several threads at
/// once; matches come in the same order either way. If the first piece takes much longer than planned, it
/// begins anew with a plan that knows what was met. Returns false if the sink stopped it; `searched` grows by
/// the rows looked at.
bool search(EngineState& state, const CompiledQuery& query, PlanCache& cache,
            std::span<const RowRange> ranges, RuleSink& sink, uint64_t& searched);

}  // namespace luminal::egraph
