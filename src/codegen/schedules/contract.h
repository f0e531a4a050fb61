#pragma once
#include <compare>
#include <map>
#include <optional>
#include <vector>

#include "codegen/schedule.h"
#include "codegen/schedules/ramp.h"

/// Inside of the `contract` family (contract.cpp says what it does): what a contraction is, how it is tiled,
/// and the pieces that emit its loops.
namespace luminal::codegen::contract {

/// One side of the product: a body over operands of the spec.
struct Factor {
  ScalarFunction body;
  std::vector<kernel::Operand> operands;
};
[[nodiscard]] std::vector<const kernel::Operand*> read_by(const Factor& f);
/// Whether all that the factor is made of lies in frozen slots (kernel::Slot): what is packed of it may be kept.
[[nodiscard]] bool is_frozen(const kernel::KernelSpec& spec, const Factor& f);
/// Whether a mask of what the factor reads depends on the axis.
[[nodiscard]] bool masked_along(const Factor& f, int axis);

/// sum over `summed` of left * right; axes of the sum sorted by who uses them.
struct Contraction {
  int sum = -1;  ///< the value
  Dtype dtype = Dtype::F32;
  std::vector<int> batch;    ///< both
  std::vector<int> rows;     ///< left only
  std::vector<int> columns;  ///< right only
  std::vector<int> summed;
  Factor left, right;
};
/// Empty if the spec is no contraction: one sum of a product whose sides can be told apart, all outputs at
/// the sum's coordinates or along further axes as well. One side may have no axes of its own (a matrix times a vector).
[[nodiscard]] std::optional<Contraction> analyse(const kernel::KernelSpec& spec);

/// Where a side's elements come from in the inner loop.
enum class Packing : int64_t {
  Direct = 0,  ///< the tensor itself
  Task = 1,    ///< panels that each task packs for itself
  Shared = 2,  ///< panels packed by a stage of their own
};

/// The parameters. A register tile has tile_m rows of tile_n vectors; a task has task_m by task_n tiles.
struct Tiling {
  bool swap_operands = false;  ///< the transposed product: vectors run along the left side's axes
  int64_t tile_m = 14, tile_n = 2;
  int64_t task_m = 8, task_n = 8;
  int64_t depth = 0;   ///< steps of the first summed axis that one block adds; 0: all
  int64_t splits = 1;  ///< tasks that share one tile's sum
  /// Steps of the sum that columns are fetched ahead: of a packed panel; of columns that are read where they lie, as many
  /// panels further on as have so many steps together. 0: as the processor does by itself.
  int64_t ahead = 0;
  Packing pack_m = Packing::Shared, pack_n = Packing::Shared;
  friend auto operator<=>(const Tiling&, const Tiling&) = default;
};
[[nodiscard]] Tiling tiling_of(const Parameters& parameters);
[[nodiscard]] Parameters parameters_of(const Tiling& tiling);

/// A contraction laid out for one tiling. M rows, N columns, K summed positions.
struct Layout {
  const kernel::KernelSpec* spec = nullptr;
  Contraction c;
  Tiling t;
  int lanes = 1;
  AxisGroup batch, rows, columns, summed;
  Expression m, n, k;
  Expression tiles;        ///< of rows
  Expression panels;       ///< of columns
  Expression inner;        ///< summed positions for each step of the first summed axis
  Expression depth;        ///< steps of the first summed axis in a block
  Expression blocks;       ///< of the first summed axis
  Expression task_blocks;  ///< that one task adds
  bool lines = false;      ///< packed rows lie one behind the other along K; otherwise K steps of tile_m rows
  bool turned = false;     ///< packing columns transposes: the tensor is contiguous along K
  int64_t left_line = 0,
          right_line = 0;   ///< elements of a side that lie one behind the other along K; 0: none
  bool columns_out = true;  ///< results are written along columns; otherwise along rows

