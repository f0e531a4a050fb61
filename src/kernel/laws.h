#pragma once
#include <optional>

#include "kernel/compose.h"
#include "luminal/math_mode.h"

/// The algebra of specs behind the rules: partial functions that a rule calls on `(Op kernel)`. Each
/// returns empty where its law does not apply. `slots` say what becomes of the arguments. None knows an op by
/// name. Each says which math mode it belongs to: strict keeps every bit (but for the order within a sum),
/// relaxed is right over the reals.
namespace luminal::kernel {

/// The slot whose tensor the spec copies unchanged, or empty. Strict: x * 1, x - 0, max(x, least), a no-op
/// copy. Relaxed: also x + 0, which turns -0 into 0.
[[nodiscard]] std::optional<int> identity_of(const KernelSpec& spec, MathMode mode = MathMode::Strict);
/// A pure copy through a view: one value, the body its single load.
[[nodiscard]] bool is_copy(const KernelSpec& spec);
/// The constant every element is, if it is one.
[[nodiscard]] std::optional<Number> constant_of(const KernelSpec& spec);

/// A spec taken apart in two: outer(inner(..), ..).
struct Split {
  KernelSpec outer;
  std::vector<int>
      outer_slots;  ///< arguments of outer: -1 is the inner's result, others slots of the original spec
  KernelSpec inner;
  std::vector<int> inner_slots;  ///< slots of the original spec
};
/// Factors that do not depend on the reduced axes leave a sum: sum x * f = (sum x) * f, f a constant too;
/// divisors and signs likewise, and out of a choice between a product and zero: where(c, x * f, 0) =
/// where(c, x, 0) * f. The terms of the product that stay keep their order. Strict for integers (they wrap).
/// Fast for floats: nobody knows f, so sum x may overflow where sum x * f does not, and where(c, x, 0) * f
/// is NaN for an infinite f that is never chosen.
[[nodiscard]] std::optional<Split> leave_sum(const KernelSpec& spec);

/// How many times as large as in the plain graph relaxed mode lets an intermediate result become, at most.
inline constexpr double kMostGrowth = 0x1p24;
/// The same for constants alone, of which no product is below 1 / kMostGrowth: relaxed for floats. It brings
/// new overflow only where the sum of the terms' magnitudes was above 1 / kMostGrowth of the greatest number
/// (2.0e31 for f32), and no NaN but by that.
[[nodiscard]] std::optional<Split> leave_sum_constants(const KernelSpec& spec);
/// A constant factor above 0 leaves a maximum: max x * c = (max x) * c. Strict for floats, because rounding
/// is monotone; integers might wrap and stay.
[[nodiscard]] std::optional<Split> leave_max(const KernelSpec& spec);

/// A constant folded in: slot `slot` always reads `value`. Strict.
[[nodiscard]] std::optional<Composed> fold_constant(const KernelSpec& spec, int slot, Number value);

/// Axes that a reduction's body does not depend on: the sum of n equal terms is n times one (strict for
/// integers, relaxed for floats), their maximum is the term itself (strict, for extents known to be at least
/// 1).
[[nodiscard]] std::optional<Composed> reduce_repeated(const KernelSpec& spec);

}  // namespace luminal::kernel
