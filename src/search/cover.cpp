#include "search/cover.h"

#include <algorithm>
#include <tuple>

#include "search/choice.h"
#include "search/merge.h"

namespace luminal::search {

namespace {

/// The kept cones, cheapest first by what running them costs.
void rate_finely(std::vector<std::vector<Cone>>& cones, const SpecStore& store, CostTable& fine) {
  for (auto& list : cones) {
    for (Cone& cone : list) cone.cost_us = fine.of(cone.spec);
    std::ranges::stable_sort(list, {}, [&](const Cone& cone) {
      return std::tuple(cone.cost_us, cone.leaves.size(), store.at(cone.spec).hash());
    });
  }
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
  if (given.fine) rate_finely(cones, store, fine);
  const Choice choice = Chooser(problem, colours, cones).run();
  Cover cover;
  cover.flips = choice.flips;
  for (const auto& list : cones) cover.cone_counts.push_back(static_cast<int>(list.size()));
  for (size_t c = 0; c < choice.cone.size(); ++c) {
    if (choice.cone[c] < 0) continue;
    const Cone& cone = cones[c][static_cast<size_t>(choice.cone[c])];
    cover.kernels.push_back({cone.spec, cone.leaves, {static_cast<int>(c)}, cone.interior, cone.cost_us});
  }
  if (options.merge) merge_kernels(problem, colours, store, rough, fine, cover);
  order_steps(problem, colours, store, cover);
  for (const CoverKernel& kernel : cover.kernels) cover.cost_us += kernel.cost_us;
  return cover;
}

}  // namespace luminal::search
