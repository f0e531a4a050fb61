#pragma once
#include <span>
#include <vector>

#include "codegen/schedule.h"

/// Families that take a spec apart and leave its parts to other families.
namespace luminal::codegen {

/// How one part may be lowered.
struct Way {
  const Schedule* family = nullptr;
  Candidate candidate;
};

/// The best first. `most`: 1 asks each family for its best alone.
[[nodiscard]] std::vector<Way> ways_of(const kernel::KernelSpec& part, const Bucket& bucket,
                                       const Target& target, size_t most);
/// Parameters of a way, for part `number`: "2.contract.tile_m".
void add_parameters(Parameters& all, size_t number, const Way& way);
/// The way that the parameters name for part `number`. Errors: InternalError if there is none.
[[nodiscard]] Way way_of(const Parameters& all, size_t number);

}  // namespace luminal::codegen
