#include "search/tuning/implementation.h"

#include "base/fail.h"

namespace luminal::search {

double ranking_us(const codegen::Schedule& family, double predicted_us) {
  constexpr double kLastMargin = 1.1;
  return &family == codegen::schedules().back() ? kLastMargin * predicted_us : predicted_us;
}

Implementation best_by_model(const kernel::KernelSpec& spec, const codegen::Bucket& bucket,
                             const codegen::Target& target) {
  Implementation best;
  double best_us = 0;
  for (const codegen::Schedule* schedule : codegen::schedules()) {
    if (schedule->foreign) continue;
    auto first = codegen::best_of(*schedule, spec, bucket, target);
    if (!first) continue;
    const double us = ranking_us(*schedule, first->predicted_us);
    if (best.schedule != nullptr && us >= best_us) continue;
    best_us = us;
    best = {.schedule = schedule,
            .parameters = std::move(first->parameters),
            .predicted_us = first->predicted_us};
  }
  LUMINAL_CHECK(best.schedule != nullptr, "no schedule takes the kernel\n{}", spec.to_string());
  return best;
}

}  // namespace luminal::search
