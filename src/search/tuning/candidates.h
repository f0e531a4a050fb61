#pragma once
#include <vector>

#include "search/tuning/job.h"

namespace luminal::search {

struct Candidates {
  std::vector<Tried> promising;  ///< the model's choice first
  std::vector<Tried> hopeless;   ///< not worth compiling while anything else is there
};
/// The model's first `most` candidates of all families (four at most where they take tens of milliseconds), beside
/// user kernels. What the model sees far behind is left out, behind the first three also what it
/// sees clearly behind. Where there is room for all families each has its first, so that a model that is wrong
/// about a family does not shut it out; the first of a family that was left out is hopeless.
[[nodiscard]] Candidates find_candidates(const kernel::KernelSpec& spec, const codegen::Bucket& bucket,
                                         const codegen::Target& target, int most);

/// Where an earlier search made a choice for another bucket of the same dims: the model's first candidate and the one
/// most like that choice (of its family, with the most parameters equal; tiles and tasks grow with sizes) are promising,
/// the others count as hopeless. As they are if none is of its family.
[[nodiscard]] Candidates narrowed(Candidates found, const Cache::Choice& elsewhere);

/// How many candidates of a spec are worth looking at, `most` at best, where its launches take a share of the
/// time of a plan: what more of them could gain is a fraction of that share.
[[nodiscard]] int effort_for(double share, int most);

}  // namespace luminal::search
