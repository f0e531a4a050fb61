#pragma once
#include <optional>
#include <vector>

#include "codegen/schedules/contract.h"

namespace luminal::codegen::contract {

/// A handful of tilings of a contraction, best prediction first. Sizes are those of `top`.
[[nodiscard]] std::vector<Candidate> candidates(const kernel::KernelSpec& spec,
                                                const Contraction& contraction, const DimMap& top,
                                                const Target& target);
/// The first of them, in less time.
[[nodiscard]] std::optional<Candidate> best_candidate(const kernel::KernelSpec& spec,
                                                      const Contraction& contraction, const DimMap& top,
                                                      const Target& target);

}  // namespace luminal::codegen::contract
