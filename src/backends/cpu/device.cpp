#include <fmt/format.h>
#include <unistd.h>

#include "backends/cpu/jit.h"
#include "backends/host/device.h"
#include "backends/host/native_kernel.h"
#include "backends/kernel_file.h"
#include "base/environment.h"
#include "base/fail.h"
#include "base/machine.h"
#include "codegen/emit/llvm.h"
#include "codegen/index_code.h"

namespace luminal::backends {
namespace {

using codegen::IndexCode;
using codegen::Program;
using codegen::Space;
using codegen::Target;

class CpuKernel : public HostKernel {
 public:
  explicit CpuKernel(KernelFile file)
      : file_(std::move(file)),
        code_(file_.object),
        shared_(file_.shared_bytes, file_.dims),
        local_(file_.local_bytes, file_.dims),
        prepared_(file_.prepared_bytes, file_.dims) {
    for (size_t s = 0; s < file_.tasks.size(); ++s) {
      tasks_.emplace_back(file_.tasks[s], file_.dims);
      stages_.push_back(reinterpret_cast<StageFunction>(code_.symbol(file_.symbols[s])));
    }
  }

  [[nodiscard]] const std::vector<std::string>& dims() const override { return file_.dims; }
  [[nodiscard]] int stage_count() const override { return static_cast<int>(stages_.size()); }
  [[nodiscard]] int preparing_stages() const override { return file_.preparing_stages; }
  [[nodiscard]] int64_t tasks(int stage, std::span<const int64_t> dims) const override {
    return std::max<int64_t>(0, tasks_.at(static_cast<size_t>(stage))(dims));
  }
  [[nodiscard]] int64_t shared_bytes(std::span<const int64_t> dims) const override { return shared_(dims); }
  [[nodiscard]] int64_t local_bytes(std::span<const int64_t> dims) const override { return local_(dims); }
  [[nodiscard]] int64_t prepared_bytes(std::span<const int64_t> dims) const override {
    return prepared_(dims);
  }
  [[nodiscard]] uint64_t preparation() const override { return file_.preparation; }
  [[nodiscard]] std::span<const int> prepared_slots() const override { return file_.prepared_slots; }
  [[nodiscard]] std::span<const int> spent_slots() const override { return file_.spent_slots; }
  void run(int stage, const LaunchArguments& arguments, int64_t begin, int64_t end) const override {
    stages_[static_cast<size_t>(stage)](&arguments, begin, end);
  }
  [[nodiscard]] std::vector<std::byte> binary() const override { return to_bytes(file_); }

 private:
  using StageFunction = void (*)(const LaunchArguments*, int64_t, int64_t);
  KernelFile file_;
  LoadedObject code_;
  std::vector<StageFunction> stages_;
  std::vector<IndexCode> tasks_;
  IndexCode shared_, local_, prepared_;
};

int64_t cache_size(int level, int name, int64_t fallback) {
  if (const int64_t bytes = cache_bytes(level); bytes > 0) return bytes;
  const long bytes = ::sysconf(name);  // 0 or -1 where the system does not say
  return bytes > 0 ? bytes : fallback;
}

class CpuDevice : public HostDevice {
 public:
  CpuDevice() : cpu_(host_cpu(environment::cpu_features())) {
    target_.cpu = cpu_.cpu;
    target_.features = cpu_.features;
    target_.vector_bytes = cpu_.vector_bytes;
    target_.vector_registers = cpu_.vector_registers;
    target_.dots = cpu_.dots;
    target_.threads = environment::threads();
    target_.l1_bytes = cache_size(1, _SC_LEVEL1_DCACHE_SIZE, target_.l1_bytes);
    target_.l2_bytes = cache_size(2, _SC_LEVEL2_CACHE_SIZE, target_.l2_bytes);
    target_.l3_bytes = cache_size(3, _SC_LEVEL3_CACHE_SIZE, target_.l3_bytes);
  }

  [[nodiscard]] const Target& target() const override { return target_; }
  [[nodiscard]] bool is_built_in() const override { return true; }

  [[nodiscard]] std::shared_ptr<const Kernel> compile(const Program& program,
                                                      const std::string& source) override {
    if (program.native) return make_native_kernel(program);
    KernelFile file = kernel_file_of(program, host());
    file.object = compile_object(source, cpu_);
    return std::make_shared<CpuKernel>(std::move(file));
  }

  [[nodiscard]] std::shared_ptr<const Kernel> load(std::span<const std::byte> binary) override {
    KernelFile file = parse_kernel_file(binary);
    if (file.host != host())
      fail<FormatError>(
          "[kernel] compiled for another processor ({}); delete it, and it will be compiled again",
          file.host.substr(0, file.host.find(' ')));
    return std::make_shared<CpuKernel>(std::move(file));
  }

  [[nodiscard]] std::string source(const Program& program) override {
    if (program.native) return program.native->text + "\n";
    // Without this LLVM splits vectors of 64 bytes on processors whose early models were slow with them.
    const std::string attributes = fmt::format("\"prefer-vector-width\"=\"{}\"", cpu_.vector_bytes * 8);
    return codegen::emit_llvm(program, {.attributes = attributes,
                                        .vector_bytes = cpu_.vector_bytes,
                                        .converts_f16 = cpu_.converts_f16,
                                        .dots = cpu_.dots,
                                        .permutes = cpu_.permutes});
  }
  [[nodiscard]] std::string assembly(const Program& program) override {
    if (program.native) return source(program);
    return compile_assembly(source(program), cpu_);
  }

 private:
  [[nodiscard]] std::string host() const { return cpu_.cpu + " " + cpu_.features; }
  HostCpu cpu_;
  Target target_;
};

}  // namespace

std::shared_ptr<Device> make_cpu_device() { return std::make_shared<CpuDevice>(); }

}  // namespace luminal::backends
