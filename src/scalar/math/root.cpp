// Functions that the hardware's correctly rounded square root and division give.
#include "luminal/scalar_math.h"
#include "scalar/math/cores.h"

namespace luminal::math {

Scalar sqrt(ScalarBuilder& b, Scalar x) {
  return lower_float("sqrt", b, [](auto, Term t) { return root(t); }, x);
}
Scalar rsqrt(ScalarBuilder& b, Scalar x) {
  return lower_float("rsqrt", b, [](auto r, Term t) { return r(1) / root(t); }, x);
}
Scalar reciprocal(ScalarBuilder& b, Scalar x) {
  return lower_float("reciprocal", b, [](auto r, Term t) { return r(1) / t; }, x);
}

}  // namespace luminal::math
