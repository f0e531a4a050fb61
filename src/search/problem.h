#pragma once
#include <vector>

#include "luminal/error.h"
#include "search/cover.h"
#include "search/language.h"

namespace luminal::search {

/// A saturated program as the cover sees it.
struct SaturatedProgram {
  CoverProblem cover;
  std::vector<int> class_of;                      ///< by tensor
  std::vector<std::vector<TensorId>> tensors_of;  ///< by class; none for classes that laws made
};

/// A law made a kernel that cannot be: other arguments than it has slots, or of another type.
class LawFault : public Error {
 public:
  using Error::Error;
};

/// Reads the e-graph that `language` holds after `load(program)`, which returned `classes`. Errors: LawFault.
[[nodiscard]] SaturatedProgram read_classes(Language& language, const Program& program,
                                            std::span<const egraph::Value> classes);

}  // namespace luminal::search
