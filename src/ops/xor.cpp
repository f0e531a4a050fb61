#include "luminal/ops.h"
#include "ops/elementwise.h"

namespace luminal {

const OpDef kXor = {
    .name = "xor",
    .arity = 2,
    .traits = Trait::Elementwise | Trait::Commutative | Trait::Associative | Trait::ZeroGradient,
    .infer = ops::same_types("xor", 2, ops::Takes::Bits),
    .elementwise = ops::kernels<ops::Takes::Bits, 2>([](auto a, auto b) { return a ^ b; }),
    .lower = ops::lowering([](ScalarBuilder& b, Scalar x, Scalar y) { return b.bit_xor(x, y); }),
    .samples = {-128, -1, 0, 1, 2, 85, 127},
    .doc = "Bits set in exactly one of a and b; on bool the logical operation.",
};

}  // namespace luminal
