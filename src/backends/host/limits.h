#pragma once
#include <memory>

#include "backends/host/device.h"

namespace luminal::backends {

/// What a device of the host reaches, measured by kernels that it compiles: fma rate on all threads, read
/// rates from memory and from the caches, the time from one kernel to the next. Takes about 0.2 s.
[[nodiscard]] kernel::MachineLimits measure_host_limits(HostDevice& device);

/// Device::measure_fma_rate, with what it needs compiled once.
class FmaRate {
 public:
  explicit FmaRate(HostDevice& device);
  ~FmaRate();
  [[nodiscard]] double measure() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace luminal::backends
