#include <cmath>
#include <numbers>

#include "luminal/gradient.h"
#include "luminal/ops.h"
#include "luminal/scalar_math.h"
#include "ops/elementwise.h"

namespace luminal {

const OpDef kExp2 = {
    .name = "exp2",
    .arity = 1,
    .traits = Trait::Elementwise | Trait::Monotone,
    .infer = ops::same_types("exp2", 1, ops::Takes::Floats),
    .elementwise = ops::precise_kernels<1>([](double x) { return std::exp2(x); }),
    .gradient = [](Gradient& g) { g.to(0, g.upstream() * g.output() * std::numbers::ln2); },
    .lower = ops::lowering([](ScalarBuilder& b, Scalar x) { return math::exp2(b, x); }),
    .flops_per_element = 20,
    .ulp = ops::function_ulp("exp2"),
    .samples = {-ops::kInfinity, -1100, -126.5, -1, -0.0, 0, 0.5, 1, 127, 1100, ops::kInfinity, ops::kNaN},
    .doc = "2 raised to x.",
};

}  // namespace luminal
