#include <array>

#include "base/fail.h"
#include "luminal/scalar_math.h"
#include "scalar/math/term.h"

namespace luminal::math {
namespace {

template <Scalar (*F)(ScalarBuilder&, Scalar)>
Scalar lower_one(ScalarBuilder& b, std::span<const Scalar> x) {
  return F(b, x[0]);
}
Scalar lower_pow(ScalarBuilder& b, std::span<const Scalar> x) { return pow(b, x[0], x[1]); }

// The f32 bounds of functions of one argument hold for all 2^32 of them; f64 ones over dense samples.
constexpr std::array<Function, 15> kFunctions{{
    {"exp2", 1, 1, 1, lower_one<exp2>},
    {"exp", 1, 1, 1, lower_one<exp>},
    {"expm1", 1, 1, 1, lower_one<expm1>},
    {"log2", 1, 1, 1, lower_one<log2>},
    {"log", 1, 1, 1, lower_one<log>},
    {"log1p", 1, 1, 1, lower_one<log1p>},
    {"sin", 1, 1, 1, lower_one<sin>},
    {"cos", 1, 1, 1, lower_one<cos>},
    {"tan", 1, 2.5, 2.5, lower_one<tan>},
    {"tanh", 1, 2.5, 2.5, lower_one<tanh>},
    {"erf", 1, 1.25, 1, lower_one<erf>},
    {"pow", 2, 1, 1, lower_pow},
    {"sqrt", 1, 0.5, 0.5, lower_one<sqrt>},
    {"rsqrt", 1, 1.5, 1.5, lower_one<rsqrt>},
    {"reciprocal", 1, 0.5, 0.5, lower_one<reciprocal>},
}};

}  // namespace

std::span<const Function> functions() { return kFunctions; }

void require_float(std::string_view function, Dtype dtype) {
  if (!is_float(dtype))
    fail<DtypeError>("[{}] takes a float, not {}; cast it to f32 first", function, name(dtype));
}

void require_same(std::string_view function, Dtype a, Dtype b) {
  if (a != b)
    fail<DtypeError>("[{}] the operands differ in type: {} and {}; cast one of them", function, name(a),
                     name(b));
}

}  // namespace luminal::math
