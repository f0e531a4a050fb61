#include "ops/composite/build.h"

// Powers: floats by the accurate primitive, integers exactly (wrapping as products do).
namespace luminal {

using namespace composite;

namespace {

/// base ** exponent by repeated squaring. Shapes: any; exponent >= 0.
GraphTensor whole_power(const GraphTensor& base, int64_t exponent) {
  GraphTensor square = base;
  std::optional<GraphTensor> result;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) result = result ? *result * square : square;
    if (exponent > 1) square = square * square;
  }
  return result ? *result : broadcast_to(scalar(base, 1), base.dims());
}

/// Integer tensors: one squaring for each bit of the exponent. A negative exponent gives the reciprocal
/// rounded to zero, which is not 0 for bases 1 and -1 only, as in PyTorch.
GraphTensor integer_power(const GraphTensor& base, const GraphTensor& exponent) {
  const int bits = info(base.dtype()).digits;
  GraphTensor square = base, rest = exponent, result = scalar(base, 1);
  for (int bit = 0; bit < bits; ++bit) {
    if (bit > 0) {
      square = square * square;
      rest = rest.shift(-1);
    }
    result = select(truth(rest.bitwise_and(1)), result * square, result);
  }
  if (!is_signed(base.dtype())) return result;
  const GraphTensor odd = truth(exponent.bitwise_and(1));
  const GraphTensor unit =
      select(base.eq(1), scalar(base, 1),
             select(base.eq(-1), select(odd, scalar(base, -1), scalar(base, 1)), scalar(base, 0)));
  return select(less(exponent, 0), unit, result);
}

GraphTensor float_power(const GraphTensor& base, const GraphTensor& exponent, const Number* number) {
  // Small whole exponents are products: exact where they can be, and with the gradients one expects.
  const double e = number ? number->as<double>() : 0.5;
  if (e == 0 || e == 1 || e == 2 || e == 3) return whole_power(base, static_cast<int64_t>(e));
  if (e == -1) return base.reciprocal();
  return elementwise(kPow, {base, exponent});
}

}  // namespace

GraphTensor pow(const Operand& base, const Operand& exponent) {
  const CallSite site("pow", base.where);
  const Number* number = number_of(exponent);
  const auto [x, y] = promoted(base, exponent, Promotion::Arithmetic);
  if (is_float(x.dtype())) return float_power(x, y, number);
  if (!number) return integer_power(x, y);
  if (number->as<int64_t>() < 0)
    reject<DtypeError>("{} to the power {} is not a whole number; cast the base to a float first",
                       x.type().to_string(), number->to_string());
  return whole_power(x, number->as<int64_t>());
}

GraphTensor GraphTensor::pow(const Operand& exponent) const {
  return luminal::pow(Operand(*this, exponent.where), exponent);
}

}  // namespace luminal
