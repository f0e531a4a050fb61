#include "luminal/gradient.h"
#include "luminal/ops.h"
#include "luminal/scalar_math.h"
#include "ops/elementwise.h"

namespace luminal {

const OpDef kRecip = {
    .name = "recip",
    .arity = 1,
    .traits = Trait::Elementwise,
    .infer = ops::same_types("recip", 1, ops::Takes::Floats),
    .elementwise = ops::kernels<ops::Takes::Floats, 1>([](auto x) { return 1 / x; }),
    .gradient = [](Gradient& g) { g.to(0, -(g.upstream() * g.output() * g.output())); },
    .lower = ops::lowering([](ScalarBuilder& b, Scalar x) { return math::reciprocal(b, x); }),
    .flops_per_element = 1,
    .ulp = 0.5,
    .samples = {-ops::kInfinity, -2, -1e-39, -0.0, 0, 1e-39, 0.3, 1, 1e39, ops::kInfinity, ops::kNaN},
    .doc = "1 / x, correctly rounded; an infinity of x's sign at 0.",
};

}  // namespace luminal
