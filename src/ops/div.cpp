#include "luminal/gradient.h"
#include "luminal/ops.h"
#include "ops/elementwise.h"

namespace luminal {

const OpDef kDiv = {
    .name = "div",
    .arity = 2,
    .traits = Trait::Elementwise,
    .infer = ops::same_types("div", 2, ops::Takes::Floats),
    .elementwise = ops::kernels<ops::Takes::Floats, 2>([](auto a, auto b) { return a / b; }),
    .gradient =
        [](Gradient& g) {
          const GraphTensor to_dividend = g.upstream() / g.input(1);
          if (g.wants(0)) g.to(0, to_dividend);
          if (g.wants(1)) g.to(1, -(to_dividend * g.output()));
        },
    .lower = ops::lowering([](ScalarBuilder& b, Scalar x, Scalar y) { return b.div(x, y); }),
    .ulp = 0.5,
    .samples = {-ops::kInfinity, -3, -1, -0.0, 0, 1e-39, 0.3, 1, 7, 1e200, ops::kInfinity, ops::kNaN},
    .doc = "a / b, correctly rounded; x / 0 is an infinity, 0 / 0 NaN. Integers: see int_div.",
};

}  // namespace luminal