  [[nodiscard]] int64_t tile_columns() const { return t.tile_n * lanes; }
  /// Steps `from` .. `from + count` of the first summed axis.
  [[nodiscard]] AxisGroup block(const Expression& from, const Expression& count) const;
  /// Elements from one packed row to the next (lines) for `steps` of the first summed axis: whole vectors,
  /// and not a power of two, so that the rows of a tile do not meet in one cache set.
  [[nodiscard]] Expression line(const Expression& steps) const;
  /// Elements of one packed tile of rows, of one packed panel of columns.
  [[nodiscard]] Expression row_tile_elements(const Expression& steps) const;
  [[nodiscard]] Expression panel_elements(const Expression& steps) const;
  [[nodiscard]] bool accumulates_in_memory() const { return t.splits > 1 || task_blocks != Expression(1); }
};
[[nodiscard]] Layout lay_out(const kernel::KernelSpec& spec, const Contraction& contraction,
                             const Tiling& tiling, const DimMap& top, int lanes);

using Coordinates = std::vector<Expression>;

/// Calls `body` for every position of `group` with the coordinates set and the position from 0. `order`: the
/// group's axes from the outermost loop to the innermost (empty: as they are).
void for_each_position(StageBuilder& b, const AxisGroup& group, Coordinates at, std::vector<size_t> order,
                       const std::function<void(const Coordinates& at, const Expression& position)>& body);

/// Makes a ramp ready for all that a side of the product reads.
void prepare_side(Ramp& ramp, const Layout& l, const Factor& f);

/// Packs panel `panel` of columns over the summed positions of `range`: position p, column j of the panel to
/// buffer[base + p * tile_columns + j].
void pack_panel(StageBuilder& b, const Layout& l, const Coordinates& at, const Expression& panel,
                const AxisGroup& range, int buffer, const Expression& base);
/// Whether the columns of one summed position are one piece of memory, so that packing many panels at a time
/// reads memory as it lies.
[[nodiscard]] bool packs_rows_of_panels(const Layout& l);
/// Packs panels first .. first + count, the loop over panels inside: panel j of them to base + j *
/// panel_size. Only where packs_rows_of_panels.
void pack_panels(StageBuilder& b, const Layout& l, const Coordinates& at, const Expression& first,
                 const Expression& count, const AxisGroup& range, int buffer, const Expression& base,
                 const Expression& panel_size, bool streaming);
/// Packs `count` tiles of rows from tile `first`: row r of them, position p to buffer[base + r * line + p]
/// (lines), otherwise buffer[base + (r / tile_m) * tile_elements + p * tile_m + r % tile_m]. Rows of the last
/// tile that are not there become zeros.
void pack_row_tiles(StageBuilder& b, const Layout& l, const Coordinates& at, const Expression& first,
                    const Expression& count, const AxisGroup& range, int buffer, const Expression& base,
                    const Expression& line, const Expression& tile_elements);

/// Where the inner loop reads one side: packed at buffer[base + ...], or the tensor itself (buffer -1).
struct Source {
  int buffer = -1;
  Expression base = 0;
  Expression line = 0;  ///< rows in lines
};
/// tile += sum over `range`: one register tile at (tile, panel), rows one after the other. `registers`: those for
/// vectors that the target has.
std::vector<Id> add_products(StageBuilder& b, const Layout& l, const Coordinates& at, const Expression& tile,
                             std::span<const Ramp> columns, const AxisGroup& range, const Source& row_source,
                             const Source& column_source, int registers, std::vector<Id> accumulators);

/// Ramps over the columns of a panel, ready for all that is loaded and stored there.
[[nodiscard]] std::vector<Ramp> column_runs(StageBuilder& b, const Layout& l, const Expression& panel);
/// Writes the outputs of a tile whose sums are in registers.
void write_registers(StageBuilder& b, const Layout& l, Coordinates at, const Expression& tile,
                     std::span<const Ramp> columns, std::span<const Id> sums);
/// Writes the outputs of a tile whose sums `sums` gives: elements offset + lane * stride of the row-major
/// tile.
using TileSums = std::function<Id(const Expression& offset, int lanes, int64_t stride, Id mask)>;
void write_tile(StageBuilder& b, const Layout& l, Coordinates at, const Expression& tile,
                const Expression& panel, const TileSums& sums);

}  // namespace luminal::codegen::contract
