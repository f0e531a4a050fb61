#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "luminal/search_options.h"
#include "search/saturate/spec_store.h"

/// Cutting an e-graph into kernels (docs/design.md, "search"): technology mapping with priority cuts over
/// structural choices (Mishchenko et al., ICCAD 2007), and a local search over which values exist in memory.
namespace luminal::search {

/// The e-graph as the cover sees it. Classes are numbered; nothing depends on how.
struct CoverProblem {
  struct Alternative {
    SpecId spec = 0;             ///< one output
    std::vector<int> arguments;  ///< classes, by slot
  };
  struct Class {
    std::vector<Alternative> alternatives;  ///< empty: it is there (an input, a result of a host op)
    bool wanted = false;                    ///< must be in memory after the run
    bool no_recompute = false;              ///< computed by at most one kernel of a plan
    bool unstored = false;                  ///< never in memory: each reader computes it
    int host = -1;                          ///< made by this host op
    uint64_t label = 0;  ///< of a class without alternatives: what makes it alike to others
  };
  /// A launch that is given: it needs its inputs in memory and runs after other hosts.
  struct Host {
    std::vector<int> inputs, after;
    bool must_run = false;
    uint64_t label = 0;
  };
  std::vector<Class> classes;
  std::vector<Host> hosts;
};

/// One kernel of a plan: slots and outputs by class.
struct CoverKernel {
  SpecId spec = 0;
  std::vector<int> inputs, outputs;
  std::vector<int> interior;  ///< classes it computes on the way, its outputs not counted
  double cost_us = 0;
};

/// What one launch of a plan is, in an order in which all can run.
struct CoverStep {
  int kernel = -1, host = -1;  ///< exactly one is set
};

struct Cover {
  std::vector<CoverKernel> kernels;
  std::vector<CoverStep> steps;
  double cost_us = 0;              ///< sum over the kernels
  double unfused_us = 0;           ///< with every value in memory, or less
  int flips = 0, merges = 0;       ///< steps of the search that made the plan cheaper
  std::vector<int> fusion_counts;  ///< kernels that were open for each class when the selection was made
};

/// Classes as the names that a store takes.
[[nodiscard]] inline SpecStore::Names names_of(const std::vector<int>& classes) {
  return {reinterpret_cast<const uint32_t*>(classes.data()), classes.size()};
}

/// Predicted time of a kernel, in us.
using SpecCost = std::function<double(const kernel::KernelSpec&)>;

/// Costs by spec; below 0: not asked for yet.
struct CostMemory {
  std::vector<double> rough, fine;
};

/// What kernels cost. `rough` is asked for every fusion that is tried; `fine`, if given, for those that a
/// plan takes and for merged kernels: it may know how a kernel would be run, and may take its time.
struct CoverCosts {
  SpecCost rough, fine;
  CostMemory* known = nullptr;  ///< of covers before with the same store and the same costs
  bool shared = false;          ///< whether several threads may ask at once
  DimMap sizes = {};            ///< of named dims; for `large_bytes`
  /// Values above this that grow from smaller ones (expansion.h) stay out of memory where a plan can do without
  /// them in at most three times the time. Below 0: nothing does.
  double large_bytes = -1;
};

/// A cheap cover: every wanted class and every input of a host that runs is made, each class before it is
/// read. The same cover, up to the numbering of classes, for any numbering. Errors: InternalError if a wanted
/// class can't be made at all.
[[nodiscard]] Cover find_cover(const CoverProblem& problem, SpecStore& store, const CoverCosts& costs,
                               const SearchOptions& options);
[[nodiscard]] inline Cover find_cover(const CoverProblem& problem, SpecStore& store, const SpecCost& cost,
                                      const SearchOptions& options) {
  return find_cover(problem, store, CoverCosts{cost, nullptr, nullptr}, options);
}

}  // namespace luminal::search
