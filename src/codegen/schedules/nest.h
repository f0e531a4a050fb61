#pragma once
#include <vector>

#include "codegen/schedule.h"

namespace luminal::codegen {

/// Points of the family `nest` for what other kernels are compared with, the fastest by the model first: its candidates,
/// and such as are no candidates of a plan (sums of four vectors side by side, rows that keep what others sum over).
[[nodiscard]] std::vector<Candidate> plain_loops(const kernel::KernelSpec& spec, const Bucket& bucket,
                                                 const Target& target);

}  // namespace luminal::codegen
