#include "backends/host/memory.h"

#include "backends/device.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/page_pool.h"

#if defined(__linux__)
#include <sys/mman.h>
#else
#include <new>
#endif

namespace luminal::backends {
namespace {

constexpr auto kHugePage = static_cast<int64_t>(kHugePageBytes);

/// Errors: OutOfMemory if that is surely more than the system has.
void check_size(int64_t bytes) {
  try {
    check_memory(static_cast<size_t>(bytes));
  } catch (const Error& error) {
    throw OutOfMemory(error.what());
  }
}

}  // namespace

int64_t mapped_bytes(int64_t bytes) {
  constexpr int64_t kUnusedOneIn = 16;
  const auto whole = [&](int64_t page) { return (bytes + page - 1) / page * page; };
  const bool fills_huge_pages = bytes >= kHugePage && whole(kHugePage) - bytes <= bytes / kUnusedOneIn;
  return whole(fills_huge_pages ? kHugePage : static_cast<int64_t>(kSmallPageBytes));
}

#if defined(__linux__)
std::byte* map_memory(int64_t bytes) {
  if (std::byte* pooled = take_pooled(static_cast<size_t>(bytes))) return pooled;
  check_size(bytes);
  const auto size = static_cast<size_t>(mapped_bytes(bytes));
  std::byte* memory = reserve_pages(size);
  if (memory == nullptr || ::mmap(memory, size, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) {
    if (memory != nullptr) ::munmap(memory, size);
    fail<OutOfMemory>("[memory] the system does not give {} at once; use smaller sizes or free memory",
                      readable_bytes(static_cast<size_t>(bytes)));
  }
  advise_huge_pages(memory, size);
  return memory;
}

void unmap_memory(std::byte* memory, int64_t bytes) noexcept {
  if (give_back_pooled(memory, static_cast<size_t>(bytes))) return;
  ::munmap(memory, static_cast<size_t>(mapped_bytes(bytes)));
}
#else
std::byte* map_memory(int64_t bytes) {
  check_size(bytes);
  return static_cast<std::byte*>(
      ::operator new(static_cast<size_t>(bytes), std::align_val_t{static_cast<size_t>(kHugePage)}));
}

void unmap_memory(std::byte* memory, int64_t) noexcept {
  ::operator delete(memory, std::align_val_t{static_cast<size_t>(kHugePage)});
}
#endif

}  // namespace luminal::backends
