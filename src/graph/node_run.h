#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "base/call_site.h"
#include "luminal/graph.h"

namespace luminal {

/// While it lives, this thread works for a node that was made before: errors name the node's calls, its
/// inputs and the line that made it. Whatever runs nodes opens one around ops that look at data.
class NodeRun {
 public:
  NodeRun(const Graph& graph, NodeId id);
  NodeRun(const NodeRun&) = delete;
  NodeRun& operator=(const NodeRun&) = delete;
  ~NodeRun();

  /// The calls that made the node, for the head of a message: "Embedding > index_select". `op` where no node
  /// runs.
  [[nodiscard]] static std::string label(std::string_view op);
  /// What the user called input `input`, as "'table' ", or "".
  [[nodiscard]] static std::string input_name(size_t input);

 private:
  const Graph& graph_;
  const Node* node_;  ///< null if the graph has no such node any more
  const NodeRun* outer_;
  std::optional<CallSite> site_;
};

}  // namespace luminal
