#pragma once
#include <vector>

#include "luminal/error.h"
#include "search/cover/cover.h"
#include "search/saturate/language.h"

namespace luminal::search {

/// A saturated program as the cover sees it.
struct SaturatedGraph {
  CoverProblem cover;
  std::vector<int> class_of;                      ///< by tensor
  std::vector<std::vector<TensorId>> tensors_of;  ///< by class; none for classes that laws made
};

/// A law made a kernel that cannot be (other arguments than it has slots, or of another type), or one that
/// computes something else than the user's nodes.
class LawFault : public Error {
 public:
  using Error::Error;
  std::vector<int>
      classes;  ///< that the wrong kernel computes or reads; none: the e-graph as a whole is wrong
};

/// Reads the e-graph that `language` holds after `load(kernel_graph)`, which returned `classes`. Errors:
/// LawFault.
[[nodiscard]] SaturatedGraph read_classes(Language& language, const KernelGraph& kernel_graph,
                                          std::span<const egraph::Value> classes);

}  // namespace luminal::search
