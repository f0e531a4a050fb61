#pragma once
#include <optional>
#include <span>
#include <vector>

#include "symbolic/node.h"

/// Sums of products: what every expression is made of, and the operations that keep it canonical.
///
/// The functions here are the ones behind Expression's operators. Each is a pure function of the content of
/// its arguments: results are memoised per thread and equal on every thread.
namespace luminal::symbolic {

/// `constant + sum of terms`, terms sorted by monomial, no zero coefficients, no monomial twice.
struct Polynomial {
  int64_t constant = 0;
  std::vector<Term> terms;

  Polynomial() = default;
  explicit Polynomial(const Expression& e);
  /// The canonical expression, after recombining quotients with remainders.
  [[nodiscard]] Expression build() &&;
};

/// Factors of a monomial: its own if it is a Product, otherwise itself alone.
[[nodiscard]] std::span<const Expression> factors(const Expression& monomial);
/// Sorted factors as one monomial; 1 if there are none.
[[nodiscard]] Expression monomial_of(std::vector<Expression> sorted_factors);
/// `monomial` without the factors of `divisor` (each as often as it occurs there); empty if some are missing.
[[nodiscard]] std::optional<Expression> remove_factors(const Expression& monomial, const Expression& divisor);

[[nodiscard]] Polynomial add(const Polynomial& a, const Polynomial& b, int64_t scale_of_b = 1);
/// The full product, terms collected.
[[nodiscard]] Polynomial multiply(const Polynomial& a, const Polynomial& b);
[[nodiscard]] Range range_of(const Polynomial& p);

[[nodiscard]] Expression add(const Expression& a, const Expression& b);
[[nodiscard]] Expression subtract(const Expression& a, const Expression& b);
[[nodiscard]] Expression multiply(const Expression& a, const Expression& b);
[[nodiscard]] Expression divide(const Expression& a, const Expression& b);
[[nodiscard]] Expression modulo(const Expression& a, const Expression& b);
[[nodiscard]] Expression minimum(const Expression& a, const Expression& b);
[[nodiscard]] Expression maximum(const Expression& a, const Expression& b);
/// a < 0 as 1 or 0.
[[nodiscard]] Expression negative(const Expression& a);
[[nodiscard]] Expression bit_and(const Expression& a, const Expression& b);
[[nodiscard]] Expression bit_or(const Expression& a, const Expression& b);

/// a = quotient * b + remainder by long division on the leading term of b; b is not a constant. The quotient
/// is 0 where nothing divides or where it would make the formula longer.
struct Division {
  Expression quotient, remainder;
};
[[nodiscard]] Division long_division(const Expression& a, const Expression& b);
/// a / b where b divides a as a polynomial (true for every size at which b is not 0); empty otherwise.
[[nodiscard]] std::optional<Expression> divide_exact(const Expression& a, const Expression& b);

}  // namespace luminal::symbolic
