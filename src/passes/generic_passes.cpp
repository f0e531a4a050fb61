#include "luminal/passes.h"

namespace luminal {

void GenericPasses::run(Graph& graph, Remap& remap) const {
  std::tuple passes{RemoveUnusedNodes(),          CSE(mode_), RemoveSingleReductions(mode_),
                    ArithmeticElimination(mode_), CSE(mode_), RemoveUnusedNodes()};
  (void)detail::run_pass(passes, graph, remap);
}

}  // namespace luminal
