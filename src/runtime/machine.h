#pragma once
#include <filesystem>

#include "backends/device.h"
#include "kernel/cost.h"

namespace luminal::runtime {

/// Device::measure_limits, but once for a kind of machine: kept in `folder` in a file named by the target's
/// description and the number of threads. A file that is damaged or of another version is measured anew and
/// replaced; a folder that cannot be written is no error. An empty folder keeps nothing.
[[nodiscard]] kernel::MachineLimits limits_of(backends::Device& device, const std::filesystem::path& folder);

/// What the device says of itself (Device::limits), or limits_of in the cache folder (LUMINAL_CACHE), once
/// per device and process.
[[nodiscard]] const kernel::MachineLimits& machine_limits(backends::Device& device);

}  // namespace luminal::runtime
