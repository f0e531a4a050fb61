// tanh by way of expm1: accurate near 0, and 1 - 2 / (e^2x + 1) tends to 1 without cancellation.
#include "luminal/scalar_math.h"
#include "scalar/math/cores.h"

namespace luminal::math {
namespace {

template <class T>
Term tanh_core(const Real<T>& r, Term x) {
  const Term magnitude = abs(x);
  const Term limit = r(Real<T>::kSingle ? 10 : 20);  // tanh rounds to 1 before
  const Term doubled = select(magnitude > limit, limit, magnitude) * r(2);
  const Term t = expm1_core(r, doubled);
  return r.with_sign(abs(t / (t + r(2))), x);
}

}  // namespace

Scalar tanh(ScalarBuilder& b, Scalar x) {
  return lower_float("tanh", b, [](auto r, Term t) { return tanh_core(r, t); }, x);
}

}  // namespace luminal::math
