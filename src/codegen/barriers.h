#pragma once
#include <string>

#include "codegen/loop_ir.h"

namespace luminal::codegen {

/// Why some thread of a block may miss a barrier of the stage that others come to, as far as the loops say: it stands in
/// a branch or a loop that depends on the thread, or on memory that other threads write. "" if none may.
[[nodiscard]] std::string barrier_problem(const Program& program, const Stage& stage);

}  // namespace luminal::codegen
