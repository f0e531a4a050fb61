#include <cmath>

#include "luminal/gradient.h"
#include "luminal/ops.h"
#include "luminal/scalar_math.h"
#include "ops/elementwise.h"

namespace luminal {

const OpDef kLog = {
    .name = "log",
    .arity = 1,
    .traits = Trait::Elementwise | Trait::Monotone,
    .infer = ops::same_types("log", 1, ops::Takes::Floats),
    .elementwise = ops::precise_kernels<1>([](double x) { return std::log(x); }),
    .gradient = [](Gradient& g) { g.to(0, g.upstream() / g.input(0)); },
    .lower = ops::lowering([](ScalarBuilder& b, Scalar x) { return math::log(b, x); }),
    .flops_per_element = 20,
    .ulp = ops::function_ulp("log"),
    .samples = {-ops::kInfinity, -1, -0.0, 0, 1e-40, 0.5, 1, 1.0001, 2, 1e30, ops::kInfinity, ops::kNaN},
    .doc = "Natural logarithm; minus infinity at 0, NaN below.",
};

}  // namespace luminal
