#pragma once
#include <memory>

#include "backends/device.h"
#include "runtime/plan.h"
#include "search/loops.h"
#include "search/saturate/saturated_graph.h"
#include "search/tuning/implementation.h"

namespace luminal::search {

/// How a plan came to be: counts and times.
struct PlanFacts {
  int kernels = 0, distinct_kernels = 0, compiled_kernels = 0;
  int host_ops = 0;  ///< launches that no kernel covers
  double choose_ms = 0, compile_ms = 0;
  /// Each distinct kernel and how it is run.
  struct Kernel {
    SpecId spec = 0;
    Implementation implementation;
    codegen::Bucket bucket;   ///< the part that its dims are in
    size_t first_launch = 0;  ///< into Plan::launches
    int launches = 0;
    uint64_t code = 0;  ///< hash of the program (KernelResult)
  };
  std::vector<Kernel> list;
  std::vector<size_t> kernel_of;  ///< into `list`, by launch; of a launch without kernel it says nothing
};

/// The plan of a cover: kernels chosen, compiled (equal ones once) and wired up.
[[nodiscard]] runtime::Plan build_plan(const Graph& graph, const KernelGraph& kernel_graph,
                                       const SaturatedGraph& saturated, const Cover& cover, SpecStore& store,
                                       const Loops& loops, const ImplementationFor& choose,
                                       backends::Device& backend, const codegen::Bucket& bucket,
                                       PlanFacts* facts = nullptr);

}  // namespace luminal::search
