#include <cmath>

#include "luminal/gradient.h"
#include "luminal/ops.h"
#include "luminal/scalar_math.h"
#include "ops/elementwise.h"

namespace luminal {

const OpDef kExp = {
    .name = "exp",
    .arity = 1,
    .traits = Trait::Elementwise | Trait::Monotone,
    .infer = ops::same_types("exp", 1, ops::Takes::Floats),
    .elementwise = ops::precise_kernels<1>([](double x) { return std::exp(x); }),
    .gradient = [](Gradient& g) { g.to(0, g.upstream() * g.output()); },
    .lower = ops::lowering([](ScalarBuilder& b, Scalar x) { return math::exp(b, x); }),
    .flops_per_element = 20,
    .ulp = ops::function_ulp("exp"),
    .samples = {-ops::kInfinity, -800, -87.5, -1, -0.0, 0, 0.5, 1, 88, 800, ops::kInfinity, ops::kNaN},
    .doc = "e raised to x.",
};

}  // namespace luminal
