#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "codegen/block_load.h"
#include "codegen/block_panels.h"
#include "codegen/schedules/reduce.h"
#include "codegen/schedules/vector_loops.h"

/// What the forms of `dot` share: the two sides of its products.
namespace luminal::codegen {

constexpr int kStepElements = 32, kStepSums = kStepElements / 4;  ///< of one dot4

/// Numbers of 8 bits and their scales.
struct DotSide {
  kernel::Operand numbers;               ///< blocks, or I8
  std::optional<kernel::Operand> scale;  ///< F32, beside I8
  int64_t group = 0;                     ///< elements that share scale and offset
  int64_t block = 0;                     ///< rows are whole ones
};

struct BlockDot {
  Reduction reduction;
  DotSide natural, whole;  ///< the sides whose bytes have no sign, and have one
  int64_t length = 0;      ///< of the sum
  int64_t group = 0;       ///< elements that share all scales
  int64_t chunk = 0;       ///< elements whose scales are put together
  /// Neighbours that the lanes of a dot4 hold: as many as they are, or half as many of each of two blocks.
  int64_t run = kStepElements;
  AxisGroup reduced;      ///< its axes: one, or one of groups and one within them
  std::vector<int> rows;  ///< axes of results that `natural` depends on
  std::vector<int> columns;
  [[nodiscard]] int parts() const { return static_cast<int>(kStepElements / run); }  ///< dot4s of a step
  [[nodiscard]] int groups() const { return static_cast<int>(chunk / group); }
};

/// Loads of both sides. Rows and columns are coordinates of results; positions are of the sum.
class DotLoads {
 public:
  DotLoads(const kernel::KernelSpec& spec, BlockDot dot) : spec_(spec), dot_(std::move(dot)) {}
  [[nodiscard]] const BlockDot& dot() const { return dot_; }
  [[nodiscard]] const kernel::KernelSpec& spec() const { return spec_; }
  [[nodiscard]] bool has_offset() const;
  [[nodiscard]] Expression index_of(const kernel::Operand& o, Coordinates at,
                                    const Expression& position) const;

  /// Numbers of a row as a dot4 takes them: `run` neighbours, and as many a block behind them if that leaves room.
  [[nodiscard]] BlockNumbers row_numbers(StageBuilder& b, const Coordinates& row, const Expression& position,
                                         int64_t run) const;
  /// Scales and offsets of the groups of a chunk.
  [[nodiscard]] BlockFactors row_factors(StageBuilder& b, const Coordinates& row,
                                         const Expression& from) const;
  [[nodiscard]] Id column_numbers(StageBuilder& b, const Coordinates& column, const Expression& position,
                                  int64_t run) const;
  [[nodiscard]] Id column_scales(StageBuilder& b, const Coordinates& column, const Expression& from) const;
  /// Sums of the numbers of each group of a chunk, I32.
  [[nodiscard]] Id column_sums(StageBuilder& b, const Coordinates& column, const Expression& from) const;

 private:
  const kernel::KernelSpec& spec_;
  BlockDot dot_;
};

/// sums + factor * the sums of four of the numbers.
[[nodiscard]] Id add_sums(StageBuilder& b, Id sums, Id numbers, int factor);
/// Lane l of lanes: those that `from` names.
[[nodiscard]] std::vector<int> lanes_by(int count, const std::function<int(int)>& from);
/// Lane l = lane pattern[l]; a scalar is in all of them.
[[nodiscard]] Id spread_lanes(StageBuilder& b, Id lanes, const std::vector<int>& pattern);

/// Whether results can be computed in panels of rows where they lie: lanes are rows, and columns are the same for all.
[[nodiscard]] bool has_panels(const BlockDot& dot, const Target& target);
inline constexpr int kRowsInPlace = 16;  ///< of such a panel
/// How weights that stay the same from launch to launch can be packed in panels; nothing where they are none.
[[nodiscard]] std::optional<BlockPanels> packed_panels(const kernel::KernelSpec& spec, const BlockDot& dot,
                                                       const Target& target);
/// Panels of weights that are packed as `panels` says, or else of kRowsInPlace rows where they lie: each is unpacked once
/// and then multiplied with `columns` columns at a time.
[[nodiscard]] Program lower_dot_panels(const kernel::KernelSpec& spec, BlockDot dot,
                                       const std::optional<BlockPanels>& panels, int64_t columns);
/// Tasks of `task` panels, put together in registers for `columns` columns at a time.
[[nodiscard]] Program lower_dot_packed(const kernel::KernelSpec& spec, BlockDot dot,
                                       const BlockPanels& panels, int64_t columns, int64_t task);

}  // namespace luminal::codegen
