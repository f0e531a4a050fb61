#include "egraph/core/column.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "egraph/core/pages.h"

namespace luminal::egraph {

template <class T>
void Buffer<T>::grow(size_t at_least) {
  size_t capacity = capacity_ < 8 ? 8 : capacity_ * 2;
  if (capacity < at_least) capacity = at_least;
  const size_t bytes = capacity * sizeof(T), bytes_before = capacity_ * sizeof(T);
  if (is_large(bytes_before)) {
    data_ = static_cast<T*>(grow_pages(data_, bytes_before, bytes));
  } else if (is_large(bytes)) {
    T* data = static_cast<T*>(map_pages(bytes));
    if (size_ != 0) std::memcpy(data, data_, size_ * sizeof(T));
    std::free(data_);
    data_ = data;
  } else {
    void* data = std::realloc(data_, bytes);
    if (data == nullptr) throw std::bad_alloc();
    data_ = static_cast<T*>(data);
  }
  capacity_ = capacity;
}

template <class T>
void Buffer<T>::assign(const Buffer& other) {
  size_ = 0;
  resize_uninitialized(other.size_);
  if (size_ != 0) std::memcpy(data_, other.data_, size_ * sizeof(T));
}

template <class T>
void Buffer<T>::assign_zeros(size_t size) {
  release();
  if (size == 0) return;
  void* data = is_large(size * sizeof(T)) ? map_pages(size * sizeof(T)) : std::calloc(size, sizeof(T));
  if (data == nullptr) throw std::bad_alloc();
  data_ = static_cast<T*>(data);
  size_ = capacity_ = size;
}

template <class T>
void Buffer<T>::touch(size_t begin, size_t end) {
  touch_pages(data_ + begin, data_ + end);
}

template <class T>
void Buffer<T>::release() {
  if (is_large(capacity_ * sizeof(T)))
    unmap_pages(data_, capacity_ * sizeof(T));
  else
    std::free(data_);
  data_ = nullptr;
  size_ = capacity_ = 0;
}

template class Buffer<uint32_t>;
template class Buffer<uint64_t>;

}  // namespace luminal::egraph
