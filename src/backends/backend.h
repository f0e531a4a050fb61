#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/loop_ir.h"
#include "codegen/target.h"
#include "kernel/cost.h"

/// A device: memory, compiling, launching, description. Backends that this machine cannot serve are absent.
namespace luminal::backends {

/// What one stage of a launch sees. C layout: compiled code reads it.
struct LaunchArguments {
  void* const* buffers = nullptr;  ///< slots, then outputs, in Program order
  const int64_t* dims = nullptr;   ///< in Program::dims order
  std::byte* shared = nullptr;     ///< Kernel::shared_bytes, 64-byte aligned
  std::byte* local = nullptr;      ///< of this thread: Kernel::local_bytes, 64-byte aligned
};

/// A compiled program. Immutable; may be run from several threads at once.
class Kernel {
 public:
  virtual ~Kernel() = default;
  [[nodiscard]] virtual const std::vector<std::string>& dims() const = 0;
  [[nodiscard]] virtual int stage_count() const = 0;
  /// Tasks of a stage at these sizes (values of dims(), in order).
  [[nodiscard]] virtual int64_t tasks(int stage, std::span<const int64_t> dims) const = 0;
  [[nodiscard]] virtual int64_t shared_bytes(std::span<const int64_t> dims) const = 0;
  [[nodiscard]] virtual int64_t local_bytes(std::span<const int64_t> dims) const = 0;
  /// Runs tasks [begin, end) of a stage on the calling thread.
  virtual void run(int stage, const LaunchArguments& arguments, int64_t begin, int64_t end) const = 0;
  /// What a cache keeps: `load` of it gives the same kernel without compiling. Empty: nothing is kept.
  [[nodiscard]] virtual std::vector<std::byte> binary() const = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  [[nodiscard]] virtual const codegen::Target& target() const = 0;
  /// What the device reaches, where that is known or not worth measuring; empty: it is measured, once.
  [[nodiscard]] virtual std::optional<kernel::MachineLimits> limits() const { return std::nullopt; }
  /// Errors: InternalError with the target compiler's message.
  [[nodiscard]] virtual std::shared_ptr<const Kernel> compile(const codegen::Program& program) = 0;
  /// Errors: FormatError if the bytes are damaged or of another version.
  [[nodiscard]] virtual std::shared_ptr<const Kernel> load(std::span<const std::byte> binary) = 0;
  /// Target source text and machine code of a program, for people.
  [[nodiscard]] virtual std::string source(const codegen::Program& program) = 0;
  [[nodiscard]] virtual std::string assembly(const codegen::Program& program) = 0;
};

/// The CPU this runs on, through LLVM.
[[nodiscard]] std::shared_ptr<Backend> make_cpu_backend();

/// A device that compiles and pretends to run: launches return at once and write nothing. Shows what
/// everything but the kernels costs. Its limits are those of a common server, so that plans are like real
/// ones.
[[nodiscard]] std::shared_ptr<Backend> make_null_backend();

}  // namespace luminal::backends
