// log2, log, log1p: x = 2^e * m with m around 1, log(m) from f = m - 1. The sum e ln 2 + log(m) carries the
// rounding error of its leading parts, as in fdlibm's and Tang's (1990) logarithms; coefficients from Sollya.
#include "luminal/scalar_math.h"
#include "scalar/math/cores.h"

namespace luminal::math {
namespace {

/// log(1 + f) - f for f in [sqrt(1/2) - 1, sqrt(2) - 1].
template <class T>
Term log_tail(const Real<T>& r, Term f) {
  const Term square = f * f;
  if constexpr (Real<T>::kSingle) {  // relative error of log: 2^-26.8
    const Term cubic = r.polynomial(f, {0x1.555574p-2, -0x1.000236p-2, 0x1.99929ep-3, -0x1.546556p-3,
                                        0x1.23b8dcp-3, -0x1.0ebe6cp-3, 0x1.00c666p-3, -0x1.2861e8p-4});
    return square * fma(cubic, f, r(-0.5));
  } else {  // log(1 + f) = 2 atanh(s), s = f / (2 + f); relative error 2^-57.6
    const Term s = f / (f + r(2));
    const Term z = s * s;
    const Term series = z * r.polynomial(z, {0x1.5555555555558p-1, 0x1.99999999952b9p-2, 0x1.2492492dfb9b8p-2,
                                             0x1.c71c62d649d8cp-3, 0x1.7462b925fa03ep-3, 0x1.39fdcbbceb4c6p-3,
                                             0x1.2b5f5b2f9f871p-3});
    const Term half_square = square * r(0.5);
    return fma(s, half_square + series, -half_square);
  }
}

/// log of 0, negatives, infinity and NaN; `finite` otherwise.
template <class T>
Term with_log_specials(const Real<T>& r, Term x, Term finite) {
  const Term defined = select(x < r.infinity(), finite, x);  // infinity and NaN
  const Term at_zero = select(x == r(0), -r.infinity(), defined);
  return select(x < r(0), r.nan(), at_zero);
}

template <class T>
Term log_finite(const Real<T>& r, Term exponent, Term f, Term low) {
  const double high_part = Real<T>::kSingle ? 0x1.62e8p-1 : 0x1.62e42fefa4p-1;  // exact times any exponent
  const double low_part = Real<T>::kSingle ? -0x1.e8082ep-16 : -0x1.8432a1b0e2634p-43;
  const Pair sum = fast_two_sum(exponent * r(high_part), f);
  return sum.high + (sum.low + (fma(exponent, r(low_part), log_tail(r, f)) + low));
}

template <class T>
Term log2_finite(const Real<T>& r, Term exponent, Term f) {
  const double high = Real<T>::kSingle ? 0x1.715476p+0 : 0x1.71547652b82fep+0;  // 1 / ln 2
  const double low = Real<T>::kSingle ? 0x1.4ae0cp-26 : 0x1.777d0ffda0d24p-56;
  const Pair product = two_product(f, r(high));
  const Term tail = fma(log_tail(r, f), r(high), fma(f, r(low), product.low));
  const Pair sum = fast_two_sum(exponent, product.high);
  return sum.high + (sum.low + tail);
}

template <class T>
Term log1p_core(const Real<T>& r, Term x) {
  const Term sum = x + r(1);
  // What rounding x + 1 lost, exactly; of no weight once x is large.
  const Term lost = select(x < r(1), x - (sum - r(1)), r(1) - (sum - x));
  const auto [exponent, mantissa] = decompose(r, sum);
  const double large = Real<T>::kSingle ? 0x1p30 : 0x1p60;
  const Term shrink = r.power_of_two(-exponent);
  const Term f = mantissa - r(1);
  // log(m + c) = log(m) + c / m, with 1 / m = 1 - f + f^2 - f^3 to the few bits that c needs.
  const Term inverse = r.polynomial(f, {1, -1, 1, -1});
  const Term low = select(x < r(large), lost * shrink * inverse, r(0));
  const Term finite = with_log_specials(r, sum, log_finite(r, r.to_real(exponent), f, low));
  return select(abs(x) < r(Real<T>::kSingle ? 0x1p-26 : 0x1p-55), x, finite);
}

}  // namespace

template <class T>
Decomposed decompose(const Real<T>& r, Term x) {
  const int up = Real<T>::kMantissaBits + 1;
  const Term subnormal = x < r(static_cast<double>(std::numeric_limits<T>::min()));
  const Term normal = select(subnormal, x * r(static_cast<double>(uint64_t{1} << up)), x);
  // Counted from sqrt(1/2), the exponent field changes where the mantissa should wrap.
  const Term base = r.word_of(static_cast<T>(0x1.6a09e667f3bcdp-1));
  const Term offset = r.word(normal) - base;
  const Term exponent = shift_right(offset, Real<T>::kMantissaBits);
  const Term mantissa = r.real((offset & r.integer((int64_t{1} << Real<T>::kMantissaBits) - 1)) + base);
  const Term shifted = select(subnormal, exponent - r.integer(up), exponent);
  return {shifted, mantissa};
}

template Decomposed decompose(const Real<float>&, Term);
template Decomposed decompose(const Real<double>&, Term);

Scalar log2(ScalarBuilder& b, Scalar x) {
  return lower_float(
      "log2", b,
      [](auto r, Term t) {
        const auto [exponent, mantissa] = decompose(r, t);
        return with_log_specials(r, t, log2_finite(r, r.to_real(exponent), mantissa - r(1)));
      },
      x);
}
Scalar log(ScalarBuilder& b, Scalar x) {
  return lower_float(
      "log", b,
      [](auto r, Term t) {
        const auto [exponent, mantissa] = decompose(r, t);
        return with_log_specials(r, t, log_finite(r, r.to_real(exponent), mantissa - r(1), r(-0.0)));
      },
      x);
}
Scalar log1p(ScalarBuilder& b, Scalar x) {
  return lower_float("log1p", b, [](auto r, Term t) { return log1p_core(r, t); }, x);
}

}  // namespace luminal::math
