#include <cstring>

#include "backends/host/device.h"
#include "base/fail.h"
#include "codegen/interpreter.h"

namespace luminal::backends {
namespace {

/// One stage of one task, in which the interpreter runs all of the program.
class InterpretedKernel : public HostKernel {
 public:
  explicit InterpretedKernel(codegen::Program program) : program_(std::move(program)) {}
  const std::vector<std::string>& dims() const override { return program_.dims; }
  int stage_count() const override { return 1; }
  int64_t tasks(int, std::span<const int64_t>) const override { return 1; }
  int64_t shared_bytes(std::span<const int64_t>) const override { return 0; }
  int64_t local_bytes(std::span<const int64_t>) const override { return 0; }
  std::vector<std::byte> binary() const override { return {}; }

  void run(int, const LaunchArguments& arguments, int64_t begin, int64_t end) const override {
    if (begin >= end) return;
    DimMap dims;
    for (size_t i = 0; i < program_.dims.size(); ++i) dims.emplace(program_.dims[i], arguments.dims[i]);
    std::vector<TensorData> slots;
    for (const codegen::Buffer& buffer : program_.buffers) {
      if (buffer.space != codegen::Space::Slot) continue;
      TensorData& slot = slots.emplace_back(buffer.dtype, std::vector{buffer.elements.exec(dims)});
      if (!slot.bytes.empty())
        std::memcpy(slot.bytes.data(), arguments.buffers[slots.size() - 1], slot.bytes.size());
    }
    const std::vector<TensorData> outputs = codegen::interpret(program_, slots, dims);
    for (size_t i = 0; i < outputs.size(); ++i)
      if (!outputs[i].bytes.empty())
        std::memcpy(arguments.buffers[slots.size() + i], outputs[i].bytes.data(), outputs[i].bytes.size());
  }

 private:
  codegen::Program program_;
};

class ReferenceDevice : public HostDevice {
 public:
  ReferenceDevice() {
    target_.name = "reference";
    target_.vector_bytes = 16;
  }
  const codegen::Target& target() const override { return target_; }
  std::optional<kernel::MachineLimits> limits() const override { return kernel::MachineLimits(); }
  std::shared_ptr<const Kernel> compile(const codegen::Program& program, const std::string&) override {
    codegen::verify(program);
    return std::make_shared<InterpretedKernel>(program);
  }
  std::shared_ptr<const Kernel> load(std::span<const std::byte>) override {
    fail<FormatError>("[reference] nothing is kept on disk");
  }
  std::string source(const codegen::Program& program) override { return program.to_string(); }
  std::string assembly(const codegen::Program&) override { return "there is none: loops are interpreted\n"; }

 private:
  codegen::Target target_;
};

}  // namespace

std::shared_ptr<Device> make_reference_device() { return std::make_shared<ReferenceDevice>(); }

}  // namespace luminal::backends
