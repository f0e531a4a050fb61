#include "search/cover.h"

#include "search/choice.h"
#include "search/merge.h"

namespace luminal::search {

Cover find_cover(const CoverProblem& problem, SpecStore& store, const SpecCost& cost,
                 const SearchOptions& options) {
  const Colours colours = colours_of(problem, store);
  CostTable costs(store, cost);
  const auto cones = find_cones(problem, colours, store, costs, options.cones);
  const Choice choice = Chooser(problem, colours, cones).run();
  Cover cover;
  cover.flips = choice.flips;
  for (const auto& list : cones) cover.cone_counts.push_back(static_cast<int>(list.size()));
  for (size_t c = 0; c < choice.cone.size(); ++c) {
    if (choice.cone[c] < 0) continue;
    const Cone& cone = cones[c][static_cast<size_t>(choice.cone[c])];
    cover.kernels.push_back({cone.spec, cone.leaves, {static_cast<int>(c)}, cone.interior, cone.cost_us});
  }
  if (options.merge) merge_kernels(problem, colours, store, costs, cover);
  order_steps(problem, colours, store, cover);
  for (const CoverKernel& kernel : cover.kernels) cover.cost_us += kernel.cost_us;
  return cover;
}

}  // namespace luminal::search
