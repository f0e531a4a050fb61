#pragma once
#include <string>
#include <string_view>

#include "luminal/graph.h"

namespace luminal::display {

/// Control characters, quotes and backslashes as \n, \x01, \" and \\: user strings inside quotes, on one
/// line.
[[nodiscard]] std::string quoted(std::string_view text);

/// ".pad(1, 1).permute(1, 0)", "" for no view.
[[nodiscard]] std::string view_steps(const ShapeTracker& view);
/// "sum_reduce axes=[1]": op and attributes; dtype and dims stand in the type.
[[nodiscard]] std::string op_with_attributes(const Node& node);
/// "f32[2, 3]", several outputs separated by commas.
[[nodiscard]] std::string types(const Node& node);
/// "retrieved, kept, state <- %9, after %3", "" for a plain node.
[[nodiscard]] std::string marks(const Graph& graph, NodeId id);
/// One node as a line of Graph::to_string; with the type of every edge if asked for.
[[nodiscard]] std::string line(const Graph& graph, NodeId id, bool edge_types);

}  // namespace luminal::display
