#include <fmt/format.h>

#include "codegen/emit/c_text.h"
#include "scalar/typing.h"

namespace luminal::codegen::c_text {

std::string Operations::conversion(const Vector& from, const std::string& a, const Vector& to) {
  if (from.dtype == to.dtype) return a;
  if (is_half(from.dtype)) return f32_of_half(from, a);
  if (is_half(to.dtype)) return half_of_f32(a, to);
  const Word f = from.word, d = to.word;
  const int width = from.width;
  if (to.dtype == Dtype::Bool)
    return truth(from, fmt::format("({} != {})", a, s_.spread(f, width, is_float_word(f) ? "0.0f" : "0")));
  if (from.dtype == Dtype::Bool)
    return s_.convert(d, width, fmt::format("({} & {})", a, s_.spread(f, width, "1")));
  if (is_float_word(f) && !is_float_word(d)) return saturated(from, a, to);
  return f == d ? a : s_.convert(d, width, a);
}

std::string Operations::saturated(const Vector& from, const std::string& a, const Vector& to) {
  return call(fmt::format("{}_of", name(to.dtype)), to, from, {a},
              [&] { return saturating_lines(from, to); });
}

/// C's conversion of a float is defined only where the integer can hold what it gives. NaN is in no range.
std::string Operations::saturating_lines(const Vector& from, const Vector& to) const {
  const DtypeInfo& limits = info(to.dtype);
  const int width = from.width, bytes = word_bytes(from.word);
  const auto real = [&](double value) {
    ScalarBuilder b;
    return s_.spread(from.word, width, s_.literal(from.dtype, b[b.constant(from.dtype, value)].payload));
  };
  // Both are exact: powers of two.
  const std::string least = real(static_cast<double>(limits.least));
  const std::string beyond = real(2 * static_cast<double>(int64_t{1} << (limits.digits - 1)));
  const std::string type = s_.type(to.word, width);
  const auto chosen = [&](const std::string& mask, int64_t value, const std::string& otherwise) {
    return s_.choose(to.word, width, bytes, mask, number(to, value), otherwise);
  };
  const std::string safe = choose(from, fmt::format("((a >= {}) & (a < {}))", least, beyond), "a", real(0));
  return fmt::format("  const {} inside = {};\n  const {} value = {};\n  const {} high = {};\n  return {};\n",
                     s_.type(from.word, width), safe, type, s_.convert(to.word, width, "inside"), type,
                     chosen(fmt::format("(a >= {})", beyond), limits.greatest, "value"),
                     chosen(fmt::format("(a < {})", least), limits.least, "high"));
}

// Halves by integer arithmetic, as the LLVM printer has them (llvm_arithmetic.cpp): what luminal/dtype.h gives.
std::string Operations::f32_of_half(const Vector& from, const std::string& a) {
  const Vector to{Dtype::F32, Word::F32, from.width};
  return call("f32_of", to, from, {a}, [&] {
    const std::string word = s_.type(Word::U32, from.width), wide = s_.convert(Word::U32, from.width, "a");
    const auto as_float = [&](const std::string& x) { return s_.bits(Word::U32, Word::F32, from.width, x); };
    if (from.dtype == Dtype::BF16)
      return fmt::format("  return {};\n", as_float(fmt::format("({} << 16)", wide)));
    // Exponent and mantissa moved into place; the product with 2^112 mends the bias and makes subnormals normal.
    const std::string finite =
        s_.bits(Word::F32, Word::U32, from.width, fmt::format("({} * 0x1p112f)", as_float("magnitude")));
    const std::string bits =
        s_.choose(Word::U32, from.width, 4, "(magnitude >= 0xf800000u)", "(magnitude | 0x7f800000u)", finite);
    return fmt::format(
        "  const {0} word = {1};\n  const {0} magnitude = (word & 0x7fffu) << 13;\n  const {0} bits = {2};\n"
        "  return {3};\n",
        word, wide, bits, as_float("(bits | ((word & 0x8000u) << 16))"));
  });
}

std::string Operations::half_of_f32(const std::string& a, const Vector& to) {
  const Vector from{Dtype::F32, Word::F32, to.width};
  return call(fmt::format("{}_of", name(to.dtype)), to, from, {a},
              [&] { return to.dtype == Dtype::BF16 ? bf16_lines(to.width) : f16_lines(to.width); });
}

std::string Operations::bf16_lines(int width) const {
  const std::string bits = s_.choose(Word::U32, width, 4, "(a != a)", "((word >> 16) | 0x40u)",
                                     "((word + (((word >> 16) & 1u) + 0x7fffu)) >> 16)");
  return fmt::format("  const {0} word = {1};\n  const {0} bits = {2};\n  return {3};\n",
                     s_.type(Word::U32, width), s_.bits(Word::F32, Word::U32, width, "a"), bits,
                     s_.convert(Word::U16, width, "bits"));
}

std::string Operations::f16_lines(int width) const {
  const auto choose = [&](const char* mask, const std::string& x, const std::string& y) {
    return s_.choose(Word::U32, width, 4, mask, x, y);
  };
  // Below 2^-14 the sum with 0.5 leaves the rounded subnormal in the lowest bits.
  const std::string sum = fmt::format("({} + 0.5f)", s_.bits(Word::U32, Word::F32, width, "magnitude"));
  const std::string small = fmt::format("({} - 0x3f000000u)", s_.bits(Word::F32, Word::U32, width, sum));
  const std::string normal = "((magnitude + (((magnitude >> 13) & 1u) + 0xc8000fffu)) >> 13)";
  const std::string infinity = s_.spread(Word::U32, width, "0x7c00u");
  const std::string large =
      choose("(magnitude > 0x7f800000u)", "(((magnitude >> 13) & 0x3ffu) | 0x7e00u)", infinity);
  const std::string bits =
      choose("(magnitude >= 0x47800000u)", "large", choose("(magnitude < 0x38800000u)", small, normal));
  return fmt::format(
      "  const {0} word = {1};\n  const {0} magnitude = word & 0x7fffffffu;\n  const {0} large = {2};\n"
      "  const {0} bits = {3};\n  return {4};\n",
      s_.type(Word::U32, width), s_.bits(Word::F32, Word::U32, width, "a"), large, bits,
      s_.convert(Word::U16, width, "(bits | ((word >> 16) & 0x8000u))"));
}

}  // namespace luminal::codegen::c_text
