#include "base/memory.h"

#include <cstdint>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace luminal {

void advise_huge_pages([[maybe_unused]] void* data, [[maybe_unused]] size_t bytes) {
#ifdef __linux__
  if (bytes < kHugePageBytes) return;
  const auto address = reinterpret_cast<uintptr_t>(data);
  const uintptr_t first = (address + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  if (first + kHugePageBytes <= address + bytes)
    madvise(reinterpret_cast<void*>(first), address + bytes - first, MADV_HUGEPAGE);
#endif
}

}  // namespace luminal
