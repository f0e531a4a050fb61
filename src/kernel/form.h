#pragma once
#include <cstdint>

#include "kernel/spec.h"

namespace luminal::kernel {

/// A hash of what a spec does whatever its sizes: the same operations in the same order, on operands of the same dtypes,
/// folded by the same monoids over as many axes. Extents, index expressions and constants are left out.
[[nodiscard]] uint64_t form_of(const KernelSpec& spec);

}  // namespace luminal::kernel
