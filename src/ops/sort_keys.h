#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include "luminal/dtype.h"

/// Unsigned integers in the order of numbers: equal where numbers are, -0 and 0 included; NaN is the greatest of all.
namespace luminal::ops {

template <class T>
using SortKey = std::conditional_t<
    sizeof(T) == 1, uint8_t,
    std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;

template <class T>
[[nodiscard]] constexpr SortKey<T> greatest_key() {
  return std::numeric_limits<SortKey<T>>::max();
}

template <class T>
[[nodiscard]] SortKey<T> sort_key(T value) {
  using Key = SortKey<T>;
  constexpr auto kSign = static_cast<Key>(Key{1} << (8 * sizeof(T) - 1));
  const auto bits = std::bit_cast<Key>(value);
  if constexpr (std::is_same_v<T, bool> || std::is_unsigned_v<T>) {
    return bits;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<Key>(bits ^ kSign);
  } else {
    constexpr Key kInfinite = std::is_same_v<T, float>     ? static_cast<Key>(0x7f800000U)
                              : std::is_same_v<T, double>  ? static_cast<Key>(0x7ff0000000000000ULL)
                              : std::is_same_v<T, float16> ? static_cast<Key>(0x7c00U)
                                                           : static_cast<Key>(0x7f80U);
    const auto magnitude = static_cast<Key>(bits & ~kSign);
    // The bits of negative numbers fall as the numbers rise.
    const auto falling = static_cast<Key>(Key{0} - magnitude), sign = static_cast<Key>(bits & kSign);
    const auto rising = static_cast<Key>((sign != 0 ? falling : magnitude) + kSign);
    return magnitude > kInfinite ? std::numeric_limits<Key>::max() : rising;
  }
}

/// Each key ^ flip.
template <class T>
void make_sort_keys(const T* from, size_t count, SortKey<T> flip, SortKey<T>* to) {
  for (size_t i = 0; i < count; ++i) to[i] = static_cast<SortKey<T>>(sort_key(from[i]) ^ flip);
}
/// For wide registers where the processor has them.
void make_sort_keys(const float* from, size_t count, uint32_t flip, uint32_t* to);

template <class Key>
[[nodiscard]] Key least_key(std::span<const Key> keys) {
  Key least = std::numeric_limits<Key>::max();
  for (const Key key : keys) least = std::min(least, key);
  return least;
}
[[nodiscard]] uint32_t least_key(std::span<const uint32_t> keys);

}  // namespace luminal::ops
