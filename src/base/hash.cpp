#include "base/hash.h"

#include <xxhash.h>

namespace luminal {

uint64_t hash_bytes(const void* data, size_t size_bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(data, size_bytes, seed);
}

}  // namespace luminal
