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

// Largest errors seen, in ulp.
// f32, all 2^32 arguments: exp2 0.878, exp 0.981, log2 1.132, log 0.923, tanh 2.424, erf 1.138.
// f32, dense samples: expm1 0.980, log1p 0.875, sin 0.758, cos 0.728, tan 2.077, pow 0.875, rsqrt 1.443.
// f64, four million arguments each: exp2 0.785, exp 0.957, expm1 1.085, log2 1.009, log 0.809, log1p 0.875,
// sin 0.774, cos 0.780, tan 2.181, tanh 2.300, erf 1.007, rsqrt 1.498; pow 0.853 of a million pairs.
constexpr std::array<Function, 15> kFunctions{{
    {"exp2", 1, 1, 1, lower_one<exp2>},
    {"exp", 1, 1, 1, lower_one<exp>},
    {"expm1", 1, 1.25, 1.25, lower_one<expm1>},
    {"log2", 1, 1.25, 1.25, lower_one<log2>},
    {"log", 1, 1, 1, lower_one<log>},
    {"log1p", 1, 1.25, 1.25, lower_one<log1p>},
    {"sin", 1, 1, 1, lower_one<sin>},
    {"cos", 1, 1, 1, lower_one<cos>},
    {"tan", 1, 2.5, 2.5, lower_one<tan>},
    {"tanh", 1, 2.5, 2.5, lower_one<tanh>},
    {"erf", 1, 1.25, 1.25, lower_one<erf>},
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
