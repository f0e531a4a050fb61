#pragma once
#include <cstdint>

#include "luminal/graph_tensor.h"
#include "ops/elementwise.h"

/// What the records of reductions share: moving gradients back over reduced axes.
namespace luminal::ops {

[[nodiscard]] inline const std::vector<int64_t>& reduced_axes(const Attributes& attributes) {
  return attributes.get<std::vector<int64_t>>("axes");
}

/// A reduced tensor broadcast back to the dims it came from.
[[nodiscard]] GraphTensor spread(GraphTensor reduced, const std::vector<int64_t>& axes, const Shape& dims);

}  // namespace luminal::ops
