#include "search/tuning/candidates.h"

#include <algorithm>

#include "base/fail.h"

namespace luminal::search {

Candidates find_candidates(const kernel::KernelSpec& spec, const codegen::Bucket& bucket,
                           const codegen::Target& target, int most) {
  std::vector<Tried> leaders, others;
  for (const codegen::Schedule* schedule : codegen::schedules()) {
    bool first = true;
    for (codegen::Candidate& candidate : schedule->candidates(spec, bucket, target)) {
      (first ? leaders : others)
          .push_back({.schedule = std::string(schedule->name),
                      .parameters = std::move(candidate.parameters),
                      .predicted_us = candidate.predicted_us});
      first = false;
    }
  }
  LUMINAL_CHECK(!leaders.empty(), "no schedule takes\n{}", spec.to_string());
  const auto by_prediction = [](std::vector<Tried>& list) {
    std::ranges::stable_sort(list, {}, &Tried::predicted_us);
  };
  by_prediction(leaders);
  by_prediction(others);
  const auto room = static_cast<size_t>(std::max<int>(0, most - static_cast<int>(leaders.size())));
  if (others.size() > room) others.resize(room);
  Candidates found{.promising = std::move(leaders), .hopeless = {}};
  std::ranges::move(others, std::back_inserter(found.promising));
  by_prediction(found.promising);
  // The model knows large kernels better than small ones, and to time them takes longer.
  constexpr double kLargeUs = 20e3;
  const double best = found.promising.front().predicted_us;
  const double hopeless = best > kLargeUs ? 2 : 6;
  const auto behind = std::ranges::find_if(
      found.promising, [&](const Tried& t) { return t.predicted_us > hopeless * best; });  // sorted
  found.hopeless.assign(behind, found.promising.end());
  found.promising.erase(behind, found.promising.end());
  return found;
}

}  // namespace luminal::search
