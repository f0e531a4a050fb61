#include "base/memory.h"

#include <algorithm>
#include <array>

#include "base/fail.h"
#include "base/machine.h"

#if __has_include(<malloc.h>)
#include <malloc.h>
#endif
#if __has_include(<sys/mman.h>)
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

std::byte* reserve_pages([[maybe_unused]] size_t bytes, [[maybe_unused]] size_t around) {
#ifdef MAP_ANONYMOUS
  // The system aligns to small pages: what lies before the first huge one, and as much behind, goes back.
  const size_t slack = bytes >= kHugePageBytes ? kHugePageBytes : 0;
  void* mapped = ::mmap(nullptr, bytes + 2 * around + slack, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  std::byte* pages = static_cast<std::byte*>(mapped) + around;
  if (slack == 0) return pages;
  const size_t skip = (kHugePageBytes - reinterpret_cast<uintptr_t>(pages) % kHugePageBytes) % kHugePageBytes;
  if (skip > 0) ::munmap(mapped, skip);
  pages += skip;
  if (skip < slack) ::munmap(pages + bytes + around, slack - skip);
  return pages;
#else
  return nullptr;
#endif
}

void map_pages([[maybe_unused]] void* pages, [[maybe_unused]] size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  ::madvise(pages, bytes, MADV_POPULATE_WRITE);
#endif
}

void give_back_free_pages() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

void check_memory(size_t bytes) {
  constexpr size_t kWorthAsking = size_t{256} << 20;  // looking it up takes some ten microseconds
  if (bytes < kWorthAsking) return;
  const auto available = static_cast<size_t>(std::max<int64_t>(0, available_memory_bytes()));
  if (bytes > available)
    fail("[memory] {} are needed at once, but the system has {}; use smaller sizes or free memory",
         readable_bytes(bytes), readable_bytes(available));
}

std::string readable_bytes(size_t bytes) {
  constexpr std::array kUnits{"bytes", "KB", "MB", "GB", "TB", "PB", "EB"};
  auto amount = static_cast<double>(bytes);
  size_t unit = 0;
  for (; amount >= 1000 && unit + 1 < kUnits.size(); ++unit) amount /= 1000;
  return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.1f} {}", amount, kUnits[unit]);
}

}  // namespace luminal
