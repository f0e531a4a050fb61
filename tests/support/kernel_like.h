#pragma once
#include <memory>
#include <utility>

#include "backends/host/device.h"
#include "luminal/error.h"

namespace luminal::test {

/// A kernel that does what another one does, but for what a test overrides.
class KernelLike : public backends::HostKernel {
 public:
  explicit KernelLike(std::shared_ptr<const backends::Kernel> kernel)
      : held_(std::move(kernel)), kernel_(&backends::on_host(*held_)) {}
  const std::vector<std::string>& dims() const override { return kernel_->dims(); }
  int stage_count() const override { return kernel_->stage_count(); }
  int64_t tasks(int stage, std::span<const int64_t> dims) const override {
    return kernel_->tasks(stage, dims);
  }
  int64_t shared_bytes(std::span<const int64_t> dims) const override { return kernel_->shared_bytes(dims); }
  int64_t local_bytes(std::span<const int64_t> dims) const override { return kernel_->local_bytes(dims); }
  int preparing_stages() const override { return kernel_->preparing_stages(); }
  int64_t prepared_bytes(std::span<const int64_t> dims) const override {
    return kernel_->prepared_bytes(dims);
  }
  uint64_t preparation() const override { return kernel_->preparation(); }
  std::span<const int> prepared_slots() const override { return kernel_->prepared_slots(); }
  void run(int stage, const backends::LaunchArguments& arguments, int64_t begin, int64_t end) const override {
    kernel_->run(stage, arguments, begin, end);
  }
  std::vector<std::byte> binary() const override { return kernel_->binary(); }

 private:
  std::shared_ptr<const backends::Kernel> held_;
  const backends::HostKernel* kernel_;
};

/// The CPU under a name of its own, so that what is remembered of others says nothing of it, and some of
/// whose kernels a test replaces.
class CpuLike : public backends::HostDevice {
 public:
  explicit CpuLike(std::string name) : target_(cpu_->target()) { target_.name = std::move(name); }
  const codegen::Target& target() const override { return target_; }
  std::optional<kernel::MachineLimits> limits() const override { return kernel::MachineLimits(); }
  std::shared_ptr<const backends::Kernel> compile(const codegen::Program& program,
                                                  const std::string& source) override {
    return replaced(program, cpu_->compile(program, source));
  }
  std::shared_ptr<const backends::Kernel> load(std::span<const std::byte>) override {
    throw FormatError("this device loads nothing");
  }
  std::string source(const codegen::Program& program) override { return cpu_->source(program); }
  std::string assembly(const codegen::Program& program) override { return cpu_->assembly(program); }

 protected:
  virtual std::shared_ptr<const backends::Kernel> replaced(const codegen::Program&,
                                                           std::shared_ptr<const backends::Kernel> kernel) {
    return kernel;
  }
  std::shared_ptr<backends::Device> cpu_ = backends::make_cpu_device();

 private:
  codegen::Target target_;
};

}  // namespace luminal::test
