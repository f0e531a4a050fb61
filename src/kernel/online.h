#pragma once
#include <optional>
#include <span>

#include "kernel/spec.h"

/// Sums that can follow a rising maximum (Milakov and Gimelshein 2018, "Online normalizer calculation for
/// softmax").
///
///   m = max j: x(j)
///   l = sum j: exp2((x(j) - m) * c) * w(j)        // c > 0
///
/// While m rises from m' to m, what l has added so far is right once it is multiplied by exp2((m' - m) * c).
/// No term grows: x <= m always. Instead of m itself the exponent may subtract a formula u(m) that rises with
/// it, such as max(m, k). While m is minus infinity nothing has been added.
namespace luminal::kernel {

struct Online {
  int maximum = -1;  ///< the value m
  /// What a partial sum is multiplied by. Inputs: the sum's operands, of which it reads those free of the
  /// summed axes, then the maximum before and after.
  ScalarFunction rescale;
  /// What the whole sum is multiplied by if the maximum is minus infinity to the end: the exponential for x
  /// and m of minus infinity. Inputs: the sum's operands, then the maximum.
  ScalarFunction nothing;
  /// The sum's terms with what is maximised as a further input behind the operands: it need not be computed
  /// again.
  ScalarFunction terms;
};
/// How value `sum` follows a maximum, if it does: it reads no other value over its summed axes.
[[nodiscard]] std::optional<Online> online_of(std::span<const Value> values, int sum);

/// Whether value `fold` could be folded in one walk with those it reads over the same axes: it reads none, follows a
/// maximum, or would read none without factors that do not depend on these axes.
[[nodiscard]] bool joins_walk(std::span<const Value> values, int fold);

}  // namespace luminal::kernel
