#pragma once
#include <functional>
#include <vector>

#include "codegen/schedules/ramp.h"
#include "codegen/target.h"

/// A box of coordinates cut into tasks, rows and blocks of lanes: how element by element families visit it.
namespace luminal::codegen {

using Coordinates = std::vector<Expression>;

/// Rows are positions of the outer axes; a block is `width` consecutive positions of the inner ones.
struct TaskGrid {
  AxisGroup outer, inner;
  int64_t width = 16;
  int64_t rows_per_task = 1, blocks_per_task = 1;

  [[nodiscard]] Expression rows() const { return outer.size(); }
  [[nodiscard]] Expression blocks() const { return inner.size().ceil_div(width); }
  [[nodiscard]] Expression tasks() const {
    return rows().ceil_div(rows_per_task) * blocks().ceil_div(blocks_per_task);
  }
  /// The loops of task number `task` of tasks(). `on_row` is called with the outer coordinates set,
  /// `on_block` inside it with the position of the block's first lane.
  void visit(StageBuilder& b, const Expression& task, size_t axis_count,
             const std::function<void(const Coordinates& at)>& on_row,
             const std::function<void(const Coordinates& at, const Expression& start)>& on_block) const;
  /// Of a stage of tasks().
  void visit(StageBuilder& b, size_t axis_count, const std::function<void(const Coordinates& at)>& on_row,
             const std::function<void(const Coordinates& at, const Expression& start)>& on_block) const {
    visit(b, b.task(), axis_count, on_row, on_block);
  }
};

/// Blocks of `width` over the innermost `inner_axes` of `axes`, which are in a result's memory order.
[[nodiscard]] TaskGrid grid_of(std::span<const Expression> extents, const std::vector<int>& axes,
                               int64_t inner_axes, int64_t width);

/// Tasks large enough to be worth handing out and enough of them for the threads, rows whole where there are enough
/// rows. `per_thread`: about so many for each, of which several even out what other programs take.
void cut_into_tasks(TaskGrid& grid, double cycles_per_block, const DimMap& top, const Target& target,
                    int per_thread = 4);

/// Lanes, in one register, of the widest type that the bodies compute with; what no axis changes is a scalar, and an index
/// that is only converted is as wide as what it is converted to.
[[nodiscard]] int natural_lanes(const kernel::KernelSpec& spec, const Target& target);
/// `axes` from the outermost to the innermost in the memory of a dense tensor at `index`.
[[nodiscard]] std::vector<int> memory_order(const kernel::KernelSpec& spec, std::span<const int> axes,
                                            const Expression& index);
[[nodiscard]] std::vector<int> memory_order(const kernel::KernelSpec& spec, const kernel::Output& output);
}  // namespace luminal::codegen
