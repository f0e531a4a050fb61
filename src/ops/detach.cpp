#include "luminal/ops.h"
#include "ops/elementwise.h"

namespace luminal {

const OpDef kDetach = {
    .name = "detach",
    .arity = 1,
    .traits = Trait::Elementwise | Trait::Monotone | Trait::ZeroGradient,
    .infer = ops::same_types("detach", 1, ops::Takes::All),
    .elementwise = ops::copy_kernels(),
    .lower = ops::lowering([](ScalarBuilder&, Scalar x) { return x; }),
    .flops_per_element = 0,
    .samples = {-ops::kInfinity, -1, -0.0, 0, 0.5, ops::kInfinity, ops::kNaN},
    .doc = "The value itself, through which no gradient flows.",
};

}  // namespace luminal
