#include <cmath>

#include "ops/composite/build.h"

// Arithmetic on two tensors, a tensor and a number, or a tensor and an integer formula.
namespace luminal {

using namespace composite;

namespace {

GraphTensor sum_of(const Operand& a, const Operand& b, Where at) {
  const CallSite site("add", at);
  const auto [x, y] = promoted(a, b, Promotion::Arithmetic);
  return elementwise(kAdd, {x, y});
}

GraphTensor difference(const Operand& a, const Operand& b, Where at) {
  const CallSite site("sub", at);
  const auto [x, y] = promoted(a, b, Promotion::Arithmetic);
  return elementwise(kAdd, {x, negated(y)});
}

GraphTensor product(const Operand& a, const Operand& b, Where at) {
  const CallSite site("mul", at);
  const auto [x, y] = promoted(a, b, Promotion::Arithmetic);
  return elementwise(kMul, {x, y});
}

GraphTensor quotient(const Operand& a, const Operand& b, Where at) {
  const CallSite site("div", at);
  const auto [x, y] = promoted(a, b, Promotion::Floating);
  return elementwise(kDiv, {x, y});
}

GraphTensor remainder(const Operand& a, const Operand& b, Where at) {
  const CallSite site("mod", at);
  const auto [x, y] = promoted(a, b, Promotion::Arithmetic);
  return elementwise(kMod, {x, y});
}

/// The remainder with the dividend's sign, exact as C's fmod. Floats only.
GraphTensor float_fmod(const GraphTensor& x, const GraphTensor& y) {
  const GraphTensor negative = less(x, 0);
  const GraphTensor size = elementwise(kMod, {select(negative, negated(x), x), y.abs()});
  const GraphTensor result = select(negative, negated(size), size);
  return select(both(x.eq(0), size.eq(0)), x, result);  // a zero keeps its sign
}

/// The floored quotient as Python computes it: from the exact remainder, since x / y may round up to the next
/// whole number.
GraphTensor float_floor_div(const GraphTensor& x, const GraphTensor& y) {
  const GraphTensor rest = float_fmod(x, y);
  const GraphTensor whole = (x - rest) / y;
  const GraphTensor signs_differ = elementwise(kXor, {less(rest, 0), less(y, 0)});
  const GraphTensor lower = select(both(rest.ne(0), signs_differ), whole - 1, whole);
  const GraphTensor below = lower.floor();
  const GraphTensor nearest = select(less(0.5, lower - below), below + 1, below);
  const GraphTensor plain = x / y;
  // A zero takes the quotient's sign; a division by zero is what IEEE says.
  const GraphTensor signed_zero = select(less(plain, 0), scalar(x, -0.0), scalar(x, 0.0));
  return select(y.eq(0), plain, select(lower.eq(0), signed_zero, nearest));
}

/// What is true of an integer's digits is not of a float's.
void require_bits(const GraphTensor& x) {
  if (is_float(x.dtype()))
    reject<DtypeError>(
        "takes integers or bool, got {}; cast it to an integer type, or read its bits with as_dtype",
        x.type().to_string());
}

GraphTensor bitwise(std::string_view name, const OpDef& op, const GraphTensor& a, const Operand& b) {
  const CallSite site(name, b.where);
  const auto [x, y] = promoted(Operand(a), b, Promotion::Plain);
  require_bits(x);
  return elementwise(op, {x, y});
}

GraphTensor logical(std::string_view name, const OpDef& op, const GraphTensor& a, const Operand& b) {
  const CallSite site(name, b.where);
  const auto [x, y] = promoted(Operand(a), b, Promotion::Plain);
  return elementwise(op, {truth(x), truth(y)});
}

}  // namespace

GraphTensor operator+(const Operand& a, const Operand& b) { return sum_of(a, b, a.where); }
GraphTensor operator-(const Operand& a, const Operand& b) { return difference(a, b, a.where); }
GraphTensor operator*(const Operand& a, const Operand& b) { return product(a, b, a.where); }
GraphTensor operator/(const Operand& a, const Operand& b) { return quotient(a, b, a.where); }
GraphTensor operator%(const Operand& a, const Operand& b) { return remainder(a, b, a.where); }
GraphTensor& GraphTensor::operator+=(const Operand& b) { return *this = sum_of(*this, b, b.where); }
GraphTensor& GraphTensor::operator-=(const Operand& b) { return *this = difference(*this, b, b.where); }
GraphTensor& GraphTensor::operator*=(const Operand& b) { return *this = product(*this, b, b.where); }
GraphTensor& GraphTensor::operator/=(const Operand& b) { return *this = quotient(*this, b, b.where); }
GraphTensor& GraphTensor::operator%=(const Operand& b) { return *this = remainder(*this, b, b.where); }

GraphTensor GraphTensor::floor_div(const Operand& b) const {
  const CallSite site("floor_div", b.where);
  const auto [x, y] = promoted(Operand(*this), b, Promotion::Arithmetic);
  if (!is_float(x.dtype())) return elementwise(kIntDiv, {x, y});
  return float_floor_div(x.stop_gradient(), y.stop_gradient());  // flat almost everywhere
}

GraphTensor GraphTensor::fmod(const Operand& b) const {
  const CallSite site("fmod", b.where);
  const auto [x, y] = promoted(Operand(*this), b, Promotion::Arithmetic);
  if (is_float(x.dtype())) return float_fmod(x, y);
  const GraphTensor floored = elementwise(kMod, {x, y});
  if (!is_signed(x.dtype())) return floored;
  const GraphTensor signs_differ = elementwise(kXor, {less(x, 0), less(y, 0)});
  return select(both(floored.ne(0), signs_differ), floored - y, floored);
}

GraphTensor GraphTensor::maximum(const Operand& b) const {
  const CallSite site("maximum", b.where);
  const auto [x, y] = promoted(Operand(*this), b, Promotion::Plain);
  return greater_of(x, y, Ties::Split);
}

GraphTensor GraphTensor::minimum(const Operand& b) const {
  const CallSite site("minimum", b.where);
  const auto [x, y] = promoted(Operand(*this), b, Promotion::Plain);
  return lesser_of(x, y, Ties::Split);
}

GraphTensor maximum(const Operand& a, const Operand& b) {
  const CallSite site("maximum", a.where);
  const auto [x, y] = promoted(a, b, Promotion::Plain);
  return greater_of(x, y, Ties::Split);
}

GraphTensor minimum(const Operand& a, const Operand& b) {
  const CallSite site("minimum", a.where);
  const auto [x, y] = promoted(a, b, Promotion::Plain);
  return lesser_of(x, y, Ties::Split);
}

namespace {

/// Whether a bound of clip is absent: infinite on its own side.
bool is_absent(const Operand& bound, double infinity) {
  const Number* number = number_of(bound);
  return number && !number->is_integer() && number->as<double>() == infinity;
}

}  // namespace

GraphTensor GraphTensor::clip(const Operand& low, const Operand& high) const {
  const CallSite site("clip", low.where);
  const bool has_low = !is_absent(low, -HUGE_VAL), has_high = !is_absent(high, HUGE_VAL);
  std::vector<Operand> operands;
  operands.reserve(3);
  operands.emplace_back(*this);
  if (has_low) operands.push_back(low);
  if (has_high) operands.push_back(high);
  Graph owner = graph();
  const std::vector<GraphTensor> values = promoted(owner, operands, Promotion::Arithmetic);
  GraphTensor x = values[0];
  // x stands first, so that a tie gives it the gradient.
  if (has_low) x = greater_of(x, values[1], Ties::First);
  if (has_high) x = lesser_of(x, values.back(), Ties::First);
  return x;
}

GraphTensor GraphTensor::bitwise_and(const Operand& b) const {
  return bitwise("bitwise_and", kAnd, *this, b);
}
GraphTensor GraphTensor::bitwise_or(const Operand& b) const { return bitwise("bitwise_or", kOr, *this, b); }
GraphTensor GraphTensor::bitwise_xor(const Operand& b) const {
  return bitwise("bitwise_xor", kXor, *this, b);
}
GraphTensor GraphTensor::logical_and(const Operand& b) const {
  return logical("logical_and", kAnd, *this, b);
}
GraphTensor GraphTensor::logical_or(const Operand& b) const { return logical("logical_or", kOr, *this, b); }
GraphTensor GraphTensor::logical_xor(const Operand& b) const {
  return logical("logical_xor", kXor, *this, b);
}

GraphTensor GraphTensor::shift(const Operand& amount) const {
  const CallSite site("shift", amount.where);
  // Unsigned amounts cannot say "right".
  if (const Number* by = number_of(amount);
      by && is_integer(dtype()) && !is_signed(dtype()) && by->as<double>() < 0)
    return cast(Dtype::I64).shift(amount).cast(dtype());
  const auto [x, y] = promoted(Operand(*this), amount, Promotion::Arithmetic);
  require_bits(x);
  return elementwise(kShift, {x, y});
}

GraphTensor GraphTensor::where(const Operand& if_true, const Operand& if_false) const {
  const CallSite site("where", if_true.where);
  Graph owner = graph();
  const std::vector<GraphTensor> values =
      promoted(owner, std::vector<Operand>{if_true, if_false}, Promotion::Plain);
  return select(truth(*this), values[0], values[1]);
}

GraphTensor where(const GraphTensor& condition, const Operand& if_true, const Operand& if_false) {
  return condition.where(if_true, if_false);
}

}  // namespace luminal
