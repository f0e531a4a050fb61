#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "luminal/graph.h"

namespace luminal::cli {

/// A workload that has a name: what `luminal explain NAME`, `luminal bench NAME` and `luminal bench search`
/// work on. To add one, add an entry to examples.cpp.
struct Example {
  std::string_view name, summary;
  std::string_view formula;  ///< formula.h; "" if `build` makes the graph
  /// Builds it, results retrieved, and returns the inputs; takes from `sizes` those that are numbers in the
  /// graph.
  std::vector<GraphTensor> (*build)(Graph& graph, DimMap& sizes) = nullptr;
  bool is_network = false;  ///< `luminal bench search` takes it when it is given no names
};

/// All of them, sorted by name.
[[nodiscard]] std::span<const Example> examples();
/// Errors: Error that offers the nearest name.
[[nodiscard]] const Example& find_example(std::string_view name);

}  // namespace luminal::cli
