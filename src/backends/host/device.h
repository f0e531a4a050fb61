#pragma once
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backends/device.h"

/// Devices whose kernels the host's own threads run, in the host's memory.
namespace luminal::backends {

/// What one stage of a launch sees. C layout: compiled code reads it.
struct LaunchArguments {
  void* const* buffers = nullptr;  ///< slots, then outputs, in Program order
  const int64_t* dims = nullptr;   ///< in Program::dims order
  std::byte* shared = nullptr;     ///< Kernel::shared_bytes, aligned to kAlignment
  std::byte* local = nullptr;      ///< of this thread: HostKernel::local_bytes, aligned to kAlignment
  std::byte* prepared = nullptr;   ///< Kernel::prepared_bytes, aligned to kAlignment
};

/// A kernel that threads of the host run: stages one after the other, tasks of a stage in any order, several
/// threads at once.
class HostKernel : public Kernel {
 public:
  [[nodiscard]] virtual int stage_count() const = 0;
  /// How many of them, the first ones, fill what Kernel::prepared_bytes counts.
  [[nodiscard]] virtual int preparing_stages() const { return 0; }
  /// Tasks of a stage at these sizes (values of dims(), in order).
  [[nodiscard]] virtual int64_t tasks(int stage, std::span<const int64_t> dims) const = 0;
  /// Workspace of each thread.
  [[nodiscard]] virtual int64_t local_bytes(std::span<const int64_t> dims) const = 0;
  /// Runs tasks [begin, end) of a stage on the calling thread.
  virtual void run(int stage, const LaunchArguments& arguments, int64_t begin, int64_t end) const = 0;
};

/// The same kernel as what the host runs. Errors: InternalError if another device runs it.
[[nodiscard]] const HostKernel& on_host(const Kernel& kernel);

class FmaRate;

/// Everything that a device of the host needs besides its compiler: host memory, a stream that is done when a
/// call returns, launch lists that the process's thread team runs without meeting between kernels, clocks.
/// Steady state: a launch allocates nothing.
class HostDevice : public Device {
 public:
  /// `threads` of the team take part; 0: all.
  explicit HostDevice(int threads = 0);
  ~HostDevice() override;
  [[nodiscard]] bool shares_host_memory() const final { return true; }
  [[nodiscard]] Address allocate(int64_t bytes) final;
  void free(Address memory, int64_t bytes) noexcept final;
  [[nodiscard]] std::unique_ptr<LaunchList> prepare(std::vector<ListedLaunch> launches) final;
  [[nodiscard]] std::unique_ptr<Stream> make_stream() final;
  [[nodiscard]] std::unique_ptr<Event> make_event() final;
  [[nodiscard]] double elapsed_us(const Event& from, const Event& to) const final;
  [[nodiscard]] kernel::MachineLimits measure_limits() final;
  [[nodiscard]] double measure_fma_rate() final;

 private:
  int threads_;
  std::once_flag fma_rate_made_;
  std::unique_ptr<FmaRate> fma_rate_;
};

/// Host memory as an address, for devices that share it.
[[nodiscard]] inline std::byte* host_pointer(Address address) {
  return static_cast<std::byte*>(address.memory) + address.offset;
}

}  // namespace luminal::backends
