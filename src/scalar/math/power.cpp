// pow = 2^(y log2 |x|) with the logarithm as an unevaluated sum of two floats, good to a third more bits than
// one, as in SLEEF's and fdlibm's pow; the signs and special cases of C's Annex F follow. Coefficients from
// Sollya.
#include "luminal/scalar_math.h"
#include "scalar/math/cores.h"

namespace luminal::math {
namespace {

Pair multiply(Pair a, Pair b) {
  const Pair product = two_product(a.high, b.high);
  return {product.high, product.low + fma(a.high, b.low, a.low * b.high)};
}

/// (2 atanh(s) / s - 2 - 2/3 z) / z^2 with z = s^2 <= 0.0295.
template <class T>
Term atanh_tail(const Real<T>& r, Term z) {
  if constexpr (Real<T>::kSingle)
    return r.polynomial(z, {0x1.99999ap-2, 0x1.24921p-2, 0x1.c7040ap-3, 0x1.827f72p-3});
  else
    return r.polynomial(
        z, {0x1.999999999999ap-2, 0x1.24924924922fep-2, 0x1.c71c71c74c77ap-3, 0x1.745d173ce41bap-3,
            0x1.3b13a9cbb9295p-3, 0x1.111551154f71fp-3, 0x1.e01971bc08c64p-4, 0x1.daa559ed9e488p-4});
}

/// log2 of x, positive and finite: log(1 + f) = 2 atanh(s), s = f / (2 + f).
template <class T>
Pair log2_pair(const Real<T>& r, Term x) {
  constexpr bool kSingle = Real<T>::kSingle;
  const auto [exponent, mantissa] = decompose(r, x);
  const Term f = mantissa - r(1);
  const Pair divisor = fast_two_sum(r(2), f);
  const Term inverse = r(1) / divisor.high;
  const Term s_high = f * inverse;
  const Term rest = fma(-s_high, divisor.low, fma(-s_high, divisor.high, f));
  const Pair s = fast_two_sum(s_high, rest * inverse);
  const Pair square = multiply(s, s);
  const double third_high = kSingle ? 0x1.555556p-1 : 0x1.5555555555555p-1;  // 2/3
  const double third_low = kSingle ? -0x1.555556p-26 : 0x1.5555555555555p-55;
  const Pair series = fast_two_sum(r(third_high), fma(square.high, atanh_tail(r, square.high), r(third_low)));
  const Pair cubic = multiply(square, series);
  const Pair factor = fast_two_sum(r(2), cubic.high);
  const Pair natural = multiply(s, {factor.high, factor.low + cubic.low});
  const Pair inverse_ln2{r(kSingle ? 0x1.715476p+0 : 0x1.71547652b82fep+0),
                         r(kSingle ? 0x1.4ae0cp-26 : 0x1.777d0ffda0d24p-56)};
  const Pair binary = multiply(natural, inverse_ln2);
  const Pair sum = fast_two_sum(r.to_real(exponent), binary.high);
  return fast_two_sum(sum.high, sum.low + binary.low);
}

template <class T>
Term pow_core(const Real<T>& r, Term x, Term y) {
  const Term magnitude = abs(x);
  const Pair log = log2_pair(r, magnitude);
  // 0 and infinity have no place in the pair: their logarithms are infinite, and so are the products below.
  const Term log_high =
      select(magnitude == r(0), -r.infinity(), select(magnitude == r.infinity(), r.infinity(), log.high));
  const Term high = y * log_high;
  const Term low = fma(y, log.low, fma(y, log_high, -high));
  const Term in_range = abs(high) < r(Real<T>::kSingle ? 200 : 1200);  // beyond, low is not a number
  const Term size = exp2_core(r, high, select(in_range, low, r(0)));

  const Term whole = floor(y) == y;
  const Term half = y * r(0.5);
  const Term odd = whole & (floor(half) != half);
  const Term sign = select(odd, r.sign_bit(x), r.integer(0));
  const Term negative_finite = (x < r(0)) & (x > -r.infinity());
  const Term defined = select(negative_finite & ~whole, r.nan(), r.real(r.word(size) ^ sign));
  const Term unit = (magnitude == r(1)) & (abs(y) == r.infinity());
  const Term with_nan = select((x != x) | (y != y), r.nan(), defined);
  const Term one = (y == r(0)) | (x == r(1)) | unit;
  return select(one, r(1), with_nan);
}

}  // namespace

Scalar pow(ScalarBuilder& b, Scalar x, Scalar y) {
  require_same("pow", b.dtype(x), b.dtype(y));
  return lower_float(
      "pow", b, [](auto r, Term base, Term exponent) { return pow_core(r, base, exponent); }, x, y);
}

}  // namespace luminal::math
