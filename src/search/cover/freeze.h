#pragma once
#include "search/cover/cover.h"
#include "search/saturate/saturated_graph.h"

namespace luminal::search {

/// Kernels of a cover that fold what they read of weights (GraphEditor::is_weight) become kernels with frozen slots, so
/// that schedules may prepare these operands once for all runs. Where the weight's size is known and no state update
/// writes it.
void freeze_weights(const Graph& graph, const KernelGraph& kernel_graph, const SaturatedGraph& saturated,
                    const SearchOptions& options, SpecStore& store, Cover& cover);

}  // namespace luminal::search
