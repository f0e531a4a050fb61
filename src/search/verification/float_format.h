#pragma once
#include <cmath>

#include "luminal/dtype.h"

namespace luminal::search {

struct FloatFormat {
  double roundoff;  ///< relative rounding error, half a unit in the last place of 1: 2^-24 for f32
  double largest, tiniest;
};

inline FloatFormat format_of(Dtype dtype) {
  const DtypeInfo& i = info(dtype);
  return {std::ldexp(1.0, -i.digits), std::ldexp(2 - std::ldexp(2.0, -i.digits), i.greatest_exponent),
          std::ldexp(1.0, i.least_exponent - i.digits + 1)};
}

}  // namespace luminal::search
