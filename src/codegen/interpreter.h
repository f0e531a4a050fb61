#pragma once
#include <span>
#include <vector>

#include "codegen/loop_ir.h"
#include "luminal/tensor_data.h"

namespace luminal::codegen {

/// Runs a program element by element: slots in, outputs out (their sizes by Buffer::elements). Tasks run in
/// the order of `seed` (0: ascending), local workspace is poisoned between tasks. Errors: InternalError for
/// an access outside its buffer, a read of what nobody wrote, an output element written twice or never.
[[nodiscard]] std::vector<TensorData> interpret(const Program& program, std::span<const TensorData> slots,
                                                const DimMap& dims = {}, uint64_t seed = 0);

}  // namespace luminal::codegen
