#pragma once
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "codegen/schedules/pick.h"
#include "kernel/spec.h"

namespace luminal::codegen {

/// What the `row` family takes: values folded over whole rows, perhaps from one another, and values along the
/// rows; e.g. softmax: maximum, then sum of exponentials, then quotients.
struct Rows {
  std::vector<int> parallel;             ///< axes that number the rows; none of extent 1
  std::vector<int> along;                ///< axes of a row
  std::vector<std::vector<int>> passes;  ///< folded values by the pass over the row that can fold them
  std::vector<int> level;                ///< by value: passes that must be done before it can be computed
  Picks picks;                           ///< sums that need no pass: one element of the row is all they read
  [[nodiscard]] bool is_fold(const kernel::KernelSpec& spec, int v) const {
    return spec.values()[static_cast<size_t>(v)].monoid && !picks.contains(v);
  }
};
[[nodiscard]] std::optional<Rows> rows_of(const kernel::KernelSpec& spec);

/// What is worth keeping from one pass for a later one: a whole body, by the value whose body it is, and the
/// bodies of later values with that part replaced by an input.
struct KeptParts {
  struct Body {
    ScalarFunction function;  ///< input k is operand k of the value; behind those come kept parts
    std::vector<int> kept;    ///< which part each further input is
  };
  std::vector<int> parts;      ///< values whose body (before folding) is kept
  std::map<int, Body> bodies;  ///< by value, for those that read parts
};
/// Parts with at least `least_weight` operations that a later pass computes again.
[[nodiscard]] KeptParts kept_parts(const kernel::KernelSpec& spec, const Rows& rows, int least_weight);

/// Values along the row that several passes read (exponentials that are summed and then divided), with at
/// least `least_weight` operations each: the first of these passes may keep them for the others.
struct KeptValues {
  std::vector<int> values;
  std::vector<std::set<size_t>> readers;  ///< by value of the spec: passes that read it; writing is the last
};
[[nodiscard]] KeptValues kept_values(const kernel::KernelSpec& spec, const Rows& rows, int least_weight);

}  // namespace luminal::codegen
