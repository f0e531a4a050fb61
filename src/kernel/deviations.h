#pragma once
#include <optional>
#include <span>

#include "kernel/spec.h"

namespace luminal::kernel {

/// A sum of squared deviations, sum_j (x(j) - u)^2 where u is one number for all j, beside sum_j x(j): what a variance is
/// made of. It can be made block by block, from the mean m(b) of each block's n terms (after Chan, Golub and LeVeque 1983,
/// "Algorithms for computing the sample variance: analysis and recommendations"):
///
///   sum_j (x(j) - u)^2 = sum_b [ d(b) + (m(b) - u) * (2 r(b) + n (m(b) - u)) ],
///   d(b) = sum_i (x(b,i) - m(b))^2,  r(b) = sum_i x(b,i) - m(b)
///
/// whatever u is. r(b) is what the rounding of m(b) leaves: without it the error of the sum would be as large as that of
/// the mean, with it the sum is right for any m(b). No number is greater than in the plain sums: the sum of a block is a
/// part of sum_j x(j).
struct Deviation {
  ScalarFunction x;  ///< over the value's operands, as `u` is
  ScalarFunction u;
  bool adds = false;  ///< x + u is squared
  int sum = -1;       ///< the value that is the sum of x
};
/// Value `squares` as such a sum of floats, or empty.
[[nodiscard]] std::optional<Deviation> deviation_of(std::span<const Value> values, int squares);

}  // namespace luminal::kernel
