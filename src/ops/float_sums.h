#pragma once
#include <cstdint>

/// Sums of f32 in f64, of many elements at once: loops for wide registers where the processor has them.
namespace luminal::ops {

void widen_floats(const float* from, int64_t count, double* to);
void add_floats(double* sums, const float* terms, int64_t count);
/// Both: sums[i] += terms[i] and to[i] = sums[i], rounded.
void add_and_round_floats(double* sums, const float* terms, int64_t count, float* to);
void round_to_floats(const double* sums, int64_t count, float* to);
/// One term for each of `base`, or for its only element. Of two f32 the sum in f64, rounded, is the sum in f32: f64 has
/// more than twice as many digits (Figueroa 1995).
void add_floats_once(const float* base, bool is_number, const float* terms, int64_t count, float* to);

}  // namespace luminal::ops
