#include <cmath>

#include "luminal/gradient.h"
#include "luminal/ops.h"
#include "luminal/scalar_math.h"
#include "ops/elementwise.h"

namespace luminal {

const OpDef kExpm1 = {
    .name = "expm1",
    .arity = 1,
    .traits = Trait::Elementwise | Trait::Monotone,
    .infer = ops::same_types("expm1", 1, ops::Takes::Floats),
    .elementwise = ops::precise_kernels<1>([](double x) { return std::expm1(x); }),
    .gradient = [](Gradient& g) { g.to(0, g.upstream() * (g.output() + 1)); },
    .lower = ops::lowering([](ScalarBuilder& b, Scalar x) { return math::expm1(b, x); }),
    .flops_per_element = 25,
    .ulp = ops::function_ulp("expm1"),
    .samples = {-ops::kInfinity, -800, -1, -1e-10, -0.0, 0, 1e-10, 0.5, 88, 800, ops::kInfinity, ops::kNaN},
    .doc = "exp(x) - 1, accurate near 0.",
};

}  // namespace luminal
