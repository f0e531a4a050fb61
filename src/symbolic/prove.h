#pragma once
#include "symbolic/node.h"

/// Proofs from facts: ranges and divisors of atoms, and extents of index variables, which may be symbolic.
/// A result of true holds for every value that the variables may take together; false means unknown. The
/// effort is capped as a function of the formula alone, so canonical forms do not depend on history.
namespace luminal::symbolic {

[[nodiscard]] bool proves_nonnegative(const Expression& e);
/// b - a >= 0.
[[nodiscard]] bool proves_less_equal(const Expression& a, const Expression& b);
[[nodiscard]] bool proves_less(const Expression& a, const Expression& b);
/// e > 0; index variables of `context` exist, so their extents are at least 1.
[[nodiscard]] bool proves_positive(const Expression& e, const Expression& context);
/// e is never 0 where `context` has a value.
[[nodiscard]] bool proves_nonzero(const Expression& e, const Expression& context);

}  // namespace luminal::symbolic
