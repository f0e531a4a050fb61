#pragma once
#include <span>
#include <vector>

#include "codegen/loop_ir.h"
#include "codegen/race_report.h"
#include "luminal/tensor_data.h"

namespace luminal::codegen {

/// Runs a program element by element: slots in, outputs out (their sizes by Buffer::elements). Tasks run in
/// the order of `seed` (0: ascending), the threads of a block in step; workspaces of threads and blocks are poisoned
/// between tasks. Errors: InternalError for the first finding (race_report.h).
[[nodiscard]] std::vector<TensorData> interpret(const Program& program, std::span<const TensorData> slots,
                                                const DimMap& dims = {}, uint64_t seed = 0);

/// The same run, which goes on where something is wrong: what is out of bounds is not written and reads as anything.
/// Reads of a slot that an output may replace (Buffer::is_kept) count as reads of the output's elements, too.
/// A run without findings gives these outputs whatever the pace and the order of threads and tasks: what they touch
/// between two barriers is then the same. The findings name instructions of `program`, which has to outlive them.
[[nodiscard]] RaceReport check_races(const Program& program, std::span<const TensorData> slots,
                                     const DimMap& dims = {}, uint64_t seed = 0);

}  // namespace luminal::codegen
