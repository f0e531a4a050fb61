#include <cmath>

#include "luminal/gradient.h"
#include "luminal/ops.h"
#include "luminal/scalar_math.h"
#include "ops/elementwise.h"

namespace luminal {

const OpDef kSqrt = {
    .name = "sqrt",
    .arity = 1,
    .traits = Trait::Elementwise | Trait::Monotone,
    .infer = ops::same_types("sqrt", 1, ops::Takes::Floats),
    .elementwise = ops::kernels<ops::Takes::Floats, 1>([](auto x) { return std::sqrt(x); }),
    .gradient = [](Gradient& g) { g.to(0, g.upstream() / (g.output() * 2)); },
    .lower = ops::lowering([](ScalarBuilder& b, Scalar x) { return math::sqrt(b, x); }),
    .flops_per_element = 1,
    .ulp = 0.5,
    .samples = {-ops::kInfinity, -1, -0.0, 0, 1e-39, 0.3, 2, 9, 1e30, ops::kInfinity, ops::kNaN},
    .doc = "Square root, correctly rounded; NaN below 0.",
};

}  // namespace luminal
