#pragma once
#include <memory>
#include <utility>

#include "backends/backend.h"

namespace luminal::test {

/// A kernel that does what another one does, but for what a test overrides.
class KernelLike : public backends::Kernel {
 public:
  explicit KernelLike(std::shared_ptr<const backends::Kernel> kernel) : kernel_(std::move(kernel)) {}
  const std::vector<std::string>& dims() const override { return kernel_->dims(); }
  int stage_count() const override { return kernel_->stage_count(); }
  int64_t tasks(int stage, std::span<const int64_t> dims) const override {
    return kernel_->tasks(stage, dims);
  }
  int64_t shared_bytes(std::span<const int64_t> dims) const override { return kernel_->shared_bytes(dims); }
  int64_t local_bytes(std::span<const int64_t> dims) const override { return kernel_->local_bytes(dims); }
  void run(int stage, const backends::LaunchArguments& arguments, int64_t begin, int64_t end) const override {
    kernel_->run(stage, arguments, begin, end);
  }
  std::vector<std::byte> binary() const override { return kernel_->binary(); }

 private:
  std::shared_ptr<const backends::Kernel> kernel_;
};

}  // namespace luminal::test
