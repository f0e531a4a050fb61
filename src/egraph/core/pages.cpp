#include "egraph/core/pages.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace luminal::egraph {

namespace {
[[maybe_unused]] size_t whole_pages(size_t bytes) {
  return (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
}
}  // namespace

#ifdef __linux__

void* map_pages(size_t bytes) {
  const size_t size = whole_pages(bytes);
  void* wide = mmap(nullptr, size + kHugePageBytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (wide == MAP_FAILED) throw std::bad_alloc();
  const size_t before = -reinterpret_cast<uintptr_t>(wide) % kHugePageBytes;
  char* data = static_cast<char*>(wide) + before;
  if (before != 0) munmap(wide, before);
  munmap(data + size, kHugePageBytes - before);
  advise_huge_pages(data, size);
  return data;
}

void* grow_pages(void* data, size_t bytes, size_t new_bytes) {
  if (whole_pages(bytes) == whole_pages(new_bytes)) return data;
  void* larger = map_pages(new_bytes);
  const size_t size = whole_pages(bytes);
  if (mremap(data, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, larger) == MAP_FAILED) {
    unmap_pages(larger, new_bytes);
    throw std::bad_alloc();
  }
  return larger;
}

void unmap_pages(void* data, size_t bytes) { munmap(data, whole_pages(bytes)); }

void touch_pages([[maybe_unused]] void* begin, [[maybe_unused]] void* end) {
#ifdef MADV_POPULATE_WRITE  // Linux 5.14; older kernels say EINVAL
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = reinterpret_cast<uintptr_t>(begin) / page * page;
  const uintptr_t last = (reinterpret_cast<uintptr_t>(end) + page - 1) / page * page;
  if (last - first > page) madvise(reinterpret_cast<void*>(first), last - first, MADV_POPULATE_WRITE);
#endif
}

void release_pages(void* begin, void* end) {
  const uintptr_t first = whole_pages(reinterpret_cast<uintptr_t>(begin));
  const uintptr_t last = reinterpret_cast<uintptr_t>(end) / kHugePageBytes * kHugePageBytes;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

#else

void* map_pages(size_t bytes) {
  void* data = std::calloc(bytes, 1);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

void* grow_pages(void* data, size_t bytes, size_t new_bytes) {
  void* larger = std::realloc(data, new_bytes);
  if (larger == nullptr) throw std::bad_alloc();
  std::memset(static_cast<char*>(larger) + bytes, 0, new_bytes - bytes);
  return larger;
}

void unmap_pages(void* data, size_t) { std::free(data); }

void touch_pages(void*, void*) {}

void release_pages(void*, void*) {}

#endif

}  // namespace luminal::egraph
