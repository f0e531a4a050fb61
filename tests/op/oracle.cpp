#include "op/oracle.h"

#include <algorithm>
#include <functional>
#include <map>

#include "base/philox.h"

namespace luminal::op_test {
namespace {

using Reals = std::span<const long double>;
using Integers = std::span<const Integer>;

Integer floor_quotient(Integer a, Integer b) {
  if (b == 0) return 0;
  Integer q = a / b;
  while (q * b > a && b > 0) --q;
  while (q * b < a && b < 0) --q;
  return q;
}

long double floor_remainder(long double a, long double b) {
  const long double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0L, b);
  return std::signbit(rest) == std::signbit(b) ? rest : rest + b;
}

long double greater(long double a, long double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<long double>::quiet_NaN();
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

/// x - n*pi/2 loses everything in long double for large x: the double function is within one unit and reduces
/// exactly.
long double trigonometric(long double x, long double (*precise)(long double), double (*wide)(double)) {
  return std::fabs(x) < 1e4L ? precise(x) : wide(static_cast<double>(x));
}

struct Formula {
  std::function<long double(Reals)> real = {};
  std::function<Integer(Integers, int bits)> integer = {};
};

const std::map<std::string_view, Formula>& formulas() {
  static const std::map<std::string_view, Formula> table = {
      {"exp2", {[](Reals x) { return std::exp2(x[0]); }}},
      {"exp", {[](Reals x) { return std::exp(x[0]); }}},
      {"expm1", {[](Reals x) { return std::expm1(x[0]); }}},
      {"log2", {[](Reals x) { return std::log2(x[0]); }}},
      {"log", {[](Reals x) { return std::log(x[0]); }}},
      {"log1p", {[](Reals x) { return std::log1p(x[0]); }}},
      {"sin", {[](Reals x) { return trigonometric(x[0], std::sin, std::sin); }}},
      {"cos", {[](Reals x) { return trigonometric(x[0], std::cos, std::cos); }}},
      {"tan", {[](Reals x) { return trigonometric(x[0], std::tan, std::tan); }}},
      {"tanh", {[](Reals x) { return std::tanh(x[0]); }}},
      {"erf", {[](Reals x) { return std::erf(x[0]); }}},
      {"pow", {[](Reals x) { return std::pow(x[0], x[1]); }}},
      {"recip", {[](Reals x) { return 1 / x[0]; }}},
      {"sqrt", {[](Reals x) { return std::sqrt(x[0]); }}},
      {"floor", {[](Reals x) { return std::floor(x[0]); }}},
      {"add", {[](Reals x) { return x[0] + x[1]; }, [](Integers x, int) { return x[0] + x[1]; }}},
      {"mul", {[](Reals x) { return x[0] * x[1]; }, [](Integers x, int) { return x[0] * x[1]; }}},
      {"div", {[](Reals x) { return x[0] / x[1]; }}},
      {"max",
       {[](Reals x) { return greater(x[0], x[1]); }, [](Integers x, int) { return std::max(x[0], x[1]); }}},
      {"mod",
       {[](Reals x) { return floor_remainder(x[0], x[1]); },
        [](Integers x, int) { return x[1] == 0 ? 0 : x[0] - x[1] * floor_quotient(x[0], x[1]); }}},
      {"int_div", {{}, [](Integers x, int) { return floor_quotient(x[0], x[1]); }}},
      {"less_than",
       {[](Reals x) { return static_cast<long double>(x[0] < x[1]); },
        [](Integers x, int) { return static_cast<Integer>(x[0] < x[1]); }}},
      {"and", {{}, [](Integers x, int) { return x[0] & x[1]; }}},
      {"or", {{}, [](Integers x, int) { return x[0] | x[1]; }}},
      {"xor", {{}, [](Integers x, int) { return x[0] ^ x[1]; }}},
      {"shift",
       {{},
        [](Integers x, int bits) -> Integer {  // as a product or floored quotient by a power of two
          if (x[1] >= bits) return 0;
          if (x[1] >= 0) return x[0] * (Integer{1} << x[1]);
          return floor_quotient(x[0], Integer{1} << std::min<Integer>(-x[1], 100));
        }}},
      {"detach", {[](Reals x) { return x[0]; }, [](Integers x, int) { return x[0]; }}},
      {"cast", {[](Reals x) { return x[0]; }, [](Integers x, int) { return x[0]; }}},
  };
  return table;
}

Exact by_user_kernel(const OpDef& op, const Attributes& attributes, std::span<const Exact> inputs) {
  std::vector<double> values;
  std::vector<const void*> pointers;
  for (const Exact& input : inputs)
    values.push_back(std::visit([](auto x) { return static_cast<double>(x); }, input));
  for (const double& value : values) pointers.push_back(&value);
  double out = 0;
  op.elementwise(std::vector<Dtype>(inputs.size(), Dtype::F64), Dtype::F64)(pointers.data(), &out, 1,
                                                                            attributes);
  return static_cast<long double>(out);
}

int width_of(Dtype dtype) { return dtype == Dtype::Bool ? 1 : static_cast<int>(8 * element_bytes(dtype)); }

/// The same bits as another type.
Exact same_bits(Dtype from, Dtype to, const Exact& value) {
  TensorData source(from, {1}), target(to, {1});
  write(source, 0, value);
  target.bytes = source.bytes;
  return read(target, 0);
}

/// By the definition of Philox4x32-10 in base/philox.h, whose test has the authors' known answers.
Exact random_bits(int64_t bits, std::span<const Exact> inputs) {
  const auto word = [&](size_t i) { return static_cast<uint64_t>(std::get<Integer>(inputs[i])); };
  const auto at = [&](uint64_t i) {
    const auto half = [](uint64_t x, int k) { return static_cast<uint32_t>(x >> (32 * k)); };
    const auto block = philox4x32({half(i / 4, 0), half(i / 4, 1), half(word(2), 0), half(word(2), 1)},
                                  {half(word(1), 0), half(word(1), 1)});
    return uint64_t{block[i % 4]};
  };
  const uint64_t i = word(0);
  if (bits <= 32) return static_cast<Integer>(at(i) >> (32 - bits));
  return static_cast<Integer>((at(2 * i) << 32 | at(2 * i + 1)) >> (64 - bits));
}

}  // namespace

bool has_formula(const OpDef& op) {
  return formulas().contains(op.name) || op.name == "where" || op.name == "bitcast" ||
         op.name == "random_bits";
}

Exact expected_element(const OpDef& op, const Attributes& attributes, Dtype dtype,
                       std::span<const Exact> inputs) {
  if (op.name == "where") return std::get<Integer>(inputs[0]) != 0 ? inputs[1] : inputs[2];
  if (op.name == "bitcast") return same_bits(dtype, attributes.get<Dtype>("dtype"), inputs[0]);
  if (op.name == "random_bits") return random_bits(attributes.get<int64_t>("bits"), inputs);
  const auto formula = formulas().find(op.name);
  if (formula == formulas().end()) return by_user_kernel(op, attributes, inputs);
  if (std::holds_alternative<long double>(inputs[0])) {
    std::vector<long double> reals;
    for (const Exact& input : inputs) reals.push_back(std::get<long double>(input));
    return formula->second.real(reals);
  }
  std::vector<Integer> integers;
  for (const Exact& input : inputs) integers.push_back(std::get<Integer>(input));
  return formula->second.integer(integers, width_of(dtype));
}

Bound expected_reduction(const OpDef& op, Dtype dtype, std::string_view device,
                         std::span<const Exact> values) {
  const bool sum = op.name == "sum_reduce", product = op.name == "prod_reduce";
  if (!is_float(dtype)) {
    Integer result = sum                    ? 0
                     : product              ? 1
                     : dtype == Dtype::Bool ? 0
                     : !is_signed(dtype)    ? 0
                                            : -(Integer{1} << (width_of(dtype) - 1));
    for (const Exact& value : values) {
      const Integer x = std::get<Integer>(value);
      // Wrapping at 64 bits keeps the lower bits that count.
      result = sum       ? result + x
               : product ? static_cast<int64_t>(static_cast<uint64_t>(result * x))
                         : std::max(result, x);
    }
    return {result};
  }
  long double result = sum       ? 0
                       : product ? 1
                                 : -std::numeric_limits<long double>::infinity(),
              magnitude = result;
  for (const Exact& value : values) {
    const auto x = std::get<long double>(value);
    result = sum ? result + x : product ? result * x : greater(result, x);
    magnitude = sum ? magnitude + std::fabs(x) : std::fabs(result);
  }
  const auto steps = static_cast<long double>(values.size());
  const long double unit = device == "reference" || dtype == Dtype::F64 ? 0x1p-52L : 0x1p-23L;
  return {result, sum || product ? steps * unit * magnitude : 0};
}

}  // namespace luminal::op_test
