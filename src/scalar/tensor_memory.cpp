#include <new>

#include "base/memory.h"
#include "luminal/tensor_data.h"

// Memory of tensors: whole cache lines, huge pages where a tensor is large.
namespace luminal {
namespace detail {
namespace {

std::align_val_t alignment_of(size_t bytes) {
  return std::align_val_t{bytes < kHugePageBytes ? kLineBytes : kHugePageBytes};
}

}  // namespace

void* allocate_lines(size_t bytes) {
  void* memory = ::operator new(bytes, alignment_of(bytes));
  advise_huge_pages(memory, bytes);
  return memory;
}

void free_lines(void* memory, size_t bytes) noexcept { ::operator delete(memory, alignment_of(bytes)); }

}  // namespace detail
}  // namespace luminal
