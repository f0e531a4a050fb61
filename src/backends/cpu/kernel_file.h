#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "luminal/expression.h"

/// What a cache keeps of a CPU kernel.
namespace luminal::backends {

struct KernelFile {
  std::string host;                  ///< cpu and features it was compiled for
  std::vector<std::string> dims;     ///< sorted
  std::vector<std::string> symbols;  ///< by stage
  std::vector<Expression> tasks;     ///< by stage
  Expression shared_bytes = 0, local_bytes = 0, prepared_bytes = 0;
  int preparing_stages = 0;
  uint64_t preparation = 0;  ///< codegen::Preparation
  std::vector<int> prepared_slots, spent_slots;
  std::vector<std::byte> object;
};
[[nodiscard]] std::vector<std::byte> to_bytes(const KernelFile& file);
/// Errors: FormatError if the bytes are damaged or of another version.
[[nodiscard]] KernelFile parse_kernel_file(std::span<const std::byte> bytes);

}  // namespace luminal::backends
