#pragma once
#include <cstdint>

#include "kernel/spec.h"

namespace luminal::kernel {

/// A hash of what a spec does whatever its sizes: the same operations on operands of the same dtypes, folded by the
/// same monoids over as many axes. Extents, index expressions, constants and the order of commutative operands are left
/// out.
[[nodiscard]] uint64_t form_of(const KernelSpec& spec);

}  // namespace luminal::kernel
