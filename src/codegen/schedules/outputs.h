#pragma once
#include <map>

#include "codegen/schedules/ramp.h"
#include "kernel/axes.h"

/// Stores of results that have more axes than the loops which compute them.
namespace luminal::codegen {

/// Whether every output has the axes `bound`, and others only where `spec` does not reduce over them: a sum that
/// is read along axes it does not have.
[[nodiscard]] bool stores_from(const kernel::KernelSpec& spec, kernel::AxisSet bound);

/// Computes and stores all outputs at the coordinates `at` of the axes `bound`, at each position of their other
/// axes. `known`: values that were computed there.
void store_outputs_from(StageBuilder& b, const kernel::KernelSpec& spec, kernel::AxisSet bound,
                        const Ramp& ramp, std::span<const Expression> at, const std::map<int, Id>& known);

}  // namespace luminal::codegen
