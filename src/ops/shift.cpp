#include "luminal/ops.h"
#include "ops/elementwise.h"

namespace luminal {
namespace {

template <std::integral T>
T shifted(T a, T amount) {
  constexpr int kWidth = 8 * sizeof(T);
  if (amount >= 0) {
    return static_cast<std::make_unsigned_t<T>>(amount) < kWidth
               ? static_cast<T>(static_cast<ops::Wide<T>>(a) << amount)
               : T{0};
  }
  if constexpr (std::is_signed_v<T>)
    return static_cast<T>(amount > -kWidth ? a >> -static_cast<int>(amount) : a >> (kWidth - 1));
  else
    return a;  // unreachable: an unsigned amount is never negative
}

Scalar lower_shift(ScalarBuilder& b, Scalar a, Scalar amount) {
  const Dtype dtype = b.dtype(a);
  const Scalar left = b.shift_left(a, amount);
  if (!is_signed(dtype)) return left;
  // The negation of the least integer is itself, which shifts by "at least the width", as it should.
  const Scalar right = b.shift_right_arithmetic(a, b.neg(amount));
  return b.select(b.lt(amount, b.constant(dtype, 0)), right, left);
}

}  // namespace

const OpDef kShift = {
    .name = "shift",
    .arity = 2,
    .traits = Trait::Elementwise | Trait::ZeroGradient,
    .infer = ops::same_types("shift", 2, ops::Takes::Integers),
    .elementwise = ops::kernels<ops::Takes::Integers, 2>([](auto a, auto b) { return shifted(a, b); }),
    .lower = ops::lowering(lower_shift),
    .flops_per_element = 5,
    .samples = {-128, -64, -33, -32, -8, -7, -1, 0, 1, 7, 8, 31, 32, 63, 64, 127},
    .doc =
        "a moved left by b > 0 bits, right by -b bits if b < 0, filling with the sign; amounts of the width "
        "and more move everything out.",
};

}  // namespace luminal
