#pragma once
#include <optional>
#include <span>
#include <vector>

#include "codegen/schedule.h"
#include "codegen/schedules/ramp.h"
#include "codegen/schedules/vector_loops.h"
#include "kernel/spec.h"

/// What the lowering and the candidates of `reduce` share: what a spec folds, and the family's parameters.
namespace luminal::codegen {

struct Reduction {
  std::vector<int> values;  ///< the folded ones
  std::vector<int> axes, reduced;
};
/// Nothing where the spec's values are not folded over the same axes.
[[nodiscard]] std::optional<Reduction> analyse_reduction(const kernel::KernelSpec& spec);
/// How each of them folds.
[[nodiscard]] std::vector<FoldOp> fold_ops(const kernel::KernelSpec& spec, const Reduction& r);
/// Memory of the launch for what each of `elements` parts comes to, a buffer for each fold.
[[nodiscard]] std::vector<int> add_parts(Program& program, std::span<const FoldOp> ops,
                                         const Expression& elements);
/// What the folded value `v` folds at these coordinates, in the fold's own dtype.
[[nodiscard]] Id folded_element(StageBuilder& b, const kernel::KernelSpec& spec, int v, const FoldOp& op,
                                const Ramp& ramp, std::span<const Expression> at);
/// Computes and stores all outputs of the results at these coordinates. `totals`: of the folds, in their dtypes.
void write_results(StageBuilder& b, const kernel::KernelSpec& spec, const Reduction& r, const Ramp& ramp,
                   std::span<const Expression> at, std::span<const Id> totals);
/// Whether `v` reads, if only through others, a folded value.
[[nodiscard]] bool reads_fold(const kernel::KernelSpec& spec, int v);
/// The reduced axes, those along which loads move farthest first.
[[nodiscard]] std::vector<int> reduced_by_stride(const kernel::KernelSpec& spec, const Reduction& r,
                                                 const DimMap& top);
/// The axes of results along which the largest operand of the folds does not move though others do: of a product of few
/// rows and a large matrix, the rows. Empty where there are none, or only those.
[[nodiscard]] std::vector<int> shared_axes(const kernel::KernelSpec& spec, const Reduction& r,
                                           const DimMap& top);
/// Of the reduced axes those, counted from the innermost, along which lanes run.
[[nodiscard]] size_t axes_of_lanes(const kernel::KernelSpec& spec, const Reduction& r,
                                   const AxisGroup& reduced, int lanes);

/// One position of a window in one of several rows that are taken together: rows of results and reduced positions
/// (a convolution), or reduced rows and results (its weights' gradient).
struct WindowStep {
  int64_t row = 0, position = 0;
};
/// Elements that a load touches at one step, where all other coordinates (of `axes`) are 0.
[[nodiscard]] int64_t element_at(const kernel::Operand& load, const AxisGroup& window, size_t axes,
                                 int row_axis, const WindowStep& step, const DimMap& top);
/// All steps of `rows` neighbours along `row_axis`, ordered so that those which read the same elements of what
/// differs between rows come one after the other.
[[nodiscard]] std::vector<WindowStep> window_steps(const kernel::KernelSpec& spec, const Reduction& r,
                                                   const AxisGroup& window, int row_axis, int64_t rows,
                                                   const DimMap& top);
/// Of the elements that `rows` neighbours read through a load, the part that is not read twice.
[[nodiscard]] double distinct_share(const kernel::Operand& load, const AxisGroup& window, size_t axes,
                                    int row_axis, int64_t rows, const DimMap& top);
/// Lanes for rows of vectors over `columns` results: no more than there are.
[[nodiscard]] int tile_lanes(int64_t columns, int most);

/// The parameters: `along` 1 puts lanes along the reduced axes, 0 along the others; `unroll` accumulators (or
/// vectors of results) side by side; `rows` results together (along 1), or rows of vectors (with `inner`); `across`
/// positions of the shared axes together, for each of the `rows` results of the others (along 1); `task` such groups in
/// a task; `splits` tasks that share a result. `inner` axes of results hold the vectors,
/// 0 for all of them (along 0), or are a window that is made together, 0 for none (along 1). `held`
/// (along 0) reduced positions, 0 for all of them, are folded into one group before the next group's turn: totals wait in
/// memory, and a task walks through its part of the tensor row by row as it lies there.
struct ReduceForm {
  int64_t along = 1, unroll = 4, rows = 1, task = 1, splits = 1, held = 0, inner = 0, across = 1;

  static ReduceForm of(const Parameters& p) {
    return {p.at("along"),
            p.at("unroll"),
            p.at("rows"),
            p.at("task"),
            p.at("splits"),
            parameter_or(p, "held", 0),
            parameter_or(p, "inner", 0),
            parameter_or(p, "across", 1)};
  }
  [[nodiscard]] Parameters parameters() const {
    return {{"along", along},   {"unroll", unroll}, {"rows", rows},   {"task", task},
            {"splits", splits}, {"held", held},     {"inner", inner}, {"across", across}};
  }
  friend bool operator==(const ReduceForm&, const ReduceForm&) = default;
};

/// The most promising parameters, best first.
[[nodiscard]] std::vector<Candidate> reduce_candidates(const kernel::KernelSpec& original,
                                                       const Bucket& bucket, const Target& target);

}  // namespace luminal::codegen
