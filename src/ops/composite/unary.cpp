#include <limits>
#include <numbers>

#include "ops/composite/build.h"

// Elementwise functions of one tensor: sign and rounding, exponentials, trigonometry, tests, casts.
namespace luminal {

using namespace composite;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A primitive over floats; integers and bool become f32.
GraphTensor float_function(std::string_view name, const OpDef& op, const GraphTensor& x, Where at) {
  const CallSite site(name, at);
  return apply(op, {floating(x)});
}

/// All elements false or all true, with x's dims: what a test of floats says of integers.
GraphTensor everywhere(const GraphTensor& x, bool value) {
  return broadcast_to(scalar(x, value, Dtype::Bool), x.dims());
}

}  // namespace

GraphTensor GraphTensor::exp(Where at) const { return float_function("exp", kExp, *this, at); }
GraphTensor GraphTensor::exp2(Where at) const { return float_function("exp2", kExp2, *this, at); }
GraphTensor GraphTensor::log(Where at) const { return float_function("log", kLog, *this, at); }
GraphTensor GraphTensor::log2(Where at) const { return float_function("log2", kLog2, *this, at); }
GraphTensor GraphTensor::log1p(Where at) const { return float_function("log1p", kLog1p, *this, at); }
GraphTensor GraphTensor::expm1(Where at) const { return float_function("expm1", kExpm1, *this, at); }
GraphTensor GraphTensor::sin(Where at) const { return float_function("sin", kSin, *this, at); }
GraphTensor GraphTensor::cos(Where at) const { return float_function("cos", kCos, *this, at); }
GraphTensor GraphTensor::tan(Where at) const { return float_function("tan", kTan, *this, at); }
GraphTensor GraphTensor::tanh(Where at) const { return float_function("tanh", kTanh, *this, at); }
GraphTensor GraphTensor::erf(Where at) const { return float_function("erf", kErf, *this, at); }
GraphTensor GraphTensor::sqrt(Where at) const { return float_function("sqrt", kSqrt, *this, at); }
GraphTensor GraphTensor::reciprocal(Where at) const {
  return float_function("reciprocal", kRecip, *this, at);
}

GraphTensor GraphTensor::rsqrt(Where at) const {
  const CallSite site("rsqrt", at);
  return sqrt().reciprocal();
}

GraphTensor GraphTensor::square(Where at) const {
  const CallSite site("square", at);
  const GraphTensor x = numeric(*this);
  return elementwise(kMul, {x, x});
}

GraphTensor operator-(const Operand& a) {
  const CallSite site("neg", a.where);
  const GraphTensor* x = tensor_in(a);
  if (!x) reject<Error>("no operand is a tensor; make it one with Graph::constant");
  return negated(numeric(*x));
}

GraphTensor GraphTensor::abs(Where at) const {
  const CallSite site("abs", at);
  const GraphTensor x = numeric(*this);
  if (!is_signed(x.dtype())) return x;
  return greater_of(x, negated(x), Ties::Split);  // the two halves of the gradient cancel at 0, as in PyTorch
}

GraphTensor GraphTensor::sign(Where at) const {
  const CallSite site("sign", at);
  const GraphTensor x = numeric(*this);
  const GraphTensor result =
      elementwise(kAdd, {less(0, x).cast(x.dtype()), negated(less(x, 0).cast(x.dtype()))});
  return is_float(x.dtype()) ? select(not_nan(x), result, x.stop_gradient()) : result;
}

// --- Rounding. Integers are whole already.

GraphTensor GraphTensor::floor(Where at) const {
  const CallSite site("floor", at);
  const GraphTensor x = numeric(*this);
  return is_float(x.dtype()) ? apply(kFloor, {x}) : x;
}

GraphTensor GraphTensor::ceil(Where at) const {
  const CallSite site("ceil", at);
  const GraphTensor x = numeric(*this);
  return is_float(x.dtype()) ? negated(negated(x).floor()) : x;
}

GraphTensor GraphTensor::trunc(Where at) const {
  const CallSite site("trunc", at);
  const GraphTensor x = numeric(*this);
  return is_float(x.dtype()) ? select(less(x, 0), x.ceil(), x.floor()) : x;
}

// Half to even. Works on the magnitude, whose distance to its floor is exact, and so keeps -0 and infinities.
GraphTensor GraphTensor::round(Where at) const {
  const CallSite site("round", at);
  const GraphTensor x = numeric(*this);
  if (!is_float(x.dtype())) return x;
  const GraphTensor negative = less(x, 0);
  const GraphTensor magnitude = select(negative, negated(x), x);
  const GraphTensor below = magnitude.floor();
  const GraphTensor rest = magnitude - below;
  const GraphTensor odd = less(0.5, below % 2);
  const GraphTensor up = either(less(0.5, rest), both(inverted(less(rest, 0.5)), odd));
  const GraphTensor rounded = select(up, below + 1, below);
  return select(negative, negated(rounded), rounded);
}

// --- Tests

GraphTensor GraphTensor::logical_not(Where at) const {
  const CallSite site("logical_not", at);
  return inverted(truth(*this));
}

GraphTensor GraphTensor::isnan(Where at) const {
  const CallSite site("isnan", at);
  return is_float(dtype()) ? inverted(not_nan(*this)) : everywhere(*this, false);
}

GraphTensor GraphTensor::isinf(Where at) const {
  const CallSite site("isinf", at);
  if (!is_float(dtype())) return everywhere(*this, false);
  return elementwise(kXor, {less(*this, kInfinity), less(-kInfinity, *this)});
}

GraphTensor GraphTensor::isfinite(Where at) const {
  const CallSite site("isfinite", at);
  if (!is_float(dtype())) return everywhere(*this, true);
  return both(less(*this, kInfinity), less(-kInfinity, *this));
}

// --- The value itself, and other forms of it

GraphTensor GraphTensor::stop_gradient(Where at) const {
  const CallSite site("stop_gradient", at);
  return apply(kDetach, {*this});
}

GraphTensor GraphTensor::cast(Dtype wanted, Where at) const {
  if (wanted == dtype()) return *this;
  const CallSite site("cast", at);
  return apply(kCast, {*this}, {{"dtype", wanted}});
}

GraphTensor GraphTensor::as_dtype(Dtype wanted, Where at) const {
  if (wanted == dtype()) return *this;
  const CallSite site("as_dtype", at);
  return apply(kBitcast, {*this}, {{"dtype", wanted}});
}

}  // namespace luminal
