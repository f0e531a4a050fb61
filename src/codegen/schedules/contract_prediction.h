#pragma once
#include <compare>
#include <limits>
#include <vector>

#include "codegen/schedules/contract.h"

/// How long a contraction takes in each tiling: what the search for tilings goes by.
namespace luminal::codegen::contract {

/// A contraction at one size, seen from one assignment of the sides.
struct Problem {
  double m = 1, n = 1, k = 1, batch = 1, steps = 1;
  int lanes = 1, element = 4;
  bool plain_m = false, plain_n = false;  ///< one unmasked load: may be read where it lies
  bool masked_m = false, masked_n = false;
  bool frozen_m = false, frozen_n = false;  ///< packed for all tasks, it is packed before the kernel runs
  double weight_m = 0,
         weight_n = 0;          ///< what a side computes and loads beside one tensor, in cycles a vector
  bool even_n = false;          ///< columns are neighbours in memory, all of them
  bool near_n = false;          ///< they are neighbours within rows
  bool second_n = false;        ///< they are every second element within rows
  int64_t row_bytes = 0;        ///< of the left side from one row to the next, if packed rows would be lines
  int64_t left_step_bytes = 0;  ///< of the left side from one summed position to the next, if not lines
  int64_t step_bytes = 0;       ///< of the right side from one summed position to the next
  bool turned = false, lines = false;
  double part_of_m = 1, part_of_n = 1;  ///< of a vector that packing lines, or squares of them, fills
  bool columns_out = true;
  double left_bytes = 0, right_bytes = 0, out_bytes = 0;  ///< of the tensors
  [[nodiscard]] double packed_m() const { return batch * m * k * element; }
  [[nodiscard]] double packed_n() const { return batch * n * k * element; }
  friend auto operator<=>(const Problem&, const Problem&) = default;
};

/// The left side has the rows, unless the operands are swapped.
[[nodiscard]] Problem problem_of(const kernel::KernelSpec& spec, const Contraction& c, bool swap_operands,
                                 const DimMap& top, const Target& target);

/// One way to deal out register tiles to tasks.
struct Dealt {
  int64_t task_m = 1, task_n = 1;            ///< tiles of a task in each direction
  double row_blocks = 1, column_blocks = 1;  ///< tasks in each direction
  double tasks = 1;                          ///< whole tasks' worth of tiles
  double uneven = 1;                         ///< how much longer it takes for threads that wait at the end
  bool waiting = false;  ///< only where sums wait in memory between blocks of summed positions
};

/// Rows of tiles up to which a right side that is not packed may stream by, a few of its rows at a time.
inline constexpr double kMostStreamed = 8;

/// Register tiles of one shape, and the ways to deal them out.
struct Tiles {
  Tiles(const Problem& p, int64_t height, int64_t vectors, const Target& target);
  double height, width;     ///< elements
  double count_m, count_n;  ///< tiles in each direction
  double least_us;          ///< whatever is packed and however they are dealt out
  std::vector<Dealt> dealt;
};

inline constexpr double kNever = std::numeric_limits<double>::infinity();

/// What a tiling makes of a problem, in cycles of all threads together. All that does not depend on how tiles
/// are dealt out is worked out once.
class Prediction {
 public:
  /// The tiling's own task_m and task_n are not looked at.
  Prediction(const Problem& p, const Tiles& tiles, const Tiling& t, const Target& target);
  /// Infinite if it is seen to be more than `most`.
  [[nodiscard]] double us(const Dealt& d, double most) const;
  /// No way to deal out the tiles takes less.
  [[nodiscard]] double least_us() const;

 private:
  /// A stage of the launch packs all of a side.
  [[nodiscard]] bool packs_rows() const { return t_.pack_m == Packing::Shared && !p_.frozen_m; }
  [[nodiscard]] bool packs_columns() const { return t_.pack_n == Packing::Shared && !p_.frozen_n; }
  [[nodiscard]] double step() const;
  [[nodiscard]] double masks() const { return blocks_ > 1 ? 2 : 1; }
  [[nodiscard]] double tile_steps(const Dealt& d) const;
  [[nodiscard]] double trips(const Dealt& d) const;
  [[nodiscard]] double tile_ends(double trips) const;
  [[nodiscard]] double traffic(const Dealt& d) const;
  [[nodiscard]] double panel_traffic(const Dealt& d) const;
  [[nodiscard]] bool fetched_near() const;
  [[nodiscard]] double fetched_traffic(const Dealt& d) const;
  [[nodiscard]] double scatter(int64_t tiles_of_task, double part, double whole) const;
  void set_packing();
  [[nodiscard]] double packing(const Dealt& d) const;

  const Problem& p_;
  const Tiles& tiles_;
  Tiling t_;
  const Target& target_;
  double l1_, l2_, all_;  ///< bytes; tiles of all batches
  double splits_, blocks_ = 1, depth_ = 1, panel_bytes_ = 0;
  bool far_ = false;  ///< the tensors do not fit the second cache
  double tile_steps_ = 0, least_cycles_ = 0, stages_us_ = 0;
  /// What packing takes: for each column of blocks (if there is one row of them, or several), for each row of
  /// blocks, and at all.
  double pack_m_one_block_ = 0, pack_m_ = 0, pack_n_ = 0, packed_ = 0;
};

}  // namespace luminal::codegen::contract
