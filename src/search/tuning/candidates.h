#pragma once
#include <vector>

#include "search/tuning/job.h"

namespace luminal::search {

struct Candidates {
  std::vector<Tried> promising;  ///< best predictions first
  std::vector<Tried> hopeless;   ///< predicted far behind: not worth compiling while anything else is there
};
/// `most` candidates of all families; of each family at least its first, so that a model that is wrong about
/// a family does not shut it out.
[[nodiscard]] Candidates find_candidates(const kernel::KernelSpec& spec, const codegen::Bucket& bucket,
                                         const codegen::Target& target, int most);

}  // namespace luminal::search
