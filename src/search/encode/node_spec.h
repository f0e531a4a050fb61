#pragma once
#include <vector>

#include "kernel/spec.h"
#include "luminal/graph.h"

namespace luminal::search {

/// One node as a kernel: its parts and what each slot reads.
struct NodeSpec {
  kernel::SpecParts parts;
  std::vector<Value> slots;
};

/// Whether the record says enough of the node to make a kernel of it: an elementwise op, a reduction by a
/// known monoid or a formula, of a plain dtype.
[[nodiscard]] bool has_spec(const Node& node);
/// Whether the node is a formula (a constant, an iota): then it stands in its readers' bodies.
[[nodiscard]] bool is_formula(const Graph& graph, NodeId id);
[[nodiscard]] NodeSpec spec_of(const Graph& graph, NodeId id);

}  // namespace luminal::search
