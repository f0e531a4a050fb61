#include <cmath>

#include "luminal/gradient.h"
#include "luminal/ops.h"
#include "luminal/scalar_math.h"
#include "ops/elementwise.h"

namespace luminal {

const OpDef kTanh = {
    .name = "tanh",
    .arity = 1,
    .traits = Trait::Elementwise | Trait::Monotone,
    .infer = ops::same_types("tanh", 1, ops::Takes::Floats),
    .elementwise = ops::precise_kernels<1>([](double x) { return std::tanh(x); }),
    .gradient = [](Gradient& g) { g.to(0, g.upstream() * (1 - g.output() * g.output())); },
    .lower = ops::lowering([](ScalarBuilder& b, Scalar x) { return math::tanh(b, x); }),
    .flops_per_element = 25,
    .ulp = ops::function_ulp("tanh"),
    .samples = {-ops::kInfinity, -20, -1, -1e-10, -0.0, 0, 1e-10, 0.5, 3, 20, ops::kInfinity, ops::kNaN},
    .doc = "Hyperbolic tangent.",
};

}  // namespace luminal
