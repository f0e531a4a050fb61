#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "backends/opencl/device.h"
#include "luminal/error.h"

namespace luminal::test {

/// Null where no driver has a device.
inline backends::Device* opencl() {
  static const std::shared_ptr<backends::Device> device = []() -> std::shared_ptr<backends::Device> {
    if (!backends::has_opencl()) return nullptr;
    try {
      return backends::make_opencl_device();
    } catch (const DeviceError&) {
      return nullptr;
    }
  }();
  return device.get();
}

}  // namespace luminal::test

/// Skips a test where there is no device, which the checks of a change install.
#define LUMINAL_NEEDS_OPENCL()                                                     \
  if (test::opencl() == nullptr) {                                                 \
    ASSERT_EQ(std::getenv("LUMINAL_TEST_CI"), nullptr) << "no OpenCL device";      \
    GTEST_SKIP() << "this machine has no OpenCL device (Debian: pocl-opencl-icd)"; \
  }                                                                                \
  static_assert(true)
