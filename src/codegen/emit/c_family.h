#pragma once
#include <span>
#include <string>

#include "codegen/emit/c_dialect.h"
#include "codegen/loop_ir.h"

namespace luminal::codegen {

/// Text of programs in a language of the C family: for each stage a kernel `stage_symbol(program, stage)` (llvm.h)
/// that runs one task, or in plain C a range of them. Every operation gives the bits of the scalar interpreter, which
/// NaN aside. Parameters of ParameterStyle::Listed, each memory as a pointer and an offset in bytes: slots and outputs,
/// then the Shared, Prepared and Local workspace unless it is known to be empty, the dims, the first task.
/// A vector of the loop IR is one of the language or an array of them:
///
///   const float16 v3 = vload16(0, b0_A + (1024 * i0 + 16 * i1));
///   const float16 v4 = (v3 * v3);
///   vstore16(v4, 0, b1_Y + (1024 * i0 + 16 * i1));
///
/// The names of several programs differ. Errors: InternalError if one is native code, which has no text, or runs tasks by
/// blocks of threads in a language without them (plain C: a function runs one thread to its end, and no barrier).
[[nodiscard]] std::string emit_c(std::span<const Program> programs, const Dialect& dialect);
[[nodiscard]] std::string emit_c(const Program& program, const Dialect& dialect);

/// Bytes of a task's own piece of Local workspace, which ParameterStyle::Listed gets as one buffer for all tasks of a
/// launch: without the buffers that are arrays of the task's.
[[nodiscard]] Workspace local_workspace_of(const Program& program, const Dialect& dialect);

}  // namespace luminal::codegen
