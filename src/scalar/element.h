#pragma once
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "luminal/scalar.h"

/// What each node means on C++ values: the one definition that the interpreter and constant folding run, and
/// that printed code must agree with. Bool is a byte, 0 or 1.
namespace luminal {

/// Elements held as bits, as the shortest text that reads back to the same bits: "1.5", "-0", "-inf", "7",
/// "true". "nan" is the quiet NaN without sign and payload; others show their bits, "nan:0xffc00001".
[[nodiscard]] std::string element_text(Dtype dtype, uint64_t bits);

/// One node over `count` elements; unused operands are null. The output overlaps no operand.
using ScalarKernel = void (*)(int64_t count, void* out, const void* a, const void* b, const void* c);

/// The kernel of a well-typed node; `operand` is the type of its first operand (of the second, for Select).
[[nodiscard]] ScalarKernel element_kernel(ScalarOp op, Dtype result, Dtype operand);

#define LUMINAL_ELEMENT [[gnu::always_inline]] static inline

namespace element {

template <std::integral T>
using Unsigned = std::make_unsigned_t<T>;
/// At least 32 bits wide, so that the product of two small unsigned values does not pass through signed int.
template <std::integral T>
using Wide = std::conditional_t<(sizeof(T) < 4), uint32_t, Unsigned<T>>;
template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

// --- floats

struct Div {
  template <std::floating_point T>
  LUMINAL_ELEMENT T apply(T a, T b) {
    return a / b;
  }
};
struct Fma {
  template <std::floating_point T>
  LUMINAL_ELEMENT T apply(T a, T b, T c) {
    return std::fma(a, b, c);
  }
};
struct Sqrt {
  template <std::floating_point T>
  LUMINAL_ELEMENT T apply(T a) {
    return std::sqrt(a);
  }
};
struct Floor {
  template <std::floating_point T>
  LUMINAL_ELEMENT T apply(T a) {
    return std::floor(a);
  }
};
struct RoundEven {
  template <std::floating_point T>
  LUMINAL_ELEMENT T apply(T a) {
    return std::nearbyint(a);
  }
};
struct Remainder {
  template <std::floating_point T>
  LUMINAL_ELEMENT T apply(T a, T b) {
    return std::fmod(a, b);
  }
};

// --- floats and integers

struct Add {
  template <class T>
  LUMINAL_ELEMENT T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<Wide<T>>(a) + static_cast<Wide<T>>(b));
    else
      return a + b;
  }
};
struct Sub {
  template <class T>
  LUMINAL_ELEMENT T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<Wide<T>>(a) - static_cast<Wide<T>>(b));
    else
      return a - b;
  }
};
struct Mul {
  template <class T>
  LUMINAL_ELEMENT T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b));
    else
      return a * b;
  }
};
struct Neg {
  template <class T>
  LUMINAL_ELEMENT T apply(T a) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(Wide<T>{0} - static_cast<Wide<T>>(a));
    else
      return -a;
  }
};
struct Abs {
  template <class T>
  LUMINAL_ELEMENT T apply(T a) {
    if constexpr (std::is_integral_v<T>)
      return a < T{0} ? Neg::apply(a) : a;
    else
      return std::fabs(a);
  }
};
/// `a` if it wins or is NaN; the bits `equal` if both are equal, which differ at most in the sign of zero;
/// else `b`. Comparisons first and selection of bits afterwards: a form that compilers vectorise.
template <class T>
LUMINAL_ELEMENT T pick(T a, T b, bool a_wins, BitsOf<T> equal) {
  const bool same = a == b, lost = a != a;
  const auto x = std::bit_cast<BitsOf<T>>(a), y = std::bit_cast<BitsOf<T>>(b);
  BitsOf<T> result = a_wins ? x : y;  // y also if it is NaN
  result = same ? equal : result;
  return std::bit_cast<T>(lost ? x : result);
}
struct Minimum {
  template <class T>
  LUMINAL_ELEMENT T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return b < a ? b : a;
    } else {
      return pick(a, b, a < b, std::bit_cast<BitsOf<T>>(a) | std::bit_cast<BitsOf<T>>(b));
    }
  }
};
struct Maximum {
  template <class T>
  LUMINAL_ELEMENT T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return a < b ? b : a;
    } else {
      return pick(a, b, a > b, std::bit_cast<BitsOf<T>>(a) & std::bit_cast<BitsOf<T>>(b));
    }
  }
};

