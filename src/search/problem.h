#pragma once
#include <vector>

#include "search/cover.h"
#include "search/language.h"

namespace luminal::search {

/// A saturated program as the cover sees it.
struct SaturatedProgram {
  CoverProblem cover;
  std::vector<int> class_of;                      ///< by tensor
  std::vector<std::vector<TensorId>> tensors_of;  ///< by class; none for classes that laws made
};

/// Reads the e-graph that `language` holds after `load(program)`, which returned `classes`.
[[nodiscard]] SaturatedProgram read_classes(Language& language, const Program& program,
                                            std::span<const egraph::Value> classes);

}  // namespace luminal::search
