#pragma once
#include <optional>
#include <unordered_set>
#include <vector>

#include "luminal/graph.h"

namespace luminal::passes {

/// What rewrites have to leave alone, found once before a pass starts.
class Untouchable {
 public:
  Untouchable(const Graph& graph, const Remap& remap);
  /// Whether the node has to stay itself: it is marked, holds data, is ordered, has side effects, is opaque
  /// or an input.
  [[nodiscard]] bool fixed(NodeId id) const { return fixed_.contains(id); }
  /// Whether readers and handles of `old` may read `source` instead. A handle that the caller asked to follow
  /// does not become a second handle of an input or of a marked value: dropping one would drop the other.
  [[nodiscard]] bool may_replace(const Value& old, const Value& source) const;
  /// Whether a run may read an older value of the node instead of computing it: nothing looks behind it.
  [[nodiscard]] bool held(NodeId id) const { return held_.contains(id); }

 private:
  std::unordered_set<NodeId> fixed_, owned_, followed_, held_;
};

/// `value`, rounded to the dtype and broadcast to `dims`, as an edge of a new constant node.
[[nodiscard]] Edge uniform(Graph& graph, Number value, Dtype dtype, const Shape& dims);
/// The one number that all elements of an edge have: it reads a constant, and no padding. Rounded to the
/// dtype.
[[nodiscard]] std::optional<Number> uniform_value(const Graph& graph, const Edge& edge);
/// The one element of `data` as a number.
[[nodiscard]] Number only_element(const TensorData& data);
/// `value` in every element of a tensor of these sizes.
[[nodiscard]] TensorData filled(Number value, Dtype dtype, std::vector<int64_t> sizes);

/// `outer` read on top of `inner`: what a reader of inner's consumer sees of inner's source. Nothing if their
/// dims are not seen to be equal.
[[nodiscard]] std::optional<Edge> stacked(const Edge& inner, const ShapeTracker& outer);
/// Whether every element shown is an element of the buffer, none is padding.
[[nodiscard]] inline bool without_padding(const ShapeTracker& view) { return view.masks().empty(); }

}  // namespace luminal::passes
