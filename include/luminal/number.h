#pragma once
#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <variant>

namespace luminal {

/// One plain number as the user wrote it: a constant of a graph, a pad's fill. Integers stay exact beyond
/// 2^53. Equality is of bits: NaN equals itself, 0.0 and -0.0 differ, 1 and 1.0 differ. Thread safety: as
/// any value (luminal.h).
class Number {
 public:
  constexpr Number() = default;
  template <std::integral T>
  constexpr Number(T value) : value_(static_cast<int64_t>(value)) {}
  template <std::floating_point T>
  constexpr Number(T value) : value_(static_cast<double>(value)) {}

  [[nodiscard]] constexpr bool is_integer() const { return value_.index() == 0; }
  /// The value as C++ type T, converted as static_cast does (floats outside an integer type's range saturate,
  /// NaN gives 0).
  template <class T>
  [[nodiscard]] T as() const;
  /// Shortest text that reads back: "3", "0.5", "-inf", "nan".
  [[nodiscard]] std::string to_string() const;
  [[nodiscard]] uint64_t hash() const;

  friend constexpr bool operator==(const Number& a, const Number& b) {
    if (a.value_.index() != b.value_.index()) return false;
    return a.is_integer() ? std::get<0>(a.value_) == std::get<0>(b.value_)
                          : std::bit_cast<uint64_t>(std::get<1>(a.value_)) ==
                                std::bit_cast<uint64_t>(std::get<1>(b.value_));
  }

 private:
  std::variant<int64_t, double> value_{int64_t{0}};
};

template <class T>
T Number::as() const {
  static_assert(std::is_arithmetic_v<T>, "storage types such as float16 convert from as<float>()");
  if (is_integer()) return static_cast<T>(std::get<0>(value_));
  const double value = std::get<1>(value_);
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    using Limits = std::numeric_limits<T>;
    if (value != value) return 0;
    // The lower end is a power of two or 0; the upper end may round up to one that T does not hold.
    if (value <= static_cast<double>(Limits::min())) return Limits::min();
    if (value >= static_cast<double>(Limits::max())) return Limits::max();
  }
  return static_cast<T>(value);
}

}  // namespace luminal
