#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

/// Element types.
///
///   assert(parse_dtype("bf16") == Dtype::BF16);
///   assert(promote(Dtype::I32, Dtype::F16) == Dtype::F16);  // the float's type wins beside an integer
///
/// Promotion of two tensors (PyTorch's rules) is symmetric; the result is the smallest type of the higher
/// kind that holds both:
/// - Kinds: bool < integers < floats. Within one kind the type that holds the other; i8 with u8 or u16 gives
///   i32, f16 with bf16 f32.
/// - A plain C++ number beside a tensor takes the tensor's dtype if its kind is not higher; a floating number
///   beside an integer or bool tensor gives f32, an integer beside a bool tensor gives i64.
///
/// Block-quantised types hold weights: blocks of 32 to 256 values in GGML's layouts, which block_format.h
/// describes. They take part in `cast` and `gather` only.
namespace luminal {

/// IEEE 754 binary16 as storage: arithmetic happens in f32. Conversions round to nearest even.
struct float16 {
  static constexpr int kDigits = 11, kLeastExponent = -14, kGreatestExponent = 15;
  uint16_t bits = 0;
  float16() = default;
  explicit float16(float value);
  operator float() const;
};

/// bfloat16 as storage: the upper half of an f32. Conversions round to nearest even; NaN stays NaN.
struct bfloat16 {
  static constexpr int kDigits = 8, kLeastExponent = -126, kGreatestExponent = 127;
  uint16_t bits = 0;
  bfloat16() = default;
  explicit bfloat16(float value) {
    const auto word = std::bit_cast<uint32_t>(value);
    const bool is_nan = (word & 0x7fffffffU) > 0x7f800000U;
    bits = is_nan ? static_cast<uint16_t>((word >> 16) | 0x40U)
                  : static_cast<uint16_t>((word + 0x7fffU + ((word >> 16) & 1U)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

enum class DtypeKind : uint8_t { Bool, Integer, Float, Quantized };

/// The table of dtypes. A new one is a row at the end (stored hashes hold the row's number) and the
/// conversions of its C++ type.
///   PLAIN(enumerator, name, kind, C++ type of an element)
///   BLOCK(enumerator, name, elements of a block, bytes of a block)
#define LUMINAL_DTYPES(PLAIN, BLOCK)   \
  PLAIN(F32, "f32", Float, float)      \
  PLAIN(F64, "f64", Float, double)     \
  PLAIN(F16, "f16", Float, float16)    \
  PLAIN(BF16, "bf16", Float, bfloat16) \
  PLAIN(I8, "i8", Integer, int8_t)     \
  PLAIN(U8, "u8", Integer, uint8_t)    \
  PLAIN(I32, "i32", Integer, int32_t)  \
  PLAIN(I64, "i64", Integer, int64_t)  \
  PLAIN(Bool, "bool", Bool, bool)      \
  BLOCK(Q8_0, "q8_0", 32, 34)          \
  BLOCK(Q4_0, "q4_0", 32, 18)          \
  BLOCK(Q4_1, "q4_1", 32, 20)          \
  PLAIN(U16, "u16", Integer, uint16_t) \
  BLOCK(Q5_0, "q5_0", 32, 22)          \
  BLOCK(Q5_1, "q5_1", 32, 24)          \
  BLOCK(Q2_K, "q2_k", 256, 84)         \
  BLOCK(Q3_K, "q3_k", 256, 110)        \
  BLOCK(Q4_K, "q4_k", 256, 144)        \
  BLOCK(Q5_K, "q5_k", 256, 176)        \
  BLOCK(Q6_K, "q6_k", 256, 210)        \
  BLOCK(IQ4_NL, "iq4_nl", 32, 18)      \
  BLOCK(IQ4_XS, "iq4_xs", 256, 136)    \
  BLOCK(IQ1_S, "iq1_s", 256, 50)       \
  BLOCK(IQ1_M, "iq1_m", 256, 56)       \
  BLOCK(IQ2_XXS, "iq2_xxs", 256, 66)   \
  BLOCK(IQ2_XS, "iq2_xs", 256, 74)     \
  BLOCK(IQ2_S, "iq2_s", 256, 82)       \
  BLOCK(IQ3_XXS, "iq3_xxs", 256, 98)   \
  BLOCK(IQ3_S, "iq3_s", 256, 110)      \
  BLOCK(TQ1_0, "tq1_0", 256, 54)       \
  BLOCK(TQ2_0, "tq2_0", 256, 66)       \
  BLOCK(MXFP4, "mxfp4", 32, 17)        \
  BLOCK(NVFP4, "nvfp4", 64, 36)

#define LUMINAL_ENUMERATOR(enumerator, ...) enumerator,
enum class Dtype : uint8_t { LUMINAL_DTYPES(LUMINAL_ENUMERATOR, LUMINAL_ENUMERATOR) };
#undef LUMINAL_ENUMERATOR

struct DtypeInfo {
  std::string_view name;
  DtypeKind kind;
  int block_elements;  ///< elements that share one block; 1 for plain types
  int block_bytes;     ///< bytes of one block
  int digits = 0;  ///< bits of the significand, the leading one included; of integers, those beside the sign
  int64_t least = 0, greatest = 0;                ///< values of integers and bool
  int least_exponent = 0, greatest_exponent = 0;  ///< of floats that are normal numbers
};

namespace detail {

template <class T>
[[nodiscard]] constexpr DtypeInfo plain_info(std::string_view name, DtypeKind kind) {
  using Limits = std::numeric_limits<T>;
  DtypeInfo info{name, kind, 1, static_cast<int>(sizeof(T))};
  if constexpr (std::is_integral_v<T>) {
    info.digits = Limits::digits;
    info.least = Limits::min();
    info.greatest = Limits::max();
  } else if constexpr (std::is_floating_point_v<T>) {
    info.digits = Limits::digits;
    info.least_exponent = Limits::min_exponent - 1;  // the standard's significands lie below 1
    info.greatest_exponent = Limits::max_exponent - 1;
  } else {
    info.digits = T::kDigits;
    info.least_exponent = T::kLeastExponent;
    info.greatest_exponent = T::kGreatestExponent;
  }
  return info;
}

}  // namespace detail

/// In the order of Dtype.
#define LUMINAL_PLAIN_INFO(enumerator, name, kind, type) detail::plain_info<type>(name, DtypeKind::kind),
#define LUMINAL_BLOCK_INFO(enumerator, name, elements, bytes) \
  DtypeInfo{name, DtypeKind::Quantized, elements, bytes},
inline constexpr std::array kDtypeInfos{LUMINAL_DTYPES(LUMINAL_PLAIN_INFO, LUMINAL_BLOCK_INFO)};
#undef LUMINAL_PLAIN_INFO
#undef LUMINAL_BLOCK_INFO

/// Those whose elements stand alone: all but the block-quantised ones.
#define LUMINAL_DTYPE(enumerator, ...) Dtype::enumerator,
#define LUMINAL_NOTHING(...)
inline constexpr std::array kPlainDtypes{LUMINAL_DTYPES(LUMINAL_DTYPE, LUMINAL_NOTHING)};
#undef LUMINAL_DTYPE
#undef LUMINAL_NOTHING

[[nodiscard]] constexpr const DtypeInfo& info(Dtype dtype) {
  return kDtypeInfos.at(static_cast<size_t>(dtype));
}
[[nodiscard]] constexpr std::string_view name(Dtype dtype) { return info(dtype).name; }
[[nodiscard]] constexpr bool is_float(Dtype dtype) { return info(dtype).kind == DtypeKind::Float; }
[[nodiscard]] constexpr bool is_integer(Dtype dtype) { return info(dtype).kind == DtypeKind::Integer; }
[[nodiscard]] constexpr bool is_quantized(Dtype dtype) { return info(dtype).kind == DtypeKind::Quantized; }
/// Whether there are values below 0.
[[nodiscard]] constexpr bool is_signed(Dtype dtype) { return is_float(dtype) || info(dtype).least < 0; }

/// Bytes that `elements` values take; whole blocks. Errors: ShapeError if quantised and not a multiple of the
/// block.
[[nodiscard]] int64_t size_bytes(Dtype dtype, int64_t elements);
/// Bytes of one element. Errors: DtypeError for quantised types, whose elements have no size of their own.
[[nodiscard]] int64_t element_bytes(Dtype dtype);
/// Whether every value of `other` is one of `dtype`. False for quantised types.
[[nodiscard]] bool holds(Dtype dtype, Dtype other);
/// The common type of two operands (table above). Errors: DtypeError for quantised types.
[[nodiscard]] Dtype promote(Dtype a, Dtype b);
/// The type in which sums of `dtype` accumulate: f32 for f16 and bf16, i64 for bool, itself otherwise.
[[nodiscard]] Dtype accumulation_dtype(Dtype dtype);
/// Errors: DtypeError that offers the nearest name.
[[nodiscard]] Dtype parse_dtype(std::string_view text);

/// Maps a C++ element type to its Dtype: `dtype_of<float>() == Dtype::F32`. C++ has two signed 64-bit integers, `long`
/// and `long long`: both are I64. Another type does not compile.
template <class T>
[[nodiscard]] constexpr Dtype dtype_of() {
  static_assert(
      std::is_integral_v<T> && std::is_signed_v<T> && sizeof(T) == sizeof(int64_t),
      "no dtype has this C++ type; elements are float, double, float16, bfloat16, bool, int8_t, uint8_t, "
      "uint16_t, int32_t or int64_t: convert the values to one of them");
  return Dtype::I64;
}
#define LUMINAL_PLAIN_TYPE(enumerator, name, kind, type) \
  template <>                                            \
  constexpr Dtype dtype_of<type>() {                     \
    return Dtype::enumerator;                            \
  }
#define LUMINAL_NOTHING(...)
LUMINAL_DTYPES(LUMINAL_PLAIN_TYPE, LUMINAL_NOTHING)
#undef LUMINAL_PLAIN_TYPE
#undef LUMINAL_NOTHING

/// Calls `f(T{})` with the C++ type of a plain dtype. Errors: DtypeError for quantised types.
[[noreturn]] void no_plain_type(Dtype dtype);
template <class F>
decltype(auto) visit_dtype(Dtype dtype, F&& f) {
  switch (dtype) {
#define LUMINAL_PLAIN_CASE(enumerator, name, kind, type) \
  case Dtype::enumerator:                                \
    return f(type{});
#define LUMINAL_BLOCK_CASE(enumerator, ...) \
  case Dtype::enumerator:                   \
    break;
    LUMINAL_DTYPES(LUMINAL_PLAIN_CASE, LUMINAL_BLOCK_CASE)
#undef LUMINAL_PLAIN_CASE
#undef LUMINAL_BLOCK_CASE
  }
  no_plain_type(dtype);
}

/// Floats without arithmetic of their own, which are computed with as f32: float16 and bfloat16.
template <class T>
inline constexpr bool is_stored_float = std::is_class_v<T>;

/// Calls `f(T{})` with the unsigned type that is as wide as elements of a plain dtype: what moves them does
/// not ask what they mean. Errors: DtypeError for quantised types.
template <class F>
decltype(auto) visit_word(Dtype dtype, F&& f) {
  return visit_dtype(dtype, [&f]<class T>(T) -> decltype(auto) {
    if constexpr (sizeof(T) == 1)
      return f(uint8_t{});
    else if constexpr (sizeof(T) == 2)
      return f(uint16_t{});
    else if constexpr (sizeof(T) == 4)
      return f(uint32_t{});
    else
      return f(uint64_t{});
  });
}

template <Dtype dtype>
using DtypeConstant = std::integral_constant<Dtype, dtype>;

/// Calls `f(DtypeConstant<dtype>{})` for a quantised dtype. Errors: DtypeError for plain ones.
[[noreturn]] void no_block_type(Dtype dtype);
template <class F>
decltype(auto) visit_quantized(Dtype dtype, F&& f) {
  switch (dtype) {
#define LUMINAL_PLAIN_CASE(enumerator, ...) \
  case Dtype::enumerator:                   \
    break;
#define LUMINAL_BLOCK_CASE(enumerator, ...) \
  case Dtype::enumerator:                   \
    return f(DtypeConstant<Dtype::enumerator>{});
    LUMINAL_DTYPES(LUMINAL_PLAIN_CASE, LUMINAL_BLOCK_CASE)
#undef LUMINAL_PLAIN_CASE
#undef LUMINAL_BLOCK_CASE
  }
  no_block_type(dtype);
}

}  // namespace luminal
