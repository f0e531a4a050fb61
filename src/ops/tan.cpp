#include <cmath>

#include "luminal/gradient.h"
#include "luminal/ops.h"
#include "luminal/scalar_math.h"
#include "ops/elementwise.h"

namespace luminal {

const OpDef kTan = {
    .name = "tan",
    .arity = 1,
    .traits = Trait::Elementwise,
    .infer = ops::same_types("tan", 1, ops::Takes::Floats),
    .elementwise = ops::precise_kernels<1>([](double x) { return std::tan(x); }),
    .gradient = [](Gradient& g) { g.to(0, g.upstream() * (g.output() * g.output() + 1)); },
    .lower = ops::lowering([](ScalarBuilder& b, Scalar x) { return math::tan(b, x); }),
    .flops_per_element = 40,
    .ulp = ops::function_ulp("tan"),
    .samples = {-ops::kInfinity, -1e5, -3.14159, -0.0, 0, 1e-10, 0.5, 1.5, 100, 1e20, ops::kInfinity,
                ops::kNaN},
    .doc = "Tangent of x in radians; NaN of an infinity.",
};

}  // namespace luminal
