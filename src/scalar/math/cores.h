#pragma once
#include "scalar/math/term.h"

/// The pieces that several functions share; each is defined for float and double.
namespace luminal::math {

/// 2^n * p for |p| near 1 and an integer word n between twice the least and twice the largest exponent, in
/// two steps so that neither factor leaves the normal range.
template <class T>
[[nodiscard]] Term scale(const Real<T>& r, Term p, Term n) {
  const Term half = shift_right(n, 1);
  return p * r.power_of_two(half) * r.power_of_two(n - half);
}

/// e^(x + low) with `low` a small correction; x may be anything.
template <class T>
[[nodiscard]] Term exp_core(const Real<T>& r, Term x, Term low);
/// 2^(x + low).
template <class T>
[[nodiscard]] Term exp2_core(const Real<T>& r, Term x, Term low);

/// x = 2^exponent * mantissa, mantissa in [sqrt(1/2), sqrt(2)), for x positive and finite, subnormals too.
struct Decomposed {
  Term exponent;  ///< an integer word
  Term mantissa;
};
template <class T>
[[nodiscard]] Decomposed decompose(const Real<T>& r, Term x);

/// e^x - 1.
template <class T>
[[nodiscard]] Term expm1_core(const Real<T>& r, Term x);

extern template Term exp_core(const Real<float>&, Term, Term);
extern template Term exp_core(const Real<double>&, Term, Term);
extern template Term exp2_core(const Real<float>&, Term, Term);
extern template Term exp2_core(const Real<double>&, Term, Term);
extern template Decomposed decompose(const Real<float>&, Term);
extern template Decomposed decompose(const Real<double>&, Term);
extern template Term expm1_core(const Real<float>&, Term);
extern template Term expm1_core(const Real<double>&, Term);

}  // namespace luminal::math
