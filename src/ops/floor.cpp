#include <cmath>

#include "luminal/ops.h"
#include "ops/elementwise.h"

namespace luminal {

const OpDef kFloor = {
    .name = "floor",
    .arity = 1,
    .traits = Trait::Elementwise | Trait::Monotone | Trait::ZeroGradient,
    .infer = ops::same_types("floor", 1, ops::Takes::Floats),
    .elementwise = ops::kernels<ops::Takes::Floats, 1>([](auto x) { return std::floor(x); }),
    .lower = ops::lowering([](ScalarBuilder& b, Scalar x) { return b.floor(x); }),
    .samples = {-ops::kInfinity, -1e20, -1.5, -1, -0.5, -0.0, 0, 0.5, 1.999999, 3, 1e20, ops::kInfinity,
                ops::kNaN},
    .doc = "The largest integer not above x; keeps infinities and the sign of zero.",
};

}  // namespace luminal
