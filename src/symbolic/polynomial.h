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

/// The terms of a formula but its constant, where they lie: valid as long as this object is.
class Terms {
 public:
  explicit Terms(const Expression& e) : own_{1, e} {
    const Node& n = e.node();
    if (n.kind == Kind::Sum)
      sum_ = &n.terms;
    else
      count_ = n.kind == Kind::Constant ? 0 : 1;
  }
  [[nodiscard]] const Term* begin() const { return sum_ != nullptr ? sum_->data() : &own_; }
  [[nodiscard]] const Term* end() const { return begin() + (sum_ != nullptr ? sum_->size() : count_); }

 private:
  const std::vector<Term>* sum_ = nullptr;
  size_t count_ = 0;
  Term own_;
};
/// The summand that is a number.
[[nodiscard]] inline int64_t constant_part(const Expression& e) {
  return kind_of(e) == Kind::Constant || kind_of(e) == Kind::Sum ? e.node().value : 0;
}

/// `constant + sum of terms`, terms sorted by monomial, no zero coefficients, no monomial twice.
struct Polynomial {
  int64_t constant = 0;
  std::vector<Term> terms;

  Polynomial() = default;
  explicit Polynomial(const Expression& e);
  /// Adds `scale` times the formula.
  void add(const Expression& e, int64_t scale);
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
