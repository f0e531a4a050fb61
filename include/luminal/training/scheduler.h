#pragma once
#include <cstdint>

namespace luminal::training {

/// Learning rates by step: plain functions of the step's number, so that a schedule can be resumed anywhere.
///
/// From `start` to `floor` along half a cosine over `steps` steps, then `floor`. Source: Loshchilov and
/// Hutter 2017, eq. 5.
struct CosineSchedule {
  double start = 1e-3;
  int64_t steps = 1;
  double floor = 0;
  [[nodiscard]] double operator()(int64_t step) const;
};

}  // namespace luminal::training
