#pragma once
#include <memory>

#include "backends/host/device.h"

namespace luminal::backends {

/// A program whose only stage is code of somebody else's, in this process: nothing is compiled, and its
/// binary is empty, for another process has other code. Errors: InternalError if it has loops, or no code.
[[nodiscard]] std::shared_ptr<const Kernel> make_native_kernel(const codegen::Program& program);

}  // namespace luminal::backends
