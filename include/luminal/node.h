#pragma once
#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include "luminal/attributes.h"
#include "luminal/op_def.h"
#include "luminal/shape_tracker.h"

namespace luminal {

/// Names a node of one graph. Indices count up and are never used again, graphs have serial numbers: an id of
/// a removed node or of another graph is recognised.
struct NodeId {
  uint32_t index = UINT32_MAX;
  uint32_t graph = 0;
  friend auto operator<=>(const NodeId&, const NodeId&) = default;
};

/// One output of a node: a dense buffer.
struct Value {
  NodeId node;
  int output = 0;
  friend auto operator<=>(const Value&, const Value&) = default;
};

/// How a node reads a value: through a view. All movement of a graph lives here.
struct Edge {
  Value source;
  ShapeTracker view;
  friend bool operator==(const Edge&, const Edge&) = default;
};

/// Where a node comes from: the high-level ops that made it, outermost first, and the user's line.
struct Origin {
  std::vector<std::string> ops;
  std::string file;
  uint32_t line = 0;
  [[nodiscard]] std::string to_string() const;  ///< "softmax > exp at model.cpp:41"
};

/// One application of an op. Nodes are changed through their graph only.
struct Node {
  const OpDef* op = nullptr;
  Attributes attributes;
  std::vector<Edge> inputs;
  std::vector<NodeId> after;        ///< order edges: these run first
  std::vector<TensorType> outputs;  ///< dtype and dims of each output
  std::shared_ptr<const Origin> origin;
  std::string name;  ///< what the user called it, or ""
};

/// A place where a node's value is read: input `input` of `node`.
struct Use {
  NodeId node;
  int input = 0;
  friend auto operator<=>(const Use&, const Use&) = default;
};

}  // namespace luminal

template <>
struct std::hash<luminal::NodeId> {
  size_t operator()(const luminal::NodeId& id) const noexcept {
    return (static_cast<size_t>(id.graph) << 32) ^ id.index;
  }
};
template <>
struct std::hash<luminal::Value> {
  size_t operator()(const luminal::Value& v) const noexcept {
    return std::hash<luminal::NodeId>()(v.node) * 31 + static_cast<size_t>(v.output);
  }
};
