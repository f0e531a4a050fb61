#include "search/tuning/implementation.h"

#include "base/fail.h"

namespace luminal::search {

Implementation best_by_model(const kernel::KernelSpec& spec, const codegen::Bucket& bucket,
                             const codegen::Target& target) {
  Implementation best;
  for (const codegen::Schedule* schedule : codegen::schedules()) {
    if (schedule->foreign) continue;
    auto first = codegen::best_of(*schedule, spec, bucket, target);
    if (!first || (best.schedule != nullptr && first->predicted_us >= best.predicted_us)) continue;
    best = {.schedule = schedule,
            .parameters = std::move(first->parameters),
            .predicted_us = first->predicted_us};
  }
  LUMINAL_CHECK(best.schedule != nullptr, "no schedule takes the kernel\n{}", spec.to_string());
  return best;
}

}  // namespace luminal::search
