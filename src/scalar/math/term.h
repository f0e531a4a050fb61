#pragma once
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string_view>
#include <type_traits>

#include "luminal/scalar.h"

/// Formulas over scalar IR that read as formulas. Only the functions in this folder use it.
///
///   Real<float> r(b);
///   Term y = fma(r.term(x), r(0.5), r(1));
namespace luminal::math {

/// A value and the builder it belongs to.
struct Term {
  ScalarBuilder* builder = nullptr;
  Scalar scalar;
};

inline Term operator+(Term a, Term b) { return {a.builder, a.builder->add(a.scalar, b.scalar)}; }
inline Term operator-(Term a, Term b) { return {a.builder, a.builder->sub(a.scalar, b.scalar)}; }
inline Term operator*(Term a, Term b) { return {a.builder, a.builder->mul(a.scalar, b.scalar)}; }
inline Term operator/(Term a, Term b) { return {a.builder, a.builder->div(a.scalar, b.scalar)}; }
inline Term operator-(Term a) { return {a.builder, a.builder->neg(a.scalar)}; }
inline Term operator&(Term a, Term b) { return {a.builder, a.builder->bit_and(a.scalar, b.scalar)}; }
inline Term operator|(Term a, Term b) { return {a.builder, a.builder->bit_or(a.scalar, b.scalar)}; }
inline Term operator^(Term a, Term b) { return {a.builder, a.builder->bit_xor(a.scalar, b.scalar)}; }
inline Term operator~(Term a) { return {a.builder, a.builder->bit_not(a.scalar)}; }
inline Term operator<(Term a, Term b) { return {a.builder, a.builder->lt(a.scalar, b.scalar)}; }
inline Term operator<=(Term a, Term b) { return {a.builder, a.builder->le(a.scalar, b.scalar)}; }
inline Term operator>(Term a, Term b) { return {a.builder, a.builder->gt(a.scalar, b.scalar)}; }
inline Term operator>=(Term a, Term b) { return {a.builder, a.builder->ge(a.scalar, b.scalar)}; }
inline Term operator==(Term a, Term b) { return {a.builder, a.builder->eq(a.scalar, b.scalar)}; }
inline Term operator!=(Term a, Term b) { return {a.builder, a.builder->ne(a.scalar, b.scalar)}; }
inline Term shift_left(Term a, int n) { return {a.builder, a.builder->shift_left(a.scalar, n)}; }
inline Term shift_right(Term a, int n) { return {a.builder, a.builder->shift_right_arithmetic(a.scalar, n)}; }
inline Term shift_right_logical(Term a, int n) {
  return {a.builder, a.builder->shift_right_logical(a.scalar, n)};
}
inline Term fma(Term a, Term b, Term c) { return {a.builder, a.builder->fma(a.scalar, b.scalar, c.scalar)}; }
inline Term abs(Term a) { return {a.builder, a.builder->abs(a.scalar)}; }
inline Term root(Term a) { return {a.builder, a.builder->sqrt(a.scalar)}; }
inline Term floor(Term a) { return {a.builder, a.builder->floor(a.scalar)}; }
inline Term select(Term c, Term a, Term b) {
  return {a.builder, a.builder->select(c.scalar, a.scalar, b.scalar)};
}
inline Term convert(Term a, Dtype to) { return {a.builder, a.builder->convert(a.scalar, to)}; }
inline Term bitcast(Term a, Dtype to) { return {a.builder, a.builder->bitcast(a.scalar, to)}; }
inline Term constant(const Term& beside, Dtype dtype, int64_t value) {
  return {beside.builder, beside.builder->constant(dtype, value)};
}

/// A value as an unevaluated sum, |low| at most about half a unit in the last place of high.
struct Pair {
  Term high, low;
};
/// a + b exactly, if |a| >= |b| or a is 0 (Dekker 1971).
inline Pair fast_two_sum(Term a, Term b) {
  const Term sum = a + b;
  return {sum, b - (sum - a)};
}
/// a * b exactly, barring underflow.
inline Pair two_product(Term a, Term b) {
  const Term product = a * b;
  return {product, fma(a, b, -product)};
}

/// Constants and formats of one float type: T is float or double.
template <class T>
class Real {
 public:
  static constexpr bool kSingle = std::is_same_v<T, float>;
  static constexpr Dtype kType = kSingle ? Dtype::F32 : Dtype::F64;
  static constexpr Dtype kWord = kSingle ? Dtype::I32 : Dtype::I64;  ///< integers of the same size
  static constexpr int kMantissaBits = kSingle ? 23 : 52;
  static constexpr int kBias = kSingle ? 127 : 1023;
  using Bits = std::conditional_t<kSingle, uint32_t, uint64_t>;

