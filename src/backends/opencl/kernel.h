#pragma once
#include <memory>
#include <mutex>
#include <vector>

#include "backends/device.h"
#include "backends/kernel_file.h"
#include "backends/opencl/driver.h"
#include "codegen/index_code.h"

/// Programs of one device.
namespace luminal::backends::opencl {

/// A device of a driver, as long as anything uses it.
struct Card {
  DeviceId id = nullptr;
  OwnedContext context;
  std::string identity;  ///< device, versions: binaries of another one are refused
  size_t largest_allocation = 0, largest_parameters = 0;
};

/// A compiled program; its file is the CPU's, with the driver's binary as the object.
class OpenClKernel : public Kernel {
 public:
  OpenClKernel(Device& device, std::shared_ptr<const Card> card, OwnedProgram program, KernelFile file);
  [[nodiscard]] Device* device() const override { return &device_; }
  [[nodiscard]] const std::vector<std::string>& dims() const override { return file_.dims; }
  [[nodiscard]] int64_t shared_bytes(std::span<const int64_t> dims) const override { return shared_(dims); }
  [[nodiscard]] int64_t prepared_bytes(std::span<const int64_t> dims) const override {
    return prepared_(dims);
  }
  [[nodiscard]] uint64_t preparation() const override { return file_.preparation; }
  [[nodiscard]] std::span<const int> prepared_slots() const override { return file_.prepared_slots; }
  [[nodiscard]] std::span<const int> spent_slots() const override { return file_.spent_slots; }
  [[nodiscard]] std::vector<std::byte> binary() const override { return to_bytes(file_); }

  [[nodiscard]] int stage_count() const { return static_cast<int>(tasks_.size()); }
  [[nodiscard]] int preparing_stages() const { return file_.preparing_stages; }
  [[nodiscard]] int64_t tasks(int stage, std::span<const int64_t> dims) const;
  /// Of the block that runs a task of the stage.
  [[nodiscard]] int threads(int stage) const { return file_.threads.at(static_cast<size_t>(stage)); }
  /// Workspace of one thread.
  [[nodiscard]] int64_t local_bytes(std::span<const int64_t> dims) const { return local_(dims); }
  /// Which workspaces are parameters of the stages (codegen::emit_c).
  [[nodiscard]] bool has_shared() const { return file_.shared_bytes.constant() != 0; }
  [[nodiscard]] bool has_prepared() const { return file_.prepared_bytes.constant() != 0; }
  [[nodiscard]] bool has_local() const { return file_.local_bytes.constant() != 0; }
  /// A stage with arguments of its own. Errors: DeviceError.
  [[nodiscard]] OwnedKernel stage(int number) const;

 private:
  Device& device_;
  std::shared_ptr<const Card> card_;
  OwnedProgram program_;
  KernelFile file_;
  std::vector<codegen::IndexCode> tasks_;
  codegen::IndexCode shared_, local_, prepared_;
};

/// Errors: InternalError with the compiler's log; DeviceError if it takes more arguments than the device passes.
[[nodiscard]] std::shared_ptr<const Kernel> compile_kernel(Device& device,
                                                           const std::shared_ptr<const Card>& card,
                                                           const codegen::Program& program,
                                                           const std::string& source);
/// Errors: FormatError as Device::load.
[[nodiscard]] std::shared_ptr<const Kernel> load_kernel(Device& device,
                                                        const std::shared_ptr<const Card>& card,
                                                        std::span<const std::byte> binary);

}  // namespace luminal::backends::opencl
