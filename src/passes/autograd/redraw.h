#pragma once
#include <unordered_map>

#include "luminal/graph.h"

namespace luminal::autograd {

/// What a gradient rule reads of values that come from random leaves alone (a dropout's mask): nodes of its
/// own that draw the same numbers again, so that nothing has to be kept from the forward to the backward
/// pass. Counter-based numbers cost less to make than to store and load.
class Redraw {
 public:
  explicit Redraw(Graph& graph) : graph_(graph) {}
  /// The same edge, or one that reads a copy of its source.
  [[nodiscard]] Edge operator()(const Edge& edge);

 private:
  /// Whether the value depends on leaves alone, inputs excluded, and on a random one among them.
  struct Origin {
    bool leaves_only, random;
  };
  Origin origin(NodeId id);
  NodeId copy(NodeId id);
  Graph& graph_;
  std::unordered_map<NodeId, Origin> origins_;
  std::unordered_map<NodeId, NodeId> copies_;
};

}  // namespace luminal::autograd
