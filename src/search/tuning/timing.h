#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/device.h"
#include "kernel/spec.h"
#include "search/tuning/race.h"

namespace luminal::search {

struct Timing {
  std::vector<double> us;  ///< by kernel, as `race` gives them; empty if one ended the process
  size_t fallen = 0;       ///< the kernel that did
  std::string trouble;     ///< what became of it; "" if none did
};
/// By slot; null: numbers are drawn.
using SlotData = std::vector<std::shared_ptr<const TensorData>>;
/// Races kernels of one spec on data for its slots, contained. Where the deadline comes before the first result,
/// none was timed.
[[nodiscard]] Timing time_kernels(backends::Device& device, const kernel::KernelSpec& spec,
                                  const DimMap& sizes, const SlotData& given, uint64_t seed,
                                  std::span<const std::shared_ptr<const backends::Kernel>> kernels,
                                  const RaceOptions& options);

}  // namespace luminal::search
