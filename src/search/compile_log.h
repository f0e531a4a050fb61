#pragma once
#include "luminal/compile_report.h"
#include "luminal/graph.h"
#include "runtime/plan.h"
#include "search/saturate/saturated_graph.h"

namespace luminal::search {

/// A compile that is done.
struct CompletedCompile {
  const CompileReport& report;
  const Graph& graph;
  const SaturatedGraph& saturated;
  const SpecStore& store;
  const runtime::Plan& plan;
};

/// Whether LUMINAL_DEBUG or LUMINAL_DUMP ask for it.
[[nodiscard]] bool is_logged();
/// LUMINAL_DEBUG=1 tells the devices, once, and a line of each compile; 3 what was taken for each kernel
/// beside the best that was not. LUMINAL_DUMP gets graph, e-graph, plan and report, by the plan's key.
void log_compile(const CompletedCompile& finished);

}  // namespace luminal::search
