#include "luminal/ops.h"
#include "ops/elementwise.h"

namespace luminal {

const OpDef kLessThan = {
    .name = "less_than",
    .arity = 2,
    .traits = Trait::Elementwise | Trait::ZeroGradient,
    .infer = ops::comparison_types("less_than", ops::Takes::All),
    .elementwise = ops::comparison_kernels<ops::Takes::All>([](auto a, auto b) { return a < b; }),
    .lower = ops::lowering([](ScalarBuilder& b, Scalar x, Scalar y) { return b.lt(x, y); }),
    .samples = {-ops::kInfinity, -128, -1, -0.0, 0, 0.5, 1, 127, ops::kInfinity, ops::kNaN},
    .doc = "Whether a < b; false if either is NaN.",
};

}  // namespace luminal
