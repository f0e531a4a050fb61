#include <cmath>

#include "luminal/gradient.h"
#include "luminal/ops.h"
#include "luminal/scalar_math.h"
#include "ops/elementwise.h"

namespace luminal {

const OpDef kCos = {
    .name = "cos",
    .arity = 1,
    .traits = Trait::Elementwise,
    .infer = ops::same_types("cos", 1, ops::Takes::Floats),
    .elementwise = ops::precise_kernels<1>([](double x) { return std::cos(x); }),
    .gradient = [](Gradient& g) { g.to(0, -(g.upstream() * g.input(0).sin())); },
    .lower = ops::lowering([](ScalarBuilder& b, Scalar x) { return math::cos(b, x); }),
    .flops_per_element = 30,
    .ulp = ops::function_ulp("cos"),
    .samples = {-ops::kInfinity, -1e5, -3.14159, -0.0, 0, 1e-10, 0.5, 1.5707963, 100, 1e20, ops::kInfinity,
                ops::kNaN},
    .doc = "Cosine of x in radians; NaN of an infinity.",
};

}  // namespace luminal
