#pragma once
#include "luminal/gradient.h"

namespace luminal::passes {

/// The gradient of a scan: another one, in the other direction, over the gradient of its body. The forward
/// node is replaced by one that keeps the states that this reads.
void scan_gradient(Gradient& g);

}  // namespace luminal::passes
