#include "search/tuning/implementation.h"

#include "base/fail.h"

namespace luminal::search {

Implementation best_by_model(const kernel::KernelSpec& spec, const codegen::Bucket& bucket,
                             const codegen::Target& target) {
  // The family that takes every spec knows the shape of none: another wins where the model can hardly tell.
  constexpr double kLastMargin = 1.1;
  const std::vector<const codegen::Schedule*> families = codegen::schedules();
  Implementation best;
  for (const codegen::Schedule* schedule : families) {
    if (schedule->foreign) continue;
    auto first = codegen::best_of(*schedule, spec, bucket, target);
    const bool is_last = schedule == families.back();
    if (!first ||
        (best.schedule != nullptr && first->predicted_us * (is_last ? kLastMargin : 1) >= best.predicted_us))
      continue;
    best = {.schedule = schedule,
            .parameters = std::move(first->parameters),
            .predicted_us = first->predicted_us};
  }
  LUMINAL_CHECK(best.schedule != nullptr, "no schedule takes the kernel\n{}", spec.to_string());
  return best;
}

}  // namespace luminal::search
