#include <cmath>

#include "luminal/gradient.h"
#include "luminal/ops.h"
#include "luminal/scalar_math.h"
#include "ops/elementwise.h"

namespace luminal {

const OpDef kLog1p = {
    .name = "log1p",
    .arity = 1,
    .traits = Trait::Elementwise | Trait::Monotone,
    .infer = ops::same_types("log1p", 1, ops::Takes::Floats),
    .elementwise = ops::precise_kernels<1>([](double x) { return std::log1p(x); }),
    .gradient = [](Gradient& g) { g.to(0, g.upstream() / (g.input(0) + 1)); },
    .lower = ops::lowering([](ScalarBuilder& b, Scalar x) { return math::log1p(b, x); }),
    .flops_per_element = 25,
    .ulp = ops::function_ulp("log1p"),
    .samples = {-ops::kInfinity, -2, -1, -0.5, -1e-10, -0.0, 0, 1e-10, 1, 1e30, ops::kInfinity, ops::kNaN},
    .doc = "log(1 + x), accurate near 0.",
};

}  // namespace luminal
