#pragma once
#include <optional>
#include <span>
#include <string_view>

#include "luminal/graph.h"
#include "luminal/math_mode.h"
#include "passes/rewrite.h"

namespace luminal::passes {

/// What a law sees.
struct Rewrite {
  Graph& graph;
  const Node& node;
  MathMode mode;
  const Untouchable& untouchable;

  [[nodiscard]] bool allows(MathMode needed) const { return mode >= needed; }
  [[nodiscard]] Dtype dtype(const Edge& edge) const { return graph.type(edge.source).dtype; }
  [[nodiscard]] Dtype dtype() const { return node.outputs[0].dtype; }
  /// The node behind an input if laws may look into it there: every element read is one it computes in this
  /// run.
  [[nodiscard]] const Node* producer(const Edge& edge) const;
};

/// One law of arithmetic_rules.cpp: what may stand in a node's place, or nothing if the law does not apply.
struct ArithmeticRule {
  std::string_view name;
  std::string_view reason;
  std::optional<Edge> (*apply)(const Rewrite& at);
};

/// All laws, in the order in which they are tried.
[[nodiscard]] std::span<const ArithmeticRule> arithmetic_rules();

}  // namespace luminal::passes
