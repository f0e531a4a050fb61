#include "luminal/gradient.h"
#include "luminal/ops.h"
#include "ops/elementwise.h"

namespace luminal {

const OpDef kAdd = {
    .name = "add",
    .arity = 2,
    .traits = Trait::Elementwise | Trait::Commutative | Trait::Associative | Trait::Monotone,
    .infer = ops::same_types("add", 2, ops::Takes::Numbers),
    .elementwise = ops::kernels<ops::Takes::Numbers, 2>([](auto a, auto b) { return ops::add(a, b); }),
    .gradient =
        [](Gradient& g) {
          g.to(0, g.upstream());
          g.to(1, g.upstream());
        },
    .lower = ops::lowering([](ScalarBuilder& b, Scalar x, Scalar y) { return b.add(x, y); }),
    .ulp = 0.5,
    .samples = {-ops::kInfinity, -128, -1, -0.0, 0, 0.5, 1, 127, 1e300, ops::kInfinity, ops::kNaN},
    .doc = "a + b; integers wrap.",
};

}  // namespace luminal
