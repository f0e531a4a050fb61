#pragma once
#include <memory>

#include "backends/device.h"

namespace luminal::backends::opencl {

/// What a device reaches, measured by kernels that it compiles and timed by its events.
class Probes {
 public:
  explicit Probes(Device& device);
  ~Probes();
  /// f32 flops per us of so many compute units.
  [[nodiscard]] double fma_rate(int units) const;
  [[nodiscard]] kernel::MachineLimits limits() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace luminal::backends::opencl
