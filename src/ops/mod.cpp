#include <cmath>

#include "luminal/gradient.h"
#include "luminal/ops.h"
#include "ops/elementwise.h"

namespace luminal {
namespace {

template <class T>
T floor_remainder(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return 0;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;  // least % -1 would trap
    const T rest = static_cast<T>(a % b);
    return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
  } else {
    const T rest = std::fmod(a, b);
    if (rest == 0) return std::copysign(rest, b);
    return (rest < 0) != (b < 0) ? rest + b : rest;
  }
}

}  // namespace

const OpDef kMod = {
    .name = "mod",
    .arity = 2,
    .traits = Trait::Elementwise,
    .infer = ops::same_types("mod", 2, ops::Takes::Numbers),
    .elementwise = ops::kernels<ops::Takes::Numbers, 2>([](auto a, auto b) { return floor_remainder(a, b); }),
    .gradient =
        [](Gradient& g) {
          if (g.wants(0)) g.to(0, g.upstream());
          if (g.wants(1)) g.to(1, -(g.upstream() * g.input(0).floor_div(g.input(1))));
        },
    .lower = ops::lowering([](ScalarBuilder& b, Scalar x, Scalar y) { return b.floor_mod(x, y); }),
    .flops_per_element = 6,
    .ulp = 0.5,
    .samples = {-ops::kInfinity, -128, -7.5, -2, -1, -0.0, 0, 0.5, 1, 3, 127, ops::kInfinity, ops::kNaN},
    .doc = "a - b * floor(a / b): the remainder with the divisor's sign. x mod 0 is NaN, for integers 0.",
};

}  // namespace luminal
