#include "ops/float_sums.h"

#include "base/vector_clones.h"

namespace luminal::ops {

LUMINAL_VECTOR_CLONES void widen_floats(const float* from, int64_t count, double* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i];
}

LUMINAL_VECTOR_CLONES void add_floats(double* sums, const float* terms, int64_t count) {
  for (int64_t i = 0; i < count; ++i) sums[i] += terms[i];
}

LUMINAL_VECTOR_CLONES void add_and_round_floats(double* __restrict sums, const float* __restrict terms,
                                                int64_t count, float* __restrict to) {
  for (int64_t i = 0; i < count; ++i) {
    sums[i] += terms[i];
    to[i] = static_cast<float>(sums[i]);
  }
}

LUMINAL_VECTOR_CLONES void round_to_floats(const double* sums, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(sums[i]);
}

LUMINAL_VECTOR_CLONES void add_floats_once(const float* base, bool is_number, const float* terms,
                                           int64_t count, float* to) {
  if (is_number)
    for (int64_t i = 0; i < count; ++i) to[i] = *base + terms[i];
  else
    for (int64_t i = 0; i < count; ++i) to[i] = base[i] + terms[i];
}

}  // namespace luminal::ops
