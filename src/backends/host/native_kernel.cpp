#include "backends/host/native_kernel.h"

#include <algorithm>

#include "base/fail.h"
#include "codegen/index_code.h"

namespace luminal::backends {
namespace {

using codegen::IndexCode;
using codegen::Program;
using codegen::Space;

class NativeKernel : public HostKernel {
 public:
  explicit NativeKernel(const Program& program)
      : dims_(program.dims),
        code_(program.native),
        slots_(
            static_cast<size_t>(std::ranges::count(program.buffers, Space::Slot, &codegen::Buffer::space))),
        tasks_(program.stages[0].tasks, dims_),
        shared_(workspace_of(program, Space::Shared).bytes, dims_),
        local_(workspace_of(program, Space::Local).bytes, dims_) {}

  [[nodiscard]] const std::vector<std::string>& dims() const override { return dims_; }
  [[nodiscard]] int stage_count() const override { return 1; }
  [[nodiscard]] int64_t tasks(int, std::span<const int64_t> dims) const override {
    return std::max<int64_t>(0, tasks_(dims));
  }
  [[nodiscard]] int64_t shared_bytes(std::span<const int64_t> dims) const override { return shared_(dims); }
  [[nodiscard]] int64_t local_bytes(std::span<const int64_t> dims) const override { return local_(dims); }
  [[nodiscard]] std::vector<std::byte> binary() const override { return {}; }
  void run(int, const LaunchArguments& arguments, int64_t begin, int64_t end) const override {
    code_->run({.slots = arguments.buffers,
                .outputs = arguments.buffers + slots_,
                .dims = {arguments.dims, dims_.size()},
                .begin = begin,
                .end = end,
                .shared = arguments.shared,
                .local = arguments.local});
  }

 private:
  std::vector<std::string> dims_;
  std::shared_ptr<const codegen::Native> code_;
  size_t slots_;
  IndexCode tasks_, shared_, local_;
};

}  // namespace

std::shared_ptr<const Kernel> make_native_kernel(const Program& program) {
  LUMINAL_CHECK(program.native && program.stages.size() == 1 && program.stages[0].body.empty(),
                "'{}' is not one stage of native code", program.name);
  return std::make_shared<NativeKernel>(program);
}

}  // namespace luminal::backends
