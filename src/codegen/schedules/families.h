#pragma once
#include "codegen/schedule.h"

/// The families, one file each. schedules.cpp lists them.
namespace luminal::codegen {

[[nodiscard]] const Schedule& contract_schedule();
[[nodiscard]] const Schedule& map_schedule();
[[nodiscard]] const Schedule& nest_schedule();
[[nodiscard]] const Schedule& reduce_schedule();
[[nodiscard]] const Schedule& row_schedule();

}  // namespace luminal::codegen
