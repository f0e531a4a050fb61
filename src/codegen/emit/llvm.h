#pragma once
#include <string>

#include "codegen/loop_ir.h"

namespace luminal::codegen {

/// What the text may count on.
struct LlvmOptions {
  std::string attributes;     ///< of the functions: "target-cpu"="znver4" ..., as LLVM IR writes them
  int vector_bytes = 32;      ///< of a register: streaming stores are of this size
  bool converts_f16 = false;  ///< the machine has instructions for it; otherwise integer arithmetic
  bool dots = false;          ///< AVX-512 VNNI of all vector lengths, or AVX-VNNI
  bool permutes = false;      ///< AVX2, with vectors of 64 bytes AVX-512: lanes by numbers in another vector
};

/// LLVM IR text (LLVM 19) of a program: for each stage a function
///
///   void NAME_stageK(ptr arguments, i64 begin, i64 end)
///
/// that runs tasks begin .. end-1; `arguments` points to a backends::LaunchArguments. Every operation rounds
/// as the scalar IR says: no fast-math, no contraction. Index arithmetic and everything without side effects
/// stands in the outermost loop it can, each computation once, so that little is left for LLVM's own passes.
[[nodiscard]] std::string emit_llvm(const Program& program, const LlvmOptions& options);
[[nodiscard]] std::string stage_symbol(const Program& program, size_t stage);

}  // namespace luminal::codegen
