#pragma once
#include <optional>
#include <span>
#include <vector>

#include "kernel/axes.h"
#include "luminal/math_mode.h"

/// Sums of which one term at most is not 0, as products with one-hot rows are: what one position of the axis adds is all.
namespace luminal::kernel {

///   Y[i,j] = sum k in 50257: k == B[i] ? A[k,j] : 0      has the axis k, and the place B[i]
struct OneTerm {
  int axis = -1;            ///< the only one that is summed over
  ScalarFunction place;     ///< I64, of the value's operands; the sum is 0 where it lies outside of the axis
  Scalar term;              ///< of the body: what the place adds
  bool is_certain = false;  ///< it does, whatever else holds
};
/// Of value `number`. None where it is no such sum.
[[nodiscard]] std::optional<OneTerm> named_term_of(std::span<const Value> values, size_t number);
/// None either where a value that it reads depends on its axis, which has to be computed before its term is known.
[[nodiscard]] std::optional<OneTerm> one_term_of(std::span<const Value> values, size_t number);

/// A product with an element of a one-hot row becomes a choice between the other factors and 0, where a value sums such
/// products over the row: x[k] * (k == b) is k == b ? x[k] : 0. Relaxed for floats, for an infinity times 0 is NaN.
void choose_one_term(Value& value, std::span<const Value> values, MathMode mode);

/// The nodes that the product `root` multiplies, each once: x^1024 is a product of ten nodes.
[[nodiscard]] std::vector<Scalar> multiplied(const ScalarFunction& body, Scalar root);

}  // namespace luminal::kernel
