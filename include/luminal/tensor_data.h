#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "luminal/dtype.h"

namespace luminal {

namespace detail {

/// Memory on cache-line boundaries: vector loads of compiled code then never straddle two lines. What is
/// large lies on huge pages where the system has them.
inline constexpr size_t kLineBytes = 64;
/// Errors: Error if the system has not so much.
[[nodiscard]] void* allocate_lines(size_t bytes);
void free_lines(void* memory, size_t bytes) noexcept;

/// An element that stays what its memory holds, and an iterator over such: `Bytes(Present{0}, Present{n})` are n bytes
/// that are about to be written, or are written already; nothing is filled with zeros first.
struct Present {
  using iterator_category = std::random_access_iterator_tag;
  using value_type = Present;
  using difference_type = std::ptrdiff_t;
  using pointer = const Present*;
  using reference = const Present&;
  std::ptrdiff_t number = 0;

  const Present& operator*() const { return *this; }
  Present& operator++() { return ++number, *this; }
  friend std::ptrdiff_t operator-(const Present& a, const Present& b) { return a.number - b.number; }
  friend bool operator==(const Present&, const Present&) = default;
};

template <class T>
struct LineAllocator {
  using value_type = T;
  LineAllocator() = default;
  template <class U>
  explicit LineAllocator(const LineAllocator<U>&) {}
  [[nodiscard]] T* allocate(size_t count) { return static_cast<T*>(allocate_lines(count * sizeof(T))); }
  void deallocate(T* memory, size_t count) noexcept { free_lines(memory, count * sizeof(T)); }
  void construct(T*, const Present&) noexcept {}
  friend bool operator==(const LineAllocator&, const LineAllocator&) { return true; }
};

/// The elements of a tensor of these sizes where plain multiplication will not do: 0 if one of them is.
/// Errors: ShapeError if one is negative, or there are more elements than 64 bits count.
[[nodiscard]] int64_t count_elements(const std::vector<int64_t>& sizes);
[[noreturn]] void refuse_values(size_t given, Dtype dtype, const std::vector<int64_t>& sizes);
[[noreturn]] void refuse_type(Dtype dtype, Dtype asked_for);

}  // namespace detail

/// A dense row-major tensor in host memory: what goes into a graph, what comes out, what files hold.
/// `bytes` holds size_bytes(dtype, element_count()) bytes, little-endian, 64-byte aligned. What a graph takes
/// is checked for it. Thread safety: as any value (luminal.h).
struct TensorData {
  using Bytes = std::vector<std::byte, detail::LineAllocator<std::byte>>;
  Dtype dtype = Dtype::F32;
  std::vector<int64_t> dims;
  Bytes bytes;

  TensorData() = default;
  /// All zeros. Errors: ShapeError if a size is negative or the elements are too many to count; Error if the
  /// system has not so much memory.
  TensorData(Dtype type, std::vector<int64_t> sizes);

  /// Copies `values` as elements of their own type. Errors: ShapeError unless `sizes` make values.size()
  /// elements.
  template <class T>
  [[nodiscard]] static TensorData of(std::vector<int64_t> sizes, std::span<const T> values) {
    TensorData data;
    data.dtype = dtype_of<T>();
    data.dims = std::move(sizes);
    if (data.element_count() != static_cast<int64_t>(values.size()))
      detail::refuse_values(values.size(), data.dtype, data.dims);
    data = TensorData(data.dtype, std::move(data.dims));
    if (!values.empty()) std::memcpy(data.bytes.data(), values.data(), values.size_bytes());
    return data;
  }

  /// Errors: ShapeError if a size is negative, or there are more elements than 64 bits count.
  [[nodiscard]] int64_t element_count() const {
    int64_t count = 1;
    for (const int64_t size : dims)
      if (size < 0 || __builtin_mul_overflow(count, size, &count)) return detail::count_elements(dims);
    return count;
  }
  /// For who takes data from others, who may have changed its members one by one. `call` leads the message. Errors:
  /// ShapeError if there are not as many bytes as dtype and sizes make.
  void check_bytes(std::string_view call) const;
  /// The elements as C++ values. Errors: DtypeError unless T is the type of `dtype` (dtype_of<T>() == dtype).
  template <class T>
  [[nodiscard]] std::span<T> as() {
    if (dtype_of<T>() != dtype) detail::refuse_type(dtype, dtype_of<T>());
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  template <class T>
  [[nodiscard]] std::span<const T> as() const {
    if (dtype_of<T>() != dtype) detail::refuse_type(dtype, dtype_of<T>());
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

/// "f32[2, 3] [[1, 2, 3], [4, 5, 6]]"; axes longer than `max_items` are shortened with "...".
[[nodiscard]] std::string to_text(const TensorData& data, int max_items = 6);

}  // namespace luminal
