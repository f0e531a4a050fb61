#pragma once
#include <vector>

#include "luminal/graph.h"

namespace luminal::display {

/// A box of a drawing, in pixels; x and y are its centre.
struct Box {
  NodeId id;
  std::vector<std::string> lines;
  int layer = 0;
  double x = 0, y = 0, width = 0, height = 0;
};

struct Layout {
  std::vector<Box> boxes;  ///< in topological order
  double width = 0, height = 0;
};

/// Layers by longest path, leaves just above their first reader, then a few sweeps that move each box towards
/// the mean of its neighbours. Source: Sugiyama, Tagawa & Toda 1981.
[[nodiscard]] Layout layered_layout(const Graph& graph);

}  // namespace luminal::display
