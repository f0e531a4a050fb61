#pragma once
#include <vector>

#include "codegen/target.h"
#include "kernel/spec.h"

/// What the family `phases` takes (phases.cpp).
namespace luminal::codegen {

/// A spec taken apart along short output axes whose coordinates decide which terms of its reductions are there.
/// The input gradient of a convolution with stride 2 is the example: an even pixel is reached by other taps than
/// an odd one,
///
///   u in 80, v in 2: Y[u,v] = sum x in 2: A[u+v-x]{2*x<v+2 else 0} * W[1-v+2*x]{2*x<v+2 else 0}
///
/// is Y[u,0] = A[u] * W[1] and Y[u,1] = sum x in 2: A[u+1-x] * W[2*x]. Each part writes its share of the outputs;
/// slots, outputs and their numbers are the spec's. Empty where all parts together would not have fewer terms.
[[nodiscard]] std::vector<kernel::KernelSpec> phases_of(const kernel::KernelSpec& spec, const DimMap& top);

}  // namespace luminal::codegen
