#pragma once
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "codegen/schedules/ramp.h"

/// Loops over a group of axes in vectors, and reductions in such loops: what `reduce` and `row` share.
namespace luminal::codegen {

/// How a monoid folds: the operation, the dtype in which it does, and the neutral element's bits there.
struct FoldOp {
  ScalarOp op = ScalarOp::Add;
  Dtype dtype = Dtype::F32;
  uint64_t neutral = 0;
};
/// Half floats are folded in f32 (exactly, where the value is a maximum).
[[nodiscard]] FoldOp fold_op(Monoid monoid, Dtype dtype);
/// `total` and one element more.
Id fold_in(StageBuilder& b, const FoldOp& op, Id total, Id x);

using Coordinates = std::vector<Expression>;

/// Vectors side by side; the last of a group comes alone and may have lanes that are off (Ramp::inside).
using VectorBody = std::function<std::vector<Id>(std::span<const Ramp> ramps, const Coordinates& at,
                                                 std::span<const Id> carried)>;
/// All positions of `group` in vectors of `lanes`, `unroll` at a time, through loops that carry values. The
/// outer axes of the group are loops, its innermost `vector_axes` the vectors' positions. `prepare` readies
/// each ramp for the operands that the body reads.
std::vector<Id> vector_loops(StageBuilder& b, const AxisGroup& group, size_t vector_axes, int lanes,
                             int unroll, Coordinates at, std::vector<Id> carried,
                             const std::function<void(Ramp&)>& prepare, const VectorBody& body);

/// How many of the group's innermost axes one vector position may run over without leaving a row of memory,
/// in all loads and stores of these formulas; all of them if rows are short.
[[nodiscard]] size_t vector_axes_of(const AxisGroup& group, std::span<const Expression> formulas,
                                    int64_t least);

/// One value folded over a group.
struct Fold {
  FoldOp op;
  std::function<Id(const Ramp& ramp, const Coordinates& at)> element;  ///< of the fold's own dtype
};
/// Lanes of `x` that are off replaced by the neutral element.
Id guarded(StageBuilder& b, const Ramp& ramp, const FoldOp& op, Id x);
/// The folds' results as scalars, lanes along the group. The `unroll` vectors that are read side by side are folded into
/// as many totals as there are registers for.
std::vector<Id> fold_lanes(StageBuilder& b, const AxisGroup& group, size_t vector_axes, int lanes, int unroll,
                           const Coordinates& at, std::span<const Fold> folds,
                           const std::function<void(Ramp&)>& prepare);

}  // namespace luminal::codegen
