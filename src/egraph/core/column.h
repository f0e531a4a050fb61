#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace luminal::egraph {

/// A growable array of trivially copyable items. Unlike std::vector it leaves new items uninitialised, and
/// once it is large it lies in huge pages and grows by remapping them, not by copying.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer& other) { assign(other); }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(const Buffer& other) {
    if (this != &other) assign(other);
    return *this;
  }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer() { release(); }

  [[nodiscard]] T* data() { return data_; }
  [[nodiscard]] const T* data() const { return data_; }
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] size_t capacity() const { return capacity_; }
  [[nodiscard]] size_t size_bytes() const { return size_ * sizeof(T); }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  [[nodiscard]] T& back() { return data_[size_ - 1]; }

  void reserve(size_t capacity) {
    if (capacity > capacity_) grow(capacity);
  }
  void push_back(T value) {
    if (size_ == capacity_) grow(size_ + 1);
    data_[size_++] = value;
  }
  /// For loops that reserved before.
  void push_back_unchecked(T value) { data_[size_++] = value; }
  void append(const T* items, size_t count) {
    if (count == 0) return;
    if (size_ + count > capacity_) grow(size_ + count);
    std::copy_n(items, count, data_ + size_);
    size_ += count;
  }
  void resize_uninitialized(size_t size) {
    reserve(size);
    size_ = size;
  }
  void resize(size_t size, T fill) {
    const size_t before = size_;
    resize_uninitialized(size);
    for (size_t i = before; i < size; i++) data_[i] = fill;
  }
  void assign(size_t size, T fill) {
    size_ = 0;
    resize(size, fill);
  }
  /// That many zeros; memory that comes zeroed from the system is not written again.
  void assign_zeros(size_t size);
  /// For one thread, before several write items [begin, end) for the first time.
  void touch(size_t begin, size_t end);
  void clear() { size_ = 0; }
  void truncate(size_t size) { size_ = size; }
  void release();
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

 private:
  void assign(const Buffer& other);
  void grow(size_t at_least);

  T* data_ = nullptr;
  size_t size_ = 0, capacity_ = 0;
};

extern template class Buffer<uint32_t>;
extern template class Buffer<uint64_t>;

using Column = Buffer<uint32_t>;

}  // namespace luminal::egraph
