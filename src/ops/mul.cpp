#include "luminal/gradient.h"
#include "luminal/ops.h"
#include "ops/elementwise.h"

namespace luminal {

const OpDef kMul = {
    .name = "mul",
    .arity = 2,
    .traits = Trait::Elementwise | Trait::Commutative | Trait::Associative,
    .infer = ops::same_types("mul", 2, ops::Takes::Numbers),
    .elementwise = ops::kernels<ops::Takes::Numbers, 2>([](auto a, auto b) { return ops::multiply(a, b); }),
    .gradient =
        [](Gradient& g) {
          if (g.wants(0)) g.to(0, g.upstream() * g.input(1));
          if (g.wants(1)) g.to(1, g.upstream() * g.input(0));
        },
    .lower = ops::lowering([](ScalarBuilder& b, Scalar x, Scalar y) { return b.mul(x, y); }),
    .ulp = 0.5,
    .samples = {-ops::kInfinity, -128, -1, -0.0, 0, 0.5, 1, 127, 1e200, ops::kInfinity, ops::kNaN},
    .doc = "a * b; integers wrap.",
};

}  // namespace luminal
