#include "search/cover/cover.h"

#include <algorithm>
#include <tuple>

#include "search/cover/expansion.h"
#include "search/cover/merge.h"
#include "search/cover/selection.h"

namespace luminal::search {

namespace {

/// What is not known yet counts as little as it may turn out to be, so that it is looked at wherever it could
/// be the best.
constexpr double kOptimism = 0.7;

/// Prices that are known from covers before are guessed too, and only asked for again: what a process has
/// compiled before has no say in a plan.
void guess_costs(std::vector<std::vector<Fusion>>& fusions) {
  for (auto& list : fusions)
    for (Fusion& fusion : list) fusion.cost_us *= kOptimism;
}

}  // namespace

namespace {

/// Empty if no plan can do without what is unstored.
std::optional<Cover> cover_of(const CoverProblem& problem, SpecStore& store, const CoverCosts& given,
                              const SearchOptions& options) {
  const Structure structure = structure_of(problem, store);
  CostMemory* known = given.known;
  CostTable rough(store, given.rough, known != nullptr ? &known->rough : nullptr, given.shared),
      fine(store, given.fine ? given.fine : given.rough,
           known == nullptr ? nullptr
           : given.fine     ? &known->fine
                            : &known->rough,
           given.shared);
  auto fusions = find_fusions(problem, structure, store, rough, options.fusions);
  if (given.fine) guess_costs(fusions);
  Selector::Price price;
  if (given.fine) price = [&](SpecId spec) { return fine.of(spec); };
  Selector selector(problem, structure, fusions, price);
  const bool possible = std::ranges::none_of(problem.classes, &CoverProblem::Class::unstored) ||
                        selector.plan_of(std::vector<char>(problem.classes.size(), 1)).cost_us < kImpossible;
  if (!possible) return std::nullopt;
  const Selection selection = selector.run();
  Cover cover;
  cover.flips = selection.flips;
  cover.unfused_us = selection.unfused_us;
  for (const auto& list : fusions) cover.fusion_counts.push_back(static_cast<int>(list.size()));
  for (size_t c = 0; c < selection.fusion.size(); ++c) {
    if (selection.fusion[c] < 0) continue;
    const Fusion& fusion = fusions[c][static_cast<size_t>(selection.fusion[c])];
    cover.kernels.push_back(
        {fusion.spec, fusion.leaves, {static_cast<int>(c)}, fusion.interior, fine.of(fusion.spec)});
  }
  if (options.merge) merge_kernels(problem, structure, store, rough, fine, cover);
  order_steps(problem, structure, store, cover);
  for (const CoverKernel& kernel : cover.kernels) cover.cost_us += kernel.cost_us;
  return cover;
}

/// What memory is worth: a plan that stores nothing that grows with the square of a length may take this many
/// times as long.
constexpr double kMostForMemory = 3;

}  // namespace

Cover find_cover(const CoverProblem& problem, SpecStore& store, const CoverCosts& given,
                 const SearchOptions& options) {
  Cover cover = cover_of(problem, store, given, options).value();
  if (const auto smaller = without_expansions(problem, store, cover, given))
    if (auto other = cover_of(*smaller, store, given, options);
        other && other->cost_us <= kMostForMemory * cover.cost_us)
      return std::move(*other);
  return cover;
}

}  // namespace luminal::search
