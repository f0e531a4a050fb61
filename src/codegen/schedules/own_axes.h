#pragma once
#include "kernel/spec.h"

namespace luminal::codegen {

/// The same spec with axes of their own for reductions over axes that outputs have too (in a softmax the
/// row's sum runs over the axis along which results are written), so that lanes along an output axis never
/// stand in the way of a reduction's coordinates.
[[nodiscard]] kernel::KernelSpec with_own_axes(const kernel::KernelSpec& spec);

}  // namespace luminal::codegen
