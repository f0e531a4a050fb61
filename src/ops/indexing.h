#pragma once
#include <vector>

#include "ops/types.h"

namespace luminal::ops {

/// Flat positions as 64-bit integers. Errors: Error that names the first one outside [0, size).
[[nodiscard]] std::vector<int64_t> flat_positions(std::string_view op, const TensorData& index, int64_t size);

/// Errors: DtypeError unless `index` holds integers.
void check_index(std::string_view op, const TensorType& index);

}  // namespace luminal::ops
