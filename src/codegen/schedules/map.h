#pragma once
#include <map>
#include <utility>
#include <vector>

#include "codegen/schedule.h"
#include "codegen/schedules/interior.h"
#include "codegen/schedules/task_grid.h"

/// Inside of the `map` family (map.cpp says what it does).
namespace luminal::codegen::map {

/// Whether nothing is folded and all outputs have the same axes.
[[nodiscard]] bool takes(const kernel::KernelSpec& spec);
/// Computes and stores all outputs at these elements.
void store_outputs(const kernel::KernelSpec& spec, const Ramp& ramp, const Coordinates& at,
                   std::map<int, Id>& known, bool streaming);
void prepare(const kernel::KernelSpec& spec, Ramp& ramp);

/// Loads that lie along `axis` in memory while the result lies along another.
struct Turned {
  int axis = -1;
  std::vector<std::pair<int, int>> loads;  ///< (value, operand)
};
[[nodiscard]] Turned turned_loads(const kernel::KernelSpec& spec);
/// Squares of lanes by lanes elements: turned loads run along their own axis and are transposed in registers.
[[nodiscard]] Program lower_tiles(const kernel::KernelSpec& spec, const Parameters& parameters,
                                  const DimMap& top, const Target& target);

/// An axis along which loads and choices come and go at fixed places (parts that are joined, the padded parts of
/// a sum): between two places every predicate of that axis alone is known.
struct Cuts {
  int axis = -1;
  std::vector<int64_t> places;  ///< ascending, from 0 to the axis's extent
};
/// Axes of the result that are worth cutting: where at least two loads are not there everywhere.
[[nodiscard]] std::vector<Cuts> cuts_of(const kernel::KernelSpec& spec);
/// The spec between `places[number]` and the next place: its index variable of the axis counts from there, what
/// is known has left its masks and bodies. Values, slots and outputs keep their numbers.
[[nodiscard]] kernel::KernelSpec piece_of(const kernel::KernelSpec& spec, const Cuts& cuts, size_t number);

}  // namespace luminal::codegen::map
