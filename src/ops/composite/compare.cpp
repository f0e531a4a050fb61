#include <cmath>
#include <optional>

#include "ops/composite/build.h"

// Comparisons, all made of "less than": a comparison with NaN is false, except "not equal".
namespace luminal {

using namespace composite;

namespace {

bool is_plain_number(const Operand& operand) {
  const Number* number = number_of(operand);
  return number && !std::isnan(number->as<double>());
}

/// Two operands of one dtype, and how to tell that neither is NaN.
struct Comparison {
  Comparison(const Operand& left, const Operand& right) {
    std::tie(a, b) = promoted(left, right, Promotion::Plain);
    if (!is_float(a.dtype())) return;
    if (is_plain_number(right))
      ordered = not_nan(a);
    else if (is_plain_number(left))
      ordered = not_nan(b);
    else
      ordered = not_nan(greater_of(a, b, Ties::Split));  // NaN if either is
  }
  /// Not `opposite`, unless an operand is NaN.
  [[nodiscard]] GraphTensor unless(const GraphTensor& opposite) const {
    return ordered ? both(inverted(opposite), *ordered) : inverted(opposite);
  }
  [[nodiscard]] GraphTensor equal() const { return unless(either(less(a, b), less(b, a))); }

  GraphTensor a, b;
  std::optional<GraphTensor> ordered;
};

}  // namespace

GraphTensor GraphTensor::lt(const Operand& b) const {
  const CallSite site("lt", b.where);
  const auto [x, y] = promoted(Operand(*this), b, Promotion::Plain);
  return less(x, y);
}

GraphTensor GraphTensor::gt(const Operand& b) const {
  const CallSite site("gt", b.where);
  const auto [x, y] = promoted(Operand(*this), b, Promotion::Plain);
  return less(y, x);
}

GraphTensor GraphTensor::le(const Operand& b) const {
  const CallSite site("le", b.where);
  const Comparison c(*this, b);
  return c.unless(less(c.b, c.a));
}

GraphTensor GraphTensor::ge(const Operand& b) const {
  const CallSite site("ge", b.where);
  const Comparison c(*this, b);
  return c.unless(less(c.a, c.b));
}

GraphTensor GraphTensor::eq(const Operand& b) const {
  const CallSite site("eq", b.where);
  return Comparison(*this, b).equal();
}

GraphTensor GraphTensor::ne(const Operand& b) const {
  const CallSite site("ne", b.where);
  return inverted(Comparison(*this, b).equal());
}

}  // namespace luminal
