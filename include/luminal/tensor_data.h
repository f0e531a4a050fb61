#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "luminal/dtype.h"

namespace luminal {

namespace detail {

/// Memory on cache-line boundaries: vector loads of compiled code then never straddle two lines. What is
/// large lies on huge pages where the system has them.
inline constexpr size_t kLineBytes = 64;
[[nodiscard]] void* allocate_lines(size_t bytes);
void free_lines(void* memory, size_t bytes) noexcept;

template <class T>
struct LineAllocator {
  using value_type = T;
  LineAllocator() = default;
  template <class U>
  explicit LineAllocator(const LineAllocator<U>&) {}
  [[nodiscard]] T* allocate(size_t count) { return static_cast<T*>(allocate_lines(count * sizeof(T))); }
  void deallocate(T* memory, size_t count) noexcept { free_lines(memory, count * sizeof(T)); }
  friend bool operator==(const LineAllocator&, const LineAllocator&) { return true; }
};

}  // namespace detail

/// A dense row-major tensor in host memory: what goes into a graph, what comes out, what files hold.
/// `bytes` holds size_bytes(dtype, element_count()) bytes, little-endian, 64-byte aligned.
struct TensorData {
  using Bytes = std::vector<std::byte, detail::LineAllocator<std::byte>>;
  Dtype dtype = Dtype::F32;
  std::vector<int64_t> dims;
  Bytes bytes;

  TensorData() = default;
  TensorData(Dtype type, std::vector<int64_t> sizes)
      : dtype(type), dims(std::move(sizes)), bytes(static_cast<size_t>(size_bytes(type, element_count()))) {}

  /// Copies `values` as elements of their own type. Shapes: `sizes` must hold values.size() elements.
  template <class T>
  [[nodiscard]] static TensorData of(std::vector<int64_t> sizes, std::span<const T> values) {
    TensorData data(dtype_of<T>(), std::move(sizes));
    if (!values.empty()) std::memcpy(data.bytes.data(), values.data(), values.size_bytes());
    return data;
  }

  [[nodiscard]] int64_t element_count() const {
    return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  }
  /// The elements as C++ values. T must be the type of `dtype` (dtype_of<T>() == dtype).
  template <class T>
  [[nodiscard]] std::span<T> as() {
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  template <class T>
  [[nodiscard]] std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

/// "f32[2, 3] [[1, 2, 3], [4, 5, 6]]"; axes longer than `max_items` are shortened with "...".
[[nodiscard]] std::string to_text(const TensorData& data, int max_items = 6);

}  // namespace luminal
