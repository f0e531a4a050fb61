#pragma once
#include <filesystem>
#include <memory>

#include "backends/backend.h"
#include "kernel/cost.h"

namespace luminal::runtime {

/// What a backend's device reaches, measured by kernels that it compiles: fma rate on all threads, read rates
/// from memory and from the caches, the time from one kernel to the next. Takes about 0.2 s.
[[nodiscard]] kernel::MachineLimits measure_limits(backends::Backend& backend);

/// The fma rate alone, in flops per us, as the device gives it now: its clock changes with what it has just
/// done and with what others do. For those who compare it with what they time; takes about 2 ms.
class FmaRate {
 public:
  explicit FmaRate(backends::Backend& backend);
  ~FmaRate();
  [[nodiscard]] double measure() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// As measure_limits, but once for a kind of machine: kept in `folder` in a file named by the target's
/// description and the number of threads. A file that is damaged or of another version is measured anew and
/// replaced; a folder that cannot be written is no error. An empty folder keeps nothing.
[[nodiscard]] kernel::MachineLimits limits_of(backends::Backend& backend,
                                              const std::filesystem::path& folder);

/// limits_of in the cache folder (LUMINAL_CACHE), once per backend and process.
[[nodiscard]] const kernel::MachineLimits& machine_limits(backends::Backend& backend);

}  // namespace luminal::runtime
