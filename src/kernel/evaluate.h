#pragma once
#include <span>
#include <vector>

#include "kernel/spec.h"
#include "luminal/tensor_data.h"

namespace luminal::kernel {

/// Computes a spec's outputs element by element, straight from its definition, sums in f64: the oracle for
/// composition, canonical form and laws in tests. Slow. Errors: InternalError if an index leaves its buffer.
[[nodiscard]] std::vector<TensorData> evaluate(const KernelSpec& spec, std::span<const TensorData> slots,
                                               const DimMap& dims = {});

}  // namespace luminal::kernel
