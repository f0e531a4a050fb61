#pragma once
#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "backends/host/device.h"
#include "base/team.h"

namespace luminal::backends {

/// One stage of one launch, at fixed sizes.
struct StageWork {
  const HostKernel* kernel = nullptr;
  int stage = 0;
  int64_t tasks = 0;
  LaunchArguments arguments;  ///< without `local`
  std::vector<int> before;    ///< earlier stages that have to be complete first
};

/// Runs the stages of a plan on a team: one job for all of them. Every thread walks the list from the front
/// and claims tasks of whatever stage is ready, so there is no fork and join between kernels, and small
/// independent kernels run side by side. A stage's tasks are cut into one contiguous part for each worker,
/// which finds the same part of its data in its cache at the next kernel; who is done early helps the others.
/// Who runs a task makes no difference to results: tasks of a stage write disjoint elements.
class StageScheduler {
 public:
  /// Workers take part up to `workers`; each has `local_bytes` of workspace from `local` on.
  StageScheduler(std::vector<StageWork> stages, int workers);

  void set_local(std::byte* local, int64_t bytes_each) {
    local_ = local;
    local_bytes_ = bytes_each;
  }
  [[nodiscard]] std::span<StageWork> stages() { return stages_; }
  /// Runs stages [begin, end); those before are complete. Allocates nothing.
  void run(Team& team, int begin, int end);

 private:
  // Counters lie on lines of their own: several threads write to them at once.
  struct alignas(64) Progress {
    std::atomic<int64_t> done{0};        ///< tasks
    std::atomic<bool> exhausted{false};  ///< every task is claimed
  };
  struct alignas(64) Part {
    std::atomic<int64_t> next{0};  ///< first task of this worker's part that nobody has claimed
  };
  void work(int worker);
  void walk(int worker);
  [[nodiscard]] bool is_ready(int stage) const;
  bool take(int stage, int worker);
  [[nodiscard]] Part& part(int stage, int worker) {
    return parts_[static_cast<size_t>(stage) * static_cast<size_t>(workers_) + static_cast<size_t>(worker)];
  }

  std::vector<StageWork> stages_;
  int workers_;
  std::byte* local_ = nullptr;
  int64_t local_bytes_ = 0;
  int begin_ = 0, end_ = 0;
  int64_t spin_ns_ = 0;
  std::atomic<bool> failed_{false};
  std::vector<Progress> progress_;
  std::vector<Part> parts_;
  alignas(64) std::atomic<uint32_t> completed_{0};  ///< counts completed stages; what waiting threads watch
};

}  // namespace luminal::backends
