#pragma once
#include "codegen/target.h"
#include "search/cover/cover.h"
#include "search/saturate/saturated_graph.h"

namespace luminal::search {

/// Kernels of a cover that fold what they read of weights (GraphEditor::is_weight) become kernels with frozen slots, so
/// that schedules may prepare these operands once for all runs. In programs whose sizes are known, and where no state
/// update writes the weight: plans for several sizes would keep a copy each.
void freeze_weights(const Graph& graph, const KernelGraph& kernel_graph, const SaturatedGraph& saturated,
                    const SearchOptions& options, const codegen::Bucket& bucket, SpecStore& store,
                    Cover& cover);

}  // namespace luminal::search
