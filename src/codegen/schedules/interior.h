#pragma once
#include <functional>
#include <span>
#include <vector>

#include "codegen/schedules/task_grid.h"
#include "kernel/axes.h"

/// Blocks of lanes where padded loads read inside, so that they need no masks.
namespace luminal::codegen {

/// A spec without the masks that are known to hold wherever all `conditions` do.
struct Interior {
  /// 1 at the first or the last lane of the block.
  struct Condition {
    Expression predicate;
    bool at_last = false;
    friend bool operator==(const Condition&, const Condition&) = default;
  };
  kernel::KernelSpec spec;
  std::vector<Condition> conditions;
  /// Whether they hold for the block of `width` lanes from `start`; `at`: coordinates of the other axes.
  [[nodiscard]] Expression holds(const AxisGroup& inner, const Coordinates& at, const Expression& start,
                                 int64_t width) const;
};
/// Masks leave if their parts are affine in the only axis of `inner` and in the `window` axes, which are looped
/// over inside the block, or if they depend on neither.
[[nodiscard]] Interior interior_of(const kernel::KernelSpec& spec, const AxisGroup& inner,
                                   kernel::AxisSet window = 0);

/// body(true) where the condition is 1, otherwise body(false).
void guarded(StageBuilder& b, const Expression& condition, const std::function<void(bool inside)>& body);

}  // namespace luminal::codegen
