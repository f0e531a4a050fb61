#include "ops/sort_keys.h"

#include "base/vector_clones.h"

namespace luminal::ops {

LUMINAL_VECTOR_CLONES void make_sort_keys(const float* from, size_t count, uint32_t flip, uint32_t* to) {
  for (size_t i = 0; i < count; ++i) to[i] = sort_key(from[i]) ^ flip;
}

LUMINAL_VECTOR_CLONES uint32_t least_key(std::span<const uint32_t> keys) {
  uint32_t least = std::numeric_limits<uint32_t>::max();
  for (const uint32_t key : keys) least = std::min(least, key);
  return least;
}

}  // namespace luminal::ops
