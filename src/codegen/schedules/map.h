#pragma once
#include <map>
#include <utility>
#include <vector>

#include "codegen/schedule.h"
#include "codegen/schedules/interior.h"
#include "codegen/schedules/task_grid.h"

/// Inside of the `map` family (map.cpp says what it does).
namespace luminal::codegen::map {

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

}  // namespace luminal::codegen::map
