// exp2, exp, expm1: x = n + f (or n ln 2 + f) with n an integer, a minimax polynomial in f, and a scaling by
// 2^n. The reduction is Cody and Waite's (1980); the coefficients were computed with Sollya's fpminimax.
#include "luminal/scalar_math.h"
#include "scalar/math/cores.h"

namespace luminal::math {
namespace {

/// NaN passes.
Term clamp(Term x, Term low, Term high) {
  const Term above = select(x < low, low, x);
  return select(above > high, high, above);
}

struct ReducedExponent {
  Term n;  ///< integer word
  Pair f;  ///< e^x = 2^n * e^f, |f| <= ln(2) / 2 and a bit
};

/// x - n ln 2 with ln 2 in two parts; n times the first is exact.
template <class T>
ReducedExponent reduce_natural(const Real<T>& r, Term x) {
  const auto n = r.round(x * r(0x1.71547652b82fep+0));
  const double high = Real<T>::kSingle ? 0x1.62e8p-1 : 0x1.62e42fefa4p-1;
  const double low = Real<T>::kSingle ? 0x1.e8082ep-16 : 0x1.8432a1b0e2634p-43;  // of -ln 2
  const Term exact = fma(n.real, r(-high), x);
  const Term f = fma(n.real, r(low), exact);
  return {n.word, {f, fma(n.real, r(low), exact - f)}};
}

/// (e^f - 1 - f) / f^2 on |f| <= 0.3466; errors relative to e^f: 2^-31 and 2^-61.
template <class T>
Term exp_tail(const Real<T>& r, Term f) {
  if constexpr (Real<T>::kSingle)
    return r.polynomial(
        f, {0x1p-1, 0x1.555556p-3, 0x1.555502p-5, 0x1.110fc2p-7, 0x1.6d2e04p-10, 0x1.a2d99ep-13});
  else
    return r.polynomial(
        f, {0x1p-1, 0x1.5555555555557p-3, 0x1.5555555555557p-5, 0x1.1111111110051p-7, 0x1.6c16c16c156a5p-10,
            0x1.a01a01ac1dc6cp-13, 0x1.a01a01ab9879dp-16, 0x1.71de01adc10d6p-19, 0x1.27e4cfaf3f1e1p-22,
            0x1.af4ec8740b0b4p-26, 0x1.1f86f02e50c02p-29});
}

/// 2^f on |f| <= 0.5; relative errors 2^-28 and 2^-57.
template <class T>
Term exp2_polynomial(const Real<T>& r, Term f) {
  if constexpr (Real<T>::kSingle)
    return r.polynomial(
        f, {1, 0x1.62e43p-1, 0x1.ebfbd8p-3, 0x1.c6af78p-5, 0x1.3b30bp-7, 0x1.5f0a66p-10, 0x1.3f9068p-13});
  else
    return r.polynomial(
        f, {1, 0x1.62e42fefa39efp-1, 0x1.ebfbdff82c5a5p-3, 0x1.c6b08d704a124p-5, 0x1.3b2ab6fb9ffafp-7,
            0x1.5d87fe78a08fdp-10, 0x1.4309130f14ca6p-13, 0x1.ffcbfc5c18559p-17, 0x1.62bfc71b3397fp-20,
            0x1.b525395b42f4fp-24, 0x1.e61c16c1056fp-28, 0x1.e9506e7458f2ep-32});
}

}  // namespace

// Far below, where both halves of 2^n are 0, nothing underflows: a mask of minus infinities has many such x, and
// processors of Intel take some 150 cycles for a product that underflows.

template <class T>
Term exp2_core(const Real<T>& r, Term x, Term low) {
  const Term limited = Real<T>::kSingle ? clamp(x, r(-254), r(130)) : clamp(x, r(-2046), r(1026));
  const auto n = r.round(limited);
  return scale(r, exp2_polynomial(r, limited - n.real + low), n.word);
}

template <class T>
Term exp_core(const Real<T>& r, Term x, Term low) {
  const Term limited = Real<T>::kSingle ? clamp(x, r(-176), r(90)) : clamp(x, r(-1418), r(711));
  const auto [n, f] = reduce_natural(r, limited);
  return scale(r, fma(f.high * f.high, exp_tail(r, f.high), f.high + low) + r(1), n);
}

// 2^n (e^f - 1) + (2^n - 1), in halves so that 2^n stays finite; the sum of the two largest parts is kept
// exact.
template <class T>
Term expm1_core(const Real<T>& r, Term x) {
  const Term limited = Real<T>::kSingle ? clamp(x, r(-30), r(89)) : clamp(x, r(-60), r(710));
  const auto [n, f] = reduce_natural(r, limited);
  const Term half_power = r.power_of_two(n - r.integer(1));
  const Pair sum = fast_two_sum(half_power - r(0.5), half_power * f.high);
  const Term tail = fma(half_power, fma(f.high * f.high, exp_tail(r, f.high), f.low), sum.low);
  const Term tiny = abs(x) < r(Real<T>::kSingle ? 0x1p-26 : 0x1p-55);  // x itself, with its sign
  return select(tiny, x, (sum.high + tail) * r(2));
}

template Term exp_core(const Real<float>&, Term, Term);
template Term exp_core(const Real<double>&, Term, Term);
template Term exp2_core(const Real<float>&, Term, Term);
template Term exp2_core(const Real<double>&, Term, Term);
template Term expm1_core(const Real<float>&, Term);
template Term expm1_core(const Real<double>&, Term);

Scalar exp2(ScalarBuilder& b, Scalar x) {
  return lower_float("exp2", b, [](auto r, Term t) { return exp2_core(r, t, r(-0.0)); }, x);
}
Scalar exp(ScalarBuilder& b, Scalar x) {
  return lower_float("exp", b, [](auto r, Term t) { return exp_core(r, t, r(-0.0)); }, x);
}
Scalar expm1(ScalarBuilder& b, Scalar x) {
  return lower_float("expm1", b, [](auto r, Term t) { return expm1_core(r, t); }, x);
}

}  // namespace luminal::math
