#include "egraph/core/column.h"

#include <cstdlib>
#include <cstring>
#include <new>
#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace luminal::egraph {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

void advise_huge_pages([[maybe_unused]] void* data, [[maybe_unused]] size_t bytes) {
#ifdef __linux__
  if (bytes < 2 * kHugePage) return;
  const auto address = reinterpret_cast<uintptr_t>(data);
  const uintptr_t first = (address + kHugePage - 1) / kHugePage * kHugePage;
  if (first + kHugePage <= address + bytes)
    madvise(reinterpret_cast<void*>(first), address + bytes - first, MADV_HUGEPAGE);
#endif
}

void release_pages([[maybe_unused]] void* begin, [[maybe_unused]] void* end) {
#ifdef __linux__
  const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = (reinterpret_cast<uintptr_t>(begin) + page - 1) / page * page;
  const uintptr_t last = reinterpret_cast<uintptr_t>(end) / page * page;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
#endif
}

template <class T>
void Buffer<T>::grow(size_t at_least) {
  size_t capacity = capacity_ < 8 ? 8 : capacity_ * 2;
  if (capacity < at_least) capacity = at_least;
  void* data = std::realloc(data_, capacity * sizeof(T));
  if (data == nullptr) throw std::bad_alloc();
  data_ = static_cast<T*>(data);
  capacity_ = capacity;
  advise_huge_pages(data, capacity * sizeof(T));
}

template <class T>
void Buffer<T>::assign(const Buffer& other) {
  size_ = 0;
  resize_uninitialized(other.size_);
  if (size_ != 0) std::memcpy(data_, other.data_, size_ * sizeof(T));
}

template <class T>
void Buffer<T>::release() {
  std::free(data_);
  data_ = nullptr;
  size_ = capacity_ = 0;
}

template class Buffer<uint32_t>;
template class Buffer<uint64_t>;

}  // namespace luminal::egraph
