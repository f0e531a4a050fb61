#pragma once
#include <span>
#include <string_view>

#include "luminal/scalar.h"

/// Accurate elementary functions in scalar IR, written once for all targets: no branches, no tables that need
/// a gather, no f64 inside an f32 function.
///
///   ScalarBuilder b;
///   Scalar x = b.input(0, Dtype::F16);
///   Scalar y = math::exp2(b, x);  // f16 and bf16 are computed in f32 and rounded once
///
/// NaN, infinities, signed zeros and subnormals come out as C's Annex F says. Errors: DtypeError for a dtype
/// that is not a float. How far results may be off is in `math::functions()`.
namespace luminal::math {

[[nodiscard]] Scalar exp2(ScalarBuilder& b, Scalar x);
[[nodiscard]] Scalar exp(ScalarBuilder& b, Scalar x);
[[nodiscard]] Scalar expm1(ScalarBuilder& b, Scalar x);
[[nodiscard]] Scalar log2(ScalarBuilder& b, Scalar x);
[[nodiscard]] Scalar log(ScalarBuilder& b, Scalar x);
[[nodiscard]] Scalar log1p(ScalarBuilder& b, Scalar x);
/// Exact argument reduction for every finite x.
[[nodiscard]] Scalar sin(ScalarBuilder& b, Scalar x);
[[nodiscard]] Scalar cos(ScalarBuilder& b, Scalar x);
[[nodiscard]] Scalar tan(ScalarBuilder& b, Scalar x);
[[nodiscard]] Scalar tanh(ScalarBuilder& b, Scalar x);
[[nodiscard]] Scalar erf(ScalarBuilder& b, Scalar x);
/// C's pow: negative bases with integer exponents, pow(x, 0) = pow(1, y) = 1 even for NaN.
[[nodiscard]] Scalar pow(ScalarBuilder& b, Scalar x, Scalar y);
[[nodiscard]] Scalar sqrt(ScalarBuilder& b, Scalar x);
[[nodiscard]] Scalar rsqrt(ScalarBuilder& b, Scalar x);
[[nodiscard]] Scalar reciprocal(ScalarBuilder& b, Scalar x);

/// One function as tests, docs and error bounds see it.
struct Function {
  std::string_view name;
  int arity;
  /// Bound on the distance to the exact result, in units of the last place of the exact result's binade
  /// (that of the least normal number for subnormal results). The tests hold the functions to it.
  double ulp_f32, ulp_f64;
  Scalar (*lower)(ScalarBuilder&, std::span<const Scalar>);
};
[[nodiscard]] std::span<const Function> functions();

}  // namespace luminal::math
