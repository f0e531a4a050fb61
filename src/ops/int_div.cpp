#include "luminal/ops.h"
#include "ops/elementwise.h"

namespace luminal {

const OpDef kIntDiv = {
    .name = "int_div",
    .arity = 2,
    .traits = Trait::Elementwise | Trait::ZeroGradient,
    .infer = ops::same_types("int_div", 2, ops::Takes::Integers),
    .elementwise =
        ops::kernels<ops::Takes::Integers, 2>([](auto a, auto b) { return ops::floor_quotient(a, b); }),
    .lower = ops::lowering([](ScalarBuilder& b, Scalar x, Scalar y) { return b.floor_div(x, y); }),
    .flops_per_element = 1,
    .samples = {-128, -7, -2, -1, 0, 1, 2, 3, 127},
    .doc = "Integer quotient rounded down; x / 0 is 0.",
};

}  // namespace luminal
