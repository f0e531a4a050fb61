#pragma once
#include <cstdint>
#include <numeric>

#include "luminal/expression.h"

/// 64-bit integers that either saturate (range ends: the extremes stand for infinity) or refuse to overflow
/// (values), and floor division.
namespace luminal::symbolic {

inline constexpr int64_t kInfinity = INT64_MAX, kMinusInfinity = INT64_MIN;

__extension__ typedef __int128 int128;

[[nodiscard]] constexpr bool finite(int64_t x) { return x != kInfinity && x != kMinusInfinity; }

[[nodiscard]] constexpr int64_t saturate(int128 x) {
  return x >= kInfinity ? kInfinity : x <= kMinusInfinity ? kMinusInfinity : static_cast<int64_t>(x);
}

// Values that no 64-bit number can hold are Errors.
[[noreturn]] void overflow(const char* operation, int64_t a, int64_t b);

[[nodiscard]] inline int64_t checked_add(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_add_overflow(a, b, &result)) overflow("+", a, b);
  return result;
}
[[nodiscard]] inline int64_t checked_sub(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_sub_overflow(a, b, &result)) overflow("-", a, b);
  return result;
}
[[nodiscard]] inline int64_t checked_mul(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_mul_overflow(a, b, &result)) overflow("*", a, b);
  return result;
}

/// Floor of a / b; b is not 0 and (a, b) not (INT64_MIN, -1).
[[nodiscard]] constexpr int64_t floor_div(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}
/// a - b * floor(a / b).
[[nodiscard]] constexpr int64_t floor_mod(int64_t a, int64_t b) {
  if (b == -1) return 0;
  const int64_t r = a % b;
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}

/// gcd of absolute values; gcd(0, x) = |x|. The magnitude 2^63 counts as 2^62, which divides it.
[[nodiscard]] constexpr int64_t gcd(int64_t a, int64_t b) {
  const auto magnitude = [](int64_t x) {
    return x == INT64_MIN ? uint64_t{1} << 62 : static_cast<uint64_t>(x < 0 ? -x : x);
  };
  return static_cast<int64_t>(std::gcd(magnitude(a), magnitude(b)));
}

[[nodiscard]] Range add(Range a, Range b);
[[nodiscard]] Range mul(Range a, Range b);
[[nodiscard]] Range floor_div(Range a, Range b);
[[nodiscard]] Range floor_mod(Range a, Range b);

}  // namespace luminal::symbolic
