#include <cmath>
#include <numbers>

#include "base/suggest.h"
#include "ops/composite/build.h"

// Activations. Each formula is chosen so that value and gradient stay finite wherever the mathematical ones
// are: a branch that is not taken must not overflow, since 0 * inf in its gradient would be NaN.
namespace luminal {

using namespace composite;

namespace {

/// -|x|, with slope 1 below 0 and -1 from 0 on.
GraphTensor minus_magnitude(const GraphTensor& x, const GraphTensor& negative) {
  return select(negative, x, negated(x));
}

/// `formula` on floats of at least f32's precision; the result has x's own dtype.
template <class Formula>
GraphTensor widely(const GraphTensor& x, Formula formula) {
  return formula(widened(x)).cast(floating_dtype(x.dtype()));
}

/// x where it is negative, else 0.
GraphTensor negative_part(const GraphTensor& x) { return select(less(0, x), scalar(x, 0), x); }

}  // namespace

GraphTensor GraphTensor::relu(Where at) const {
  const CallSite site("relu", at);
  const GraphTensor x = numeric(*this);
  return greater_of(scalar(x, 0), x, Ties::First);  // the gradient at 0 is 0
}

GraphTensor GraphTensor::sigmoid(Where at) const {
  const CallSite site("sigmoid", at);
  return widely(*this, [](const GraphTensor& x) {
    const GraphTensor negative = less(x, 0);
    const GraphTensor e = minus_magnitude(x, negative).exp();  // in (0, 1]
    return select(negative, e, scalar(x, 1)) * (e + 1).reciprocal();
  });
}

GraphTensor GraphTensor::silu(Where at) const {
  const CallSite site("silu", at);
  return widely(*this, [](const GraphTensor& x) { return x * x.sigmoid(); });
}

GraphTensor GraphTensor::swish(Where at) const {
  const CallSite site("swish", at);
  return silu();
}

GraphTensor GraphTensor::softplus(double beta, double threshold, Where at) const {
  const CallSite site("softplus", at);
  if (!(beta > 0)) reject<Error>("beta is {}; give a number above 0", beta);
  return widely(*this, [=](const GraphTensor& x) {
    const GraphTensor scaled = beta == 1 ? x : x * beta;
    const GraphTensor negative = less(scaled, 0);
    const GraphTensor linear = select(negative, scalar(x, 0), scaled);
    const GraphTensor curve = minus_magnitude(scaled, negative).exp().log1p() + linear;
    return select(less(threshold, scaled), x, beta == 1 ? curve : curve / beta);
  });
}

GraphTensor GraphTensor::mish(Where at) const {
  const CallSite site("mish", at);
  return widely(*this, [](const GraphTensor& x) { return x * x.softplus().tanh(); });
}

// Flat below -3 and straight from 3 on, slopes at these points included, as in PyTorch.
GraphTensor GraphTensor::hard_swish(Where at) const {
  const CallSite site("hard_swish", at);
  return widely(*this, [](const GraphTensor& x) {
    const GraphTensor bend = select(less(-3, x), x * (x + 3) / 6, scalar(x, 0));
    return select(less(x, 3), bend, x);
  });
}

GraphTensor GraphTensor::leaky_relu(double negative_slope, Where at) const {
  const CallSite site("leaky_relu", at);
  const GraphTensor x = floating(*this);
  return select(less(0, x), x, x * negative_slope);
}

GraphTensor GraphTensor::elu(double alpha, Where at) const {
  const CallSite site("elu", at);
  return widely(
      *this, [=](const GraphTensor& x) { return select(less(0, x), x, negative_part(x).expm1() * alpha); });
}

GraphTensor GraphTensor::prelu(const Operand& weight) const {
  const CallSite site("prelu", weight.where);
  auto [x, slope] = promoted(Operand(*this), weight, Promotion::Floating);
  if (slope.rank() == 1 && x.rank() > 1 && slope.dims()[0] != Expression(1)) {
    if (!Expression::known_equal(slope.dims()[0], x.dims()[1]))
      reject("{} slopes for {} channels (axis 1 of {}); give one slope, or one for each channel",
             slope.dims()[0].to_string(), x.dims()[1].to_string(), x.type().to_string());
    for (int axis = 2; axis < x.rank(); ++axis) slope = slope.unsqueeze(slope.rank());
  }
  return select(less(0, x), x, x * slope);
}

GraphTensor GraphTensor::gelu(std::string_view approximate, Where at) const {
  const CallSite site("gelu", at);
  if (approximate == "none")
    return widely(*this,
                  [](const GraphTensor& x) { return x * 0.5 * ((x * (1 / std::numbers::sqrt2)).erf() + 1); });
  if (approximate == "tanh")
    return widely(*this, [scale = std::sqrt(2 / std::numbers::pi)](const GraphTensor& x) {
      return x * 0.5 * (((x + x * x * x * 0.044715) * scale).tanh() + 1);
    });
  const std::vector<std::string> names = {"none", "tanh"};
  reject<Error>("approximate is '{}'; choose 'none' (erf) or 'tanh'{}", approximate,
                did_you_mean(approximate, names));
}

// --- Rows

namespace {

/// x minus its maximum over the axes. The result does not depend on what is subtracted, so no gradient takes
/// that way.
GraphTensor below_maximum(const GraphTensor& x, const std::vector<int>& axes) {
  return x - maximum_over(x, axes, true, Ties::First).stop_gradient();
}

}  // namespace

GraphTensor GraphTensor::softmax(Axes axes, Where at) const {
  const CallSite site("softmax", at);
  const std::vector<int> over = axes.resolve(rank(), label());
  return widely(*this, [&](const GraphTensor& x) {
    const GraphTensor e = below_maximum(x, over).exp();
    return e * reduced(kSumReduce, e, over, true).reciprocal();
  });
}

GraphTensor GraphTensor::log_softmax(Axes axes, Where at) const {
  const CallSite site("log_softmax", at);
  const std::vector<int> over = axes.resolve(rank(), label());
  return widely(*this, [&](const GraphTensor& x) {
    const GraphTensor shifted = below_maximum(x, over);
    return shifted - reduced(kSumReduce, shifted.exp(), over, true).log();
  });
}

namespace {

/// The two halves of `x` along `axis`. Errors: ShapeError if the size is odd.
std::pair<GraphTensor, GraphTensor> halves(const GraphTensor& x, int axis) {
  const int on = axis_of(x, axis);
  const Expression& size = x.dim(on);
  if (size.constant() && *size.constant() % 2 != 0)
    reject("axis {} of {} has the odd size {}; its two halves must be equal", on, x.type().to_string(),
           size.to_string());
  const Expression half = size / 2;
  return {x.slice_along(on, 0, half), x.slice_along(on, half, half * 2)};
}

}  // namespace

GraphTensor GraphTensor::glu(int axis, Where at) const {
  const CallSite site("glu", at);
  return widely(*this, [=](const GraphTensor& x) {
    const auto [value, gate] = halves(x, axis);
    return value * gate.sigmoid();
  });
}

GraphTensor GraphTensor::swiglu(int axis, Where at) const {
  const CallSite site("swiglu", at);
  return widely(*this, [=](const GraphTensor& x) {
    const auto [value, gate] = halves(x, axis);
    return value * gate.silu();
  });
}

}  // namespace luminal
