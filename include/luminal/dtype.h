#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

/// Element types.
///
///   assert(parse_dtype("bf16") == Dtype::BF16);
///   assert(promote(Dtype::I32, Dtype::F16) == Dtype::F16);  // the float's type wins beside an integer
///
/// Promotion of two tensors (PyTorch's rules) is symmetric; the result is the smallest type of the higher
/// kind that holds both:
/// - Kinds: bool < integers < floats. Within one kind the wider type; i8 and u8 give i32, f16 and bf16 f32.
/// - A plain C++ number beside a tensor takes the tensor's dtype if its kind is not higher; a floating number
///   beside an integer or bool tensor gives f32, an integer beside a bool tensor gives i64.
///
/// Block-quantised types hold weights: blocks of 32 values in GGML's layouts. They take part in `cast` and
/// `gather` only.
namespace luminal {

enum class Dtype : uint8_t { F32, F64, F16, BF16, I8, U8, I32, I64, Bool, Q8_0, Q4_0, Q4_1 };

enum class DtypeKind : uint8_t { Bool, Integer, Float, Quantized };

struct DtypeInfo {
  std::string_view name;
  DtypeKind kind;
  int block_elements;  ///< elements that share one block; 1 for plain types
  int block_bytes;     ///< bytes of one block
};

/// In the order of Dtype. Blocks as in GGML: 32 values share a scale.
inline constexpr std::array<DtypeInfo, 12> kDtypeInfos{{
    {"f32", DtypeKind::Float, 1, 4},
    {"f64", DtypeKind::Float, 1, 8},
    {"f16", DtypeKind::Float, 1, 2},
    {"bf16", DtypeKind::Float, 1, 2},
    {"i8", DtypeKind::Integer, 1, 1},
    {"u8", DtypeKind::Integer, 1, 1},
    {"i32", DtypeKind::Integer, 1, 4},
    {"i64", DtypeKind::Integer, 1, 8},
    {"bool", DtypeKind::Bool, 1, 1},
    {"q8_0", DtypeKind::Quantized, 32, 34},
    {"q4_0", DtypeKind::Quantized, 32, 18},
    {"q4_1", DtypeKind::Quantized, 32, 20},
}};

[[nodiscard]] constexpr const DtypeInfo& info(Dtype dtype) {
  return kDtypeInfos.at(static_cast<size_t>(dtype));
}
[[nodiscard]] inline std::string_view name(Dtype dtype) { return info(dtype).name; }
[[nodiscard]] inline bool is_float(Dtype dtype) { return info(dtype).kind == DtypeKind::Float; }
[[nodiscard]] inline bool is_integer(Dtype dtype) { return info(dtype).kind == DtypeKind::Integer; }
[[nodiscard]] inline bool is_quantized(Dtype dtype) { return info(dtype).kind == DtypeKind::Quantized; }

/// Bytes that `elements` values take; whole blocks. Errors: ShapeError if quantised and not a multiple of the
/// block.
[[nodiscard]] int64_t size_bytes(Dtype dtype, int64_t elements);
/// Bytes of one element. Errors: DtypeError for quantised types, whose elements have no size of their own.
[[nodiscard]] int64_t element_bytes(Dtype dtype);
/// The common type of two operands (table above). Errors: DtypeError for quantised types.
[[nodiscard]] Dtype promote(Dtype a, Dtype b);
/// The type in which sums of `dtype` accumulate: f32 for f16 and bf16, i64 for bool, itself otherwise.
[[nodiscard]] Dtype accumulation_dtype(Dtype dtype);
/// Errors: DtypeError that offers the nearest name.
[[nodiscard]] Dtype parse_dtype(std::string_view text);

/// IEEE 754 binary16 as storage: arithmetic happens in f32. Conversions round to nearest even.
struct float16 {
  uint16_t bits = 0;
  float16() = default;
  explicit float16(float value);
  operator float() const;
};

/// bfloat16 as storage: the upper half of an f32. Conversions round to nearest even; NaN stays NaN.
struct bfloat16 {
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

/// Maps a C++ element type to its Dtype: `dtype_of<float>() == Dtype::F32`.
template <class T>
[[nodiscard]] constexpr Dtype dtype_of();
template <>
constexpr Dtype dtype_of<float>() {
  return Dtype::F32;
}
template <>
constexpr Dtype dtype_of<double>() {
  return Dtype::F64;
}
template <>
constexpr Dtype dtype_of<float16>() {
  return Dtype::F16;
}
template <>
constexpr Dtype dtype_of<bfloat16>() {
  return Dtype::BF16;
}
template <>
constexpr Dtype dtype_of<int8_t>() {
  return Dtype::I8;
}
template <>
constexpr Dtype dtype_of<uint8_t>() {
  return Dtype::U8;
}
template <>
constexpr Dtype dtype_of<int32_t>() {
  return Dtype::I32;
}
template <>
constexpr Dtype dtype_of<int64_t>() {
  return Dtype::I64;
}
template <>
constexpr Dtype dtype_of<bool>() {
  return Dtype::Bool;
}

/// Calls `f(T{})` with the C++ type of a plain dtype. Errors: DtypeError for quantised types.
[[noreturn]] void no_plain_type(Dtype dtype);
template <class F>
decltype(auto) visit_dtype(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::F32:
      return f(float{});
    case Dtype::F64:
      return f(double{});
    case Dtype::F16:
      return f(float16{});
    case Dtype::BF16:
      return f(bfloat16{});
    case Dtype::I8:
      return f(int8_t{});
    case Dtype::U8:
      return f(uint8_t{});
    case Dtype::I32:
      return f(int32_t{});
    case Dtype::I64:
      return f(int64_t{});
    case Dtype::Bool:
      return f(bool{});
    default:
      no_plain_type(dtype);
  }
}

}  // namespace luminal
