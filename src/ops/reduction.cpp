#include "ops/reduction.h"

namespace luminal::ops {

GraphTensor spread(GraphTensor reduced, const std::vector<int64_t>& axes, const Shape& dims) {
  for (const int64_t axis : axes)
    reduced = reduced.expand_dim(static_cast<int>(axis), dims[static_cast<size_t>(axis)]);
  return reduced;
}

}  // namespace luminal::ops
