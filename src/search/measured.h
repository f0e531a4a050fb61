#pragma once
#include <map>

#include "kernel/cost.h"
#include "luminal/session.h"
#include "search/problem.h"
#include "search/tuner.h"

namespace luminal::search {

/// A cover whose kernels were timed, and what was found for each of them.
struct MeasuredCover {
  Cover cover;
  std::map<SpecId, Tuned> kernels;
  Tuner::Phases phases;
  double cover_s = 0;
  int rounds = 0;
  bool out_of_time = false;
  double fast_us = 0;  ///< sum of measured times of the plan that the model alone would choose
  double best_us = 0;  ///< and of the one that was chosen
};

struct MeasureContext {
  const Graph& graph;
  const Program& program;
  const SaturatedProgram& saturated;
  SpecStore& store;
  backends::Backend& backend;
  Cache& cache;
  const kernel::MachineLimits& limits;
  const codegen::Bucket& bucket;
  const SearchOptions& options;
};

/// Cover and measurement in turn: the specs of the best plan are tuned, measured times replace predictions,
/// the plan is chosen again, until it asks for nothing new or the deadline has passed. Of all plans seen
/// whose kernels are all timed the one with the least sum is taken; the model's own plan is among them, so
/// the result is never slower than it by these times.
[[nodiscard]] MeasuredCover find_measured_cover(const MeasureContext& context, TunerOptions tuning);

/// When a mode's measuring has to end; the end of time for Optimal.
[[nodiscard]] Clock::time_point deadline_of(const CompilationMode& mode, Clock::time_point start);

}  // namespace luminal::search
