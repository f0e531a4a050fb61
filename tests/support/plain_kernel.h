#pragma once
#include <functional>
#include <utility>

#include "backends/host/device.h"

namespace luminal::test {

/// A kernel in plain code: what one task does with the buffers, inputs first.
class PlainKernel : public backends::HostKernel {
 public:
  using Task = std::function<void(void* const* buffers, int64_t task)>;
  PlainKernel(int64_t tasks, Task task) : tasks_(tasks), task_(std::move(task)) {}
  const std::vector<std::string>& dims() const override { return dims_; }
  int stage_count() const override { return 1; }
  int64_t tasks(int, std::span<const int64_t>) const override { return tasks_; }
  int64_t shared_bytes(std::span<const int64_t>) const override { return 0; }
  int64_t local_bytes(std::span<const int64_t>) const override { return 0; }
  void run(int, const backends::LaunchArguments& a, int64_t begin, int64_t end) const override {
    for (int64_t i = begin; i < end; ++i) task_(a.buffers, i);
  }
  std::vector<std::byte> binary() const override { return {}; }

 private:
  std::vector<std::string> dims_;
  int64_t tasks_;
  Task task_;
};

}  // namespace luminal::test
