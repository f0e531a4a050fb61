#pragma once
#include <memory>

#include "backends/device.h"

namespace luminal::backends {

/// Whether this machine has an OpenCL driver; whether that has a device shows when it is first asked for.
[[nodiscard]] bool has_opencl();
/// The first device of any OpenCL 1.2 driver that rounds as the loop IR says. Errors: DeviceError if there is none.
[[nodiscard]] std::shared_ptr<Device> make_opencl_device();

}  // namespace luminal::backends
