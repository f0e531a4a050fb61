#include <cmath>
#include <numbers>

#include "luminal/gradient.h"
#include "luminal/ops.h"
#include "luminal/scalar_math.h"
#include "ops/elementwise.h"

namespace luminal {

const OpDef kErf = {
    .name = "erf",
    .arity = 1,
    .traits = Trait::Elementwise | Trait::Monotone,
    .infer = ops::same_types("erf", 1, ops::Takes::Floats),
    .elementwise = ops::precise_kernels<1>([](double x) { return std::erf(x); }),
    .gradient =
        [](Gradient& g) {
          const GraphTensor& x = g.input(0);
          g.to(0, g.upstream() * (-(x * x)).exp() * (2 * std::numbers::inv_sqrtpi));
        },
    .lower = ops::lowering([](ScalarBuilder& b, Scalar x) { return math::erf(b, x); }),
    .flops_per_element = 30,
    .ulp = ops::function_ulp("erf"),
    .samples = {-ops::kInfinity, -6, -1, -1e-10, -0.0, 0, 1e-10, 0.5, 3, 6, ops::kInfinity, ops::kNaN},
    .doc = "Error function: 2/sqrt(pi) times the integral of exp(-t*t) from 0 to x.",
};

}  // namespace luminal
