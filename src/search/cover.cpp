#include "search/cover.h"

#include <algorithm>
#include <tuple>

#include "search/choice.h"
#include "search/merge.h"

namespace luminal::search {

namespace {

/// What is not known yet counts as little as it may turn out to be, so that it is looked at wherever it could
/// be the best.
constexpr double kOptimism = 0.7;

/// Prices that are known from covers before are guessed too, and only asked for again: what a process has
/// compiled before has no say in a plan.
void guess_costs(std::vector<std::vector<Cone>>& cones) {
  for (auto& list : cones)
    for (Cone& cone : list) cone.cost_us *= kOptimism;
}

}  // namespace

Cover find_cover(const CoverProblem& problem, SpecStore& store, const CoverCosts& given,
                 const SearchOptions& options) {
  const Colours colours = colours_of(problem, store);
  CostMemory* known = given.known;
  CostTable rough(store, given.rough, known != nullptr ? &known->rough : nullptr),
      fine(store, given.fine ? given.fine : given.rough,
           known == nullptr ? nullptr
           : given.fine     ? &known->fine
                            : &known->rough);
  auto cones = find_cones(problem, colours, store, rough, options.cones);
  if (given.fine) guess_costs(cones);
  Chooser::Price price;
  if (given.fine) price = [&](SpecId spec) { return fine.of(spec); };
  const Choice choice = Chooser(problem, colours, cones, price).run();
  Cover cover;
  cover.flips = choice.flips;
  cover.unfused_us = choice.unfused_us;
  for (const auto& list : cones) cover.cone_counts.push_back(static_cast<int>(list.size()));
  for (size_t c = 0; c < choice.cone.size(); ++c) {
    if (choice.cone[c] < 0) continue;
    const Cone& cone = cones[c][static_cast<size_t>(choice.cone[c])];
    cover.kernels.push_back(
        {cone.spec, cone.leaves, {static_cast<int>(c)}, cone.interior, fine.of(cone.spec)});
  }
  if (options.merge) merge_kernels(problem, colours, store, rough, fine, cover);
  order_steps(problem, colours, store, cover);
  for (const CoverKernel& kernel : cover.kernels) cover.cost_us += kernel.cost_us;
  return cover;
}

}  // namespace luminal::search