// --- integers

struct FloorDiv {
  template <std::integral T>
  LUMINAL_ELEMENT T apply(T a, T b) {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return Neg::apply(a);
    }
    const T quotient = static_cast<T>(a / b);
    return static_cast<T>(quotient - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0));
  }
};
struct FloorMod {
  template <std::integral T>
  LUMINAL_ELEMENT T apply(T a, T b) {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
    }
    const T rest = static_cast<T>(a % b);
    return static_cast<T>(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
  }
};
/// Whether a shift by `b` keeps at least one bit.
template <std::integral T>
LUMINAL_ELEMENT bool shift_in_range(T b) {
  return static_cast<Unsigned<T>>(b) < 8 * sizeof(T);
}
struct ShiftLeft {
  template <std::integral T>
  LUMINAL_ELEMENT T apply(T a, T b) {
    return shift_in_range(b) ? static_cast<T>(static_cast<Wide<T>>(a) << b) : T{0};
  }
};
struct ShiftRightLogical {
  template <std::integral T>
  LUMINAL_ELEMENT T apply(T a, T b) {
    return shift_in_range(b) ? static_cast<T>(static_cast<Unsigned<T>>(a) >> b) : T{0};
  }
};
struct ShiftRightArithmetic {
  template <std::integral T>
  LUMINAL_ELEMENT T apply(T a, T b) {
    const auto value = static_cast<std::make_signed_t<T>>(a);
    return static_cast<T>(value >> (shift_in_range(b) ? b : static_cast<T>(8 * sizeof(T) - 1)));
  }
};

struct And {
  template <std::integral T>
  LUMINAL_ELEMENT T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <std::integral T>
  LUMINAL_ELEMENT T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <std::integral T>
  LUMINAL_ELEMENT T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
struct Not {
  template <std::integral T>
  LUMINAL_ELEMENT T apply(T a) {
    return static_cast<T>(~a);
  }
};
struct NotBool {
  LUMINAL_ELEMENT uint8_t apply(uint8_t a) { return a ^ 1U; }
};

// --- comparisons, select, conversions

struct Lt {
  template <class T>
  LUMINAL_ELEMENT uint8_t apply(T a, T b) {
    return a < b ? 1 : 0;
  }
};
struct Le {
  template <class T>
  LUMINAL_ELEMENT uint8_t apply(T a, T b) {
    return a <= b ? 1 : 0;
  }
};
struct Eq {
  template <class T>
  LUMINAL_ELEMENT uint8_t apply(T a, T b) {
    return a == b ? 1 : 0;
  }
};
struct Ne {
  template <class T>
  LUMINAL_ELEMENT uint8_t apply(T a, T b) {
    return a != b ? 1 : 0;
  }
};
struct Select {
  template <class T>
  LUMINAL_ELEMENT T apply(uint8_t condition, T b, T c) {
    return condition != 0 ? b : c;
  }
};
struct Copy {
  template <class T>
  LUMINAL_ELEMENT T apply(T a) {
    return a;
  }
};

/// To type `To` by value.
template <class To>
struct Convert {
  template <class From>
  LUMINAL_ELEMENT To apply(From a) {
    if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
      // Both limits as floats: the lower one is exact, the upper one is a power of two beyond the largest
      // value.
      constexpr From kLow = static_cast<From>(std::numeric_limits<To>::min());
      constexpr From kBeyond = 2 * static_cast<From>(To{1} << (std::numeric_limits<To>::digits - 1));
      if (!(a >= kLow)) return a != a ? To{0} : std::numeric_limits<To>::min();
      return a < kBeyond ? static_cast<To>(a) : std::numeric_limits<To>::max();
    } else {
      return static_cast<To>(a);
    }
  }
};
/// To Bool.
struct Truth {
  template <class From>
  LUMINAL_ELEMENT uint8_t apply(From a) {
    return a != From{0} ? 1 : 0;
  }
};

}  // namespace element
}  // namespace luminal
