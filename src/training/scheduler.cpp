#include "luminal/training/scheduler.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace luminal::training {

double CosineSchedule::operator()(int64_t step) const {
  const double progress =
      std::clamp(static_cast<double>(step) / static_cast<double>(std::max<int64_t>(1, steps)), 0.0, 1.0);
  return floor + (start - floor) * (1 + std::cos(std::numbers::pi * progress)) / 2;
}

}  // namespace luminal::training
