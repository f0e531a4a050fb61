#pragma once
#include "kernel/spec.h"
#include "luminal/math_mode.h"

namespace luminal::kernel {

/// A spec in canonical form and where its slots came from.
struct Canonical {
  KernelSpec spec;
  /// slot k of `spec` reads what slot `slots[k]` of the parts read. Slots nobody reads are dropped.
  std::vector<int> slots;
};

/// The canonical form of `parts`: dead values dropped, equal values joined; an axis used only through / and %
/// by one divisor is split, axes that lie one behind the other in all loads and stores are merged, axes of
/// extent 1 vanish; parallel axes are numbered in output order, others by first use; operands of commutative
/// operations, reduced axes and slots are ordered by content. So composing in any order gives the same spec.
/// `arguments`, if given, says which slots hold the same tensor (equal entries): those are joined into one.
/// Relaxed mode: a load that multiplies one that padding makes 0 asks for no more than keeps it in its buffer
/// (0 * x is 0: the padding of a gradient says nothing of the weights it meets), and sums say whether such terms
/// vanish and whether they can follow a rising maximum (Value::masked_terms_vanish, Value::online). Sums of products with
/// elements of one-hot rows are sums of choices (one_term.h).
[[nodiscard]] Canonical canonical(SpecParts parts, std::span<const uint32_t> arguments = {},
                                  MathMode mode = MathMode::Relaxed);

}  // namespace luminal::kernel
