#pragma once
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "kernel/cost.h"
#include "luminal/compile_report.h"
#include "luminal/session.h"
#include "search/loops.h"
#include "search/saturate/saturated_graph.h"
#include "search/tuning/example_inputs.h"
#include "search/tuning/tuner.h"

namespace luminal::search {

/// A cover whose kernels were timed, and what was found for each of them.
struct PlanSearchResult {
  Cover cover;
  std::map<SpecId, Tuned> kernels;
  TuningPhases phases;
  double cover_s = 0;
  std::vector<CompileReport::Round> rounds;
  bool out_of_time = false;
  double best_us = 0;  ///< sum of the kernels' times
  /// Whole plans timed against each other; 0: nothing was timed (all was remembered, or no time was left).
  double plan_us = 0, models_plan_us = 0;
  /// What a run as planned made of its inputs (PlanRunner::digest), by the plan's key: of whole plans that were timed.
  std::map<uint64_t, uint64_t> digests;
  std::string note;  ///< why it is the model's own plan; "" if it is not
  Leaves values;     ///< of the graph, as runs have them: on what candidates were timed
};

struct PlanSearchContext {
  const Graph& graph;
  const KernelGraph& kernel_graph;
  const SaturatedGraph& saturated;
  SpecStore& store;
  backends::Device& backend;
  Cache& cache;
  const kernel::MachineLimits& limits;
  const codegen::Bucket& bucket;
  const SearchOptions& options;
  const Loops& loops;
  std::vector<DimMap> sizes = {};  ///< of the bucket, where candidates are timed; none: at its greatest
  std::shared_ptr<PassedForms> passed_forms = std::make_shared<PassedForms>();  ///< see TunerOptions
};

/// When the parts of a measured search end; the end of time for Optimal. A budget is shared out from the start
/// of the compile: what follows measuring needs its time as well.
struct Deadlines {
  Clock::time_point kernels = Clock::time_point::max();  ///< timing of kernels
  Clock::time_point plans = Clock::time_point::max();    ///< timing of whole plans
  Clock::time_point verify = Clock::time_point::max();
};
[[nodiscard]] Deadlines deadlines_of(const CompilationMode& mode, Clock::time_point start);

/// Which plan to take by their times: the first one, best by its kernels, unless another is clearly faster; and the
/// model's, `by_model` if it is among them, unless that one is faster.
[[nodiscard]] size_t plan_to_take(std::span<const double> us, std::optional<size_t> by_model);

/// Cover and measurement in turn: the specs of the best plan are tuned, measured times replace predictions,
/// the plan is chosen again, until it asks for nothing new or the deadline has passed. The best plans by the
/// sums of their kernels' times and the plan that the model alone would make are then timed whole, in turn,
/// and the fastest is taken: no mode is slower than the model alone, as far as measuring here can show. Its kernels
/// are verified; in a search that is asked to end before, those that are not become the model's choice. Where
/// there is no time to measure anything, or no verified kernel makes the plan faster, the model's plan is the
/// result. Errors: LawFault if all kernels for a spec are wrong; NoKernelPasses where nobody can tell what the
/// spec was made for. The plan is kept under `program`, what program_parts() says of this program.
[[nodiscard]] PlanSearchResult search_plan(const PlanSearchContext& context, std::vector<std::string> program,
                                           const Deadlines& deadlines);

}  // namespace luminal::search
