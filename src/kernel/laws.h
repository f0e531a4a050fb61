#pragma once
#include <optional>

#include "kernel/compose.h"

/// The algebra of specs behind the rules: partial functions that a rule calls on `(Op spec args)`. Each
/// returns empty where its law does not apply. `slots` say what becomes of the arguments. None knows an op by
/// name.
namespace luminal::kernel {

/// The slot whose tensor the spec copies unchanged (x + 0, x * 1, a no-op copy), or empty.
[[nodiscard]] std::optional<int> identity_of(const KernelSpec& spec);
/// A pure copy through a view: one value, the body its single load.
[[nodiscard]] bool is_copy(const KernelSpec& spec);
/// The constant every element is, if it is one.
[[nodiscard]] std::optional<Number> constant_of(const KernelSpec& spec);

/// A factor that does not depend on the reduced axes leaves a sum: outer(inner(..), factor).
struct Split {
  KernelSpec outer;
  std::vector<int>
      outer_slots;  ///< arguments of outer: -1 is the inner's result, others slots of the original spec
  KernelSpec inner;
  std::vector<int> inner_slots;  ///< slots of the original spec
};
[[nodiscard]] std::optional<Split> leave_sum(const KernelSpec& spec);

/// A constant folded in: slot `slot` always reads `value`.
[[nodiscard]] std::optional<Composed> fold_constant(const KernelSpec& spec, int slot, Number value);

}  // namespace luminal::kernel
