#include <cmath>

#include "luminal/gradient.h"
#include "luminal/ops.h"
#include "ops/elementwise.h"

namespace luminal {

extern const OpDef kSoftsign;

const OpDef kSoftsign = {
    .name = "softsign",
    .arity = 1,
    .traits = Trait::Elementwise | Trait::Monotone,
    .infer = ops::same_types("softsign", 1, ops::Takes::Floats),
    .elementwise = ops::precise_kernels<1>([](double x) { return x / (1 + std::fabs(x)); }),
    .gradient =
        [](Gradient& g) {
          const GraphTensor slope = 1 - g.output().abs();
          g.to(0, g.upstream() * slope * slope);
        },
    .lower = ops::widened_lowering([](ScalarBuilder& b, Scalar x) {
      const Scalar one = b.constant(b.dtype(x), 1);
      return b.div(x, b.add(one, b.abs(x)));
    }),
    .flops_per_element = 3,
    .ulp = 1.5,
    .samples = {-1e30, -2, -1, -0.0, 0, 1e-10, 0.5, 3, ops::kNaN},
    .doc = "x / (1 + |x|): a sigmoid with slow tails.",
};

}  // namespace luminal