  explicit Real(ScalarBuilder& b) : b_(&b) {}
  [[nodiscard]] Term operator()(double value) const { return {b_, b_->constant(kType, value)}; }
  [[nodiscard]] Term integer(int64_t value) const { return {b_, b_->constant(kWord, value)}; }
  /// The integer whose bits are those of a float.
  [[nodiscard]] Term word_of(T value) const {
    return {b_, b_->constant_bits(kWord, std::bit_cast<Bits>(value))};
  }
  [[nodiscard]] Term infinity() const { return (*this)(std::numeric_limits<double>::infinity()); }
  [[nodiscard]] Term nan() const { return (*this)(std::numeric_limits<double>::quiet_NaN()); }

  [[nodiscard]] Term word(Term x) const { return bitcast(x, kWord); }
  [[nodiscard]] Term real(Term x) const { return bitcast(x, kType); }
  [[nodiscard]] Term sign_bit(Term x) const { return word(x) & word_of(T(-0.0)); }
  /// |x| with the sign of `sign`; x must not be negative.
  [[nodiscard]] Term with_sign(Term x, Term sign) const { return real(word(x) | sign_bit(sign)); }
  /// 2^n for an integer word n within the normal exponents.
  [[nodiscard]] Term power_of_two(Term n) const {
    return real(shift_left(n + integer(kBias), kMantissaBits));
  }
  /// An integer word as a float, for |n| < 2^(mantissa - 2). Processors without a 64-bit conversion add the
  /// bits.
  [[nodiscard]] Term to_real(Term n) const {
    if constexpr (kSingle) return convert(n, kType);
    const double shifter = 0x1.8p52;
    return real(n + word_of(static_cast<T>(shifter))) - (*this)(shifter);
  }
  /// c[0] + x c[1] + x^2 c[2] ... by Horner's rule.
  [[nodiscard]] Term polynomial(Term x, std::initializer_list<double> c) const {
    auto it = c.end();
    Term sum = (*this)(*--it);
    while (it != c.begin()) sum = fma(sum, x, (*this)(*--it));
    return sum;
  }
  /// x rounded to an integer n (ties to even), for |x| < 2^(mantissa - 2): n as a float and as a word. Adding
  /// 1.5 * 2^mantissa leaves n in the low bits of the sum.
  struct Rounded {
    Term real, word;
  };
  [[nodiscard]] Rounded round(Term x) const {
    const double shifter = kSingle ? 0x1.8p23 : 0x1.8p52;
    const Term shifted = x + (*this)(shifter);
    return {shifted - (*this)(shifter), word(shifted) - word_of(static_cast<T>(shifter))};
  }

 private:
  ScalarBuilder* b_;
};

/// Lowers `f(Real<T>, x...)` for a float dtype; F16 and BF16 compute in F32 and round once. Errors:
/// DtypeError.
void require_float(std::string_view function, Dtype dtype);
void require_same(std::string_view function, Dtype a, Dtype b);
template <class F, class... X>
Scalar lower_float(std::string_view function, ScalarBuilder& b, F&& f, Scalar x, X... more) {
  const Dtype dtype = b.dtype(x);
  require_float(function, dtype);
  if (dtype == Dtype::F64) return f(Real<double>(b), Term{&b, x}, Term{&b, more}...).scalar;
  const auto single = [&](Scalar s) { return Term{&b, b.convert(s, Dtype::F32)}; };
  return b.convert(f(Real<float>(b), single(x), single(more)...).scalar, dtype);
}

}  // namespace luminal::math
