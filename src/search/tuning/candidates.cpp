#include "search/tuning/candidates.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/fail.h"
#include "search/tuning/implementation.h"

namespace luminal::search {
namespace {

struct Ranked {
  Tried tried;
  double ranking_us = 0;
  bool foreign = false;
  bool is_first = false;  ///< of its family
};

/// Best first. Equal ones stay in the order of their families, whose first candidates come before all others.
std::vector<Ranked> ranked_candidates(const kernel::KernelSpec& spec, const codegen::Bucket& bucket,
                                      const codegen::Target& target) {
  std::vector<Ranked> all;
  for (const codegen::Schedule* schedule : codegen::schedules()) {
    bool first = true;
    for (codegen::Candidate& candidate : schedule->candidates(spec, bucket, target)) {
      all.push_back({.tried = {.schedule = std::string(schedule->name),
                               .parameters = std::move(candidate.parameters),
                               .predicted_us = candidate.predicted_us},
                     .ranking_us = ranking_us(*schedule, candidate.predicted_us),
                     .foreign = schedule->foreign,
                     .is_first = std::exchange(first, false)});
    }
  }
  LUMINAL_CHECK(!all.empty(), "no schedule takes\n{}", spec.to_string());
  std::ranges::stable_partition(all, &Ranked::is_first);
  std::ranges::stable_sort(all, {}, &Ranked::ranking_us);
  return all;
}

}  // namespace

Candidates narrowed(Candidates found, const Cache::Choice& elsewhere) {
  const auto equal_parameters = [&](const Tried& tried) {
    return std::ranges::count_if(tried.parameters, [&](const auto& parameter) {
      const auto there = elsewhere.parameters.find(parameter.first);
      return there != elsewhere.parameters.end() && there->second == parameter.second;
    });
  };
  const Tried* nearest = nullptr;
  for (const Tried& tried : found.promising)
    if (tried.schedule == elsewhere.schedule &&
        (nearest == nullptr || equal_parameters(tried) > equal_parameters(*nearest)))
      nearest = &tried;
  if (nearest == nullptr) return found;
  Candidates few;
  for (Tried& tried : found.promising) {
    const bool stays =
        few.promising.empty() || &tried == nearest || codegen::find_schedule(tried.schedule).foreign;
    (stays ? few.promising : few.hopeless).push_back(std::move(tried));
  }
  std::ranges::move(found.hopeless, std::back_inserter(few.hopeless));
  return few;
}

int effort_for(double share, int most) {
  struct Step {
    double below;
    int candidates;
  };
  constexpr Step kSteps[] = {{0.001, 1}, {0.005, 2}, {0.02, 4}};
  for (const Step& step : kSteps)
    if (share < step.below) return std::min(step.candidates, most);
  return most;
}

Candidates find_candidates(const kernel::KernelSpec& spec, const codegen::Bucket& bucket,
                           const codegen::Target& target, int most) {
  // The model knows large kernels better than small ones, and to time them takes longer.
  constexpr double kLargeUs = 20e3, kReach = 1.5;
  constexpr size_t kFirst = 3;
  constexpr int kMostLarge = 4;
  std::vector<Ranked> all = ranked_candidates(spec, bucket, target);
  const double best = all.front().tried.predicted_us;
  const bool is_large = best > kLargeUs;
  const double hopeless = best * (is_large ? 2 : 6);
  if (is_large) most = std::min(most, kMostLarge);
  std::vector<bool> is_promising(all.size());
  int families = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const Ranked& each = all[i];
    const double us = each.tried.predicted_us;
    is_promising[i] = each.foreign || (us <= hopeless && (i < kFirst || us <= kReach * best));
    families += is_promising[i] && each.is_first && !each.foreign ? 1 : 0;
  }
  const bool takes_all_families = most >= families;
  int room = takes_all_families ? most - families : most;
  Candidates found;
  for (size_t i = 0; i < all.size(); ++i) {
    Ranked& each = all[i];
    const bool has_place = each.foreign || (takes_all_families && each.is_first);
    if (is_promising[i] && (has_place || room > 0)) {
      if (!has_place) --room;
      found.promising.push_back(std::move(each.tried));
    } else if (each.is_first) {
      found.hopeless.push_back(std::move(each.tried));
    }
  }
  return found;
}

}  // namespace luminal::search
