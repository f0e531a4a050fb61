#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "luminal/graph.h"

namespace luminal {

/// A graph as an attribute of a node: what a loop runs at each step. Nobody changes or runs it; who wants to
/// run it makes a copy (`inlined`). Subgraphs that compute the same are the same object (`interned`), so
/// that attributes compare them by identity as they do all payloads.
struct Subgraph : Payload {
  Graph graph;
  std::vector<Value> inputs;  ///< given from outside, each once
  std::vector<Edge> outputs;
  GradientRule gradient = {};  ///< of the op that holds it
};

/// A part of a graph taken out.
struct Extracted {
  std::shared_ptr<Subgraph> part;
  std::vector<Value> captured;  ///< of the graph: what the part reads besides `inputs`; its last inputs
};
/// What lies between `inputs` and `outputs`: copies of the nodes that `outputs` need and that `belongs` takes.
[[nodiscard]] Extracted extract(const Graph& graph, std::span<const Value> inputs,
                                std::span<const Edge> outputs, const std::function<bool(NodeId)>& belongs);

/// Copies the nodes of `part` into a graph, over these inputs, and returns its outputs there.
[[nodiscard]] std::vector<GraphTensor> inlined(const Subgraph& part, Graph& into,
                                               std::span<const GraphTensor> inputs);

/// An equal subgraph that is there already, or this one. Thread safety: any thread may call it.
[[nodiscard]] std::shared_ptr<const Subgraph> interned(std::shared_ptr<const Subgraph> part);

/// "2 inputs, 5 nodes, 1 output", for printers.
[[nodiscard]] std::string summary_of(const Subgraph& part);

}  // namespace luminal
