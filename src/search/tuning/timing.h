#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/device.h"
#include "kernel/spec.h"
#include "luminal/tensor_data.h"
#include "search/tuning/race.h"

namespace luminal::search {

/// By slot; null: numbers are drawn.
using SlotData = std::vector<std::shared_ptr<const TensorData>>;

/// Kernels of one spec that race at some sizes.
struct TimingRequest {
  const kernel::KernelSpec* spec = nullptr;
  DimMap sizes;
  std::function<SlotData()> given;  ///< called where they race
  std::vector<std::shared_ptr<const backends::Kernel>> kernels;
  double least_s = 0;  ///< they do not race if less time is left
};

struct Timing {
  std::vector<double> us;  ///< by kernel, as `race` gives them; empty if one ended the process
  size_t fallen = 0;       ///< the kernel that did
  std::string trouble;     ///< what became of it; "" if none did
};

/// Runs races one after the other, contained: in one process, until a kernel ends it. Where the deadline comes before
/// a race, none of its kernels was timed.
[[nodiscard]] std::vector<Timing> time_kernels(backends::Device& device,
                                               std::span<const TimingRequest> requests, uint64_t seed,
                                               const RaceOptions& options);

}  // namespace luminal::search
