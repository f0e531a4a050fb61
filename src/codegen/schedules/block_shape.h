#pragma once
#include <span>
#include <vector>

#include "codegen/schedules/vector_loops.h"
#include "codegen/target.h"

/// What the families for blocks of threads share.
namespace luminal::codegen {

/// How the threads of a block share results: each of `results` is made by threads / results of them, which fold every
/// so many-th position of it. Neighbours share a result if `along`, otherwise they have neighbouring results.
struct BlockShape {
  int threads = 128;
  int results = 1;  ///< powers of two
  bool along = true;

  [[nodiscard]] int sharers() const { return threads / results; }
  /// Of a thread, its result and which of the sharers it is.
  [[nodiscard]] Expression result(const Expression& thread) const {
    return along ? thread / sharers() : thread % results;
  }
  [[nodiscard]] Expression share(const Expression& thread) const {
    return along ? thread % sharers() : thread / results;
  }
  /// From the number of a thread to that of the next sharer.
  [[nodiscard]] int64_t step() const { return along ? 1 : results; }
};

/// The totals of all sharers folded as a tree in memory of the block. All threads of a block call it, and all sharers get
/// the result. Memory of an earlier call may still be read: each call has its own.
[[nodiscard]] std::vector<Id> fold_threads(StageBuilder& b, Program& program, const BlockShape& shape,
                                           std::span<const FoldOp> ops, std::vector<Id> totals);
/// Bytes that it takes of the block.
[[nodiscard]] int64_t fold_bytes(const BlockShape& shape, std::span<const FoldOp> ops);
/// Barriers that it has.
[[nodiscard]] int fold_barriers(const BlockShape& shape);

/// The positions along which accesses follow one another: where threads run at once those of neighbours, otherwise the
/// ones of a thread, which walks along the folded axes.
[[nodiscard]] inline const AxisGroup& accessed_along(const BlockShape& shape, const AxisGroup& results,
                                                     const AxisGroup& folded, const Target& target) {
  return shape.along || target.block_width == 1 ? folded : results;
}
/// Cycles of a thread for loading these operands, whose accesses follow one another along `group`.
[[nodiscard]] double thread_load_cycles(const kernel::KernelSpec& spec,
                                        std::span<const kernel::Operand> operands, const AxisGroup& group);
/// Sizes of blocks that the target can run, of those that are worth a try.
[[nodiscard]] std::vector<int> block_sizes(const Target& target);
/// Cycles of so many blocks, for a prediction: each thread takes `cycles`, beside what blocks and barriers cost. Where
/// threads run one after the other each waits in memory at every barrier.
[[nodiscard]] double block_cycles(const Target& target, double blocks, int threads, double cycles,
                                  double barriers);
/// The prediction of a family whose blocks take so many cycles together.
[[nodiscard]] double block_us(const kernel::KernelSpec& spec, const DimMap& top, const Target& target,
                              double cycles, double blocks, int stages = 1);

}  // namespace luminal::codegen
