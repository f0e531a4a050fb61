#pragma once
#include <map>
#include <span>

#include "codegen/schedules/ramp.h"
#include "kernel/one_term.h"

/// Sums of which one term at most is not 0, in families that compute elements of a result side by side.
namespace luminal::codegen {

/// By value of the spec.
using Picks = std::map<int, kernel::OneTerm>;
/// What is such a sum, and reads nothing that lies in blocks at its place.
[[nodiscard]] Picks picks_in(const kernel::KernelSpec& spec);

/// What the sum `value` comes to at the ramp's elements: the place is computed, and what lies there is all that is read.
/// `at`, `known`: as of Ramp::evaluate.
[[nodiscard]] Id picked(StageBuilder& b, const kernel::KernelSpec& spec, int value,
                        const kernel::OneTerm& term, const Ramp& ramp, std::span<const Expression> at,
                        std::map<int, Id>& known);

}  // namespace luminal::codegen
