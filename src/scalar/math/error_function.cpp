// erf: x + x P(x^2) up to 1, from there 1 - erfc(x). In float erfc is 2^-Q(x); in double it is e^(-x^2) / (1
// + 2x) times a polynomial in (x - 3) / (x + 3), as Shepherd and Laframboise (1981) do. Coefficients from
// Sollya and a weighted fit at Chebyshev nodes.
#include "luminal/scalar_math.h"
#include "scalar/math/cores.h"

namespace luminal::math {
namespace {

/// erf(x) / x - 1 for z = x^2 <= 1; relative errors of erf 2^-29 and 2^-56.
template <class T>
Term erf_tail(const Real<T>& r, Term z) {
  if constexpr (Real<T>::kSingle)
    return r.polynomial(z, {0x1.06eba8p-3, -0x1.81274p-2, 0x1.ce2d52p-4, -0x1.b7fec4p-6, 0x1.542fecp-8,
                            -0x1.a5197ap-11, 0x1.4c5cb4p-14});
  else
    return r.polynomial(
        z, {0x1.06eba8214db69p-3, -0x1.812746b0379fdp-2, 0x1.ce2f21a04362dp-4, -0x1.b82ce312abf08p-6,
            0x1.565bcd12991cp-8, -0x1.c02db49b09506p-11, 0x1.f9a335388d2f5p-14, -0x1.f4d333884b5c7p-17,
            0x1.b9ee95850f651p-20, -0x1.5f9828c55cc92p-23, 0x1.fc78cbcce41e3p-27, -0x1.46794feaba6f6p-30,
            0x1.29783040ef603p-34});
}

/// erfc(t) for t in [1, 3.95], absolute error 2^-29.
Term erfc_large(const Real<float>& r, Term t) {
  const Term logarithm = r.polynomial(t, {0x1.736c7cp-12, 0x1.a068d6p+0, 0x1.d6e8a8p-1, 0x1.3239b4p-3,
                                          -0x1.05125cp-5, 0x1.1c8bd6p-8, -0x1.2351f6p-12});
  return exp2_core(r, -logarithm, r(-0.0));
}

/// erfc(t) for t in [1, 5.95], absolute error 2^-63 and rounding.
Term erfc_large(const Real<double>& r, Term t) {
  const Term w = (t - r(3)) / (t + r(3));
  const Term scaled = r.polynomial(
      w, {0x1.40c522d7e4991p+0, -0x1.15c084bb9e789p-3, -0x1.85a15c591d573p-5, 0x1.098366a2e033cp-3,
          -0x1.e88b8068e0703p-4, 0x1.17ca28d339bf6p-4, -0x1.857476fba89eep-6, 0x1.4b9edf63c84dbp-9,
          0x1.f009283664cfbp-10, -0x1.928ad91701762p-11, -0x1.4563c6eaa4a1dp-14, 0x1.5e9c59640af1fp-13,
          0x1.7bcb41286d185p-15});
  const Pair square = two_product(t, t);
  return exp_core(r, -square.high, -square.low) * scaled / fma(t, r(2), r(1));
}

template <class T>
Term erf_core(const Real<T>& r, Term x) {
  const Term magnitude = abs(x);
  const Term limit = r(Real<T>::kSingle ? 3.95 : 5.95);  // erf rounds to 1 before
  const Term large = r(1) - erfc_large(r, select(magnitude > limit, limit, magnitude));
  const Term small = fma(x, erf_tail(r, x * x), x);
  return select(magnitude < r(1), small, r.with_sign(abs(large), x));
}

}  // namespace

Scalar erf(ScalarBuilder& b, Scalar x) {
  return lower_float("erf", b, [](auto r, Term t) { return erf_core(r, t); }, x);
}

}  // namespace luminal::math
