#pragma once
#include <optional>
#include <vector>

#include "kernel/spec.h"

/// Results that need not be computed everywhere.
namespace luminal::kernel {

/// A condition where it does not hold results are constants, and an axis of it: the experts of a mixture, of which each
/// token uses a few,
///
///   e in 128, o in 2048: Y[e,o] = where(C[e], sum i in 768: W[e,o,i] * X[i], 0)
///
/// Where no element of C at a place of the axis holds, nothing needs to be computed, nor read, for that place.
struct Branch {
  int axis = 0;
  int64_t places = 1;               ///< the axis's extent
  Operand condition;                ///< a load of bool
  std::vector<int> others;          ///< the condition's other axes
  std::vector<uint64_t> constants;  ///< of each output where the condition does not hold, as bits
};
/// Nothing where there is no such condition, no fold that differs from place to place, or where places, at
/// these sizes, are small or share most of what they read.
[[nodiscard]] std::optional<Branch> branch_of(const KernelSpec& spec, const DimMap& dims);

/// The part of the places at which a condition is likely to hold somewhere.
[[nodiscard]] double expected_share(const KernelSpec& spec, const Branch& branch, const DimMap& dims);

}  // namespace luminal::kernel
