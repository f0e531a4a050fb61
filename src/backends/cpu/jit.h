#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The only door to LLVM: IR text in, machine code out. All calls may be made from several threads at once.
namespace luminal::backends {

/// The processor this runs on, as LLVM names it, and what vectors it has.
struct HostCpu {
  std::string cpu;       ///< "sapphirerapids"
  std::string features;  ///< "+avx2,+fma,-avx512f": every feature, the overrides last
  int vector_bytes = 16, vector_registers = 16;
  bool converts_f16 = false, permutes = false, dots = false;  ///< see codegen::LlvmOptions
};
/// `overrides` as LUMINAL_CPU_FEATURES takes them: "-avx512f,+fma". Errors: DeviceError for a feature that
/// the processor's family does not know, or that this processor lacks.
[[nodiscard]] HostCpu host_cpu(std::string_view overrides);

/// An object file for this host. Errors: InternalError with LLVM's message.
[[nodiscard]] std::vector<std::byte> compile_object(const std::string& ir, const HostCpu& cpu);
[[nodiscard]] std::string compile_assembly(const std::string& ir, const HostCpu& cpu);

/// Machine code of an object file in executable memory, as long as this lives.
class LoadedObject {
 public:
  /// Errors: InternalError with LLVM's message (not an object, a symbol it needs is unknown).
  explicit LoadedObject(std::span<const std::byte> object);
  LoadedObject(const LoadedObject&) = delete;
  LoadedObject& operator=(const LoadedObject&) = delete;
  ~LoadedObject();
  /// Errors: InternalError if there is none of this name.
  [[nodiscard]] void* symbol(const std::string& name) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace luminal::backends
