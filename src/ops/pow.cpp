#include <cmath>

#include "luminal/gradient.h"
#include "luminal/ops.h"
#include "luminal/scalar_math.h"
#include "ops/elementwise.h"

namespace luminal {
namespace {

/// d/dx = y * x^(y-1). For y = 0 that is 0 at every x, where the formula makes 0 * infinity at x = 0: there
/// the exponent is taken as 1, which stays right when the rule is differentiated again.
GraphTensor to_base(const Gradient& g) {
  const GraphTensor &x = g.input(0), &y = g.input(1);
  const GraphTensor x_nonzero = x.lt(0).logical_or(x.gt(0));
  const GraphTensor exponent = where(x_nonzero.logical_or(y.ne(0)), y, 1);
  return g.upstream() * y * x.pow(exponent - 1);
}

/// d/dy = x^y * log(x). For x = 0 and y >= 0 it is 0, as in PyTorch.
GraphTensor to_exponent(const Gradient& g) {
  const GraphTensor &x = g.input(0), &y = g.input(1);
  const GraphTensor limit = x.eq(0).logical_and(y.ge(0));
  return where(limit, 0, g.upstream() * g.output() * where(limit, 1, x).log());
}

}  // namespace

const OpDef kPow = {
    .name = "pow",
    .arity = 2,
    .traits = Trait::Elementwise,
    .infer = ops::same_types("pow", 2, ops::Takes::Floats),
    .elementwise = ops::precise_kernels<2>([](double x, double y) { return std::pow(x, y); }),
    .gradient =
        [](Gradient& g) {
          if (g.wants(0)) g.to(0, to_base(g));
          if (g.wants(1)) g.to(1, to_exponent(g));
        },
    .lower = ops::lowering([](ScalarBuilder& b, Scalar x, Scalar y) { return math::pow(b, x, y); }),
    .flops_per_element = 60,
    .ulp = ops::function_ulp("pow"),
    .samples = {-ops::kInfinity, -3, -2, -1, -0.5, -0.0, 0, 0.5, 1, 2, 3, 1e30, ops::kInfinity, ops::kNaN},
    .doc = "a raised to b, as C's pow: negative bases with integer exponents; pow(x, 0) = pow(1, y) = 1.",
};

}  // namespace luminal
