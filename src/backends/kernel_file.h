#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "codegen/loop_ir.h"
#include "luminal/expression.h"

/// What a cache keeps of a compiled kernel.
namespace luminal::backends {

struct KernelFile {
  std::string host;                  ///< the processor or device it was compiled for
  std::vector<std::string> dims;     ///< sorted
  std::vector<std::string> symbols;  ///< by stage
  std::vector<Expression> tasks;     ///< by stage
  std::vector<int> threads;          ///< by stage: of a block
  Expression shared_bytes = 0, local_bytes = 0, prepared_bytes = 0;
  int preparing_stages = 0;
  uint64_t preparation = 0;  ///< codegen::Preparation
  std::vector<int> prepared_slots, spent_slots;
  std::vector<std::byte> object;
};
/// All that the loops say of it: without an object.
[[nodiscard]] KernelFile kernel_file_of(const codegen::Program& program, std::string host);
[[nodiscard]] std::vector<std::byte> to_bytes(const KernelFile& file);
/// Errors: FormatError if the bytes are damaged or of another version.
[[nodiscard]] KernelFile parse_kernel_file(std::span<const std::byte> bytes);

}  // namespace luminal::backends
