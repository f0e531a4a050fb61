#include "search/choose.h"

#include "base/fail.h"

namespace luminal::search {

Chosen choose_by_model(const kernel::KernelSpec& spec, const codegen::Bucket& bucket,
                       const codegen::Target& target) {
  Chosen best;
  for (const codegen::Schedule* schedule : codegen::schedules()) {
    auto candidates = schedule->candidates(spec, bucket, target);
    if (candidates.empty()) continue;
    codegen::Candidate& first = candidates.front();
    if (best.schedule == nullptr || first.predicted_us < best.predicted_us)
      best = {.schedule = schedule,
              .parameters = std::move(first.parameters),
              .predicted_us = first.predicted_us};
  }
  LUMINAL_CHECK(best.schedule != nullptr, "no schedule takes the kernel\n{}", spec.to_string());
  return best;
}

}  // namespace luminal::search
