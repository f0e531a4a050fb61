#pragma once
#include <memory>
#include <vector>

#include "runtime/plan.h"
#include "search/bucket.h"
#include "search/encode/kernel_graph.h"

namespace luminal::search {

struct FrontEnd;

/// What a loop of the graph runs at each step: a program of its own, searched as any other.
struct LoopBody {
  std::shared_ptr<Graph> graph;
  std::vector<Value> inputs, outputs;  ///< as the loop's node has them
  std::shared_ptr<const FrontEnd> front_end;
};
/// By host of a program; null for those that are no loops. Equal bodies are one.
using LoopBodies = std::vector<std::shared_ptr<const LoopBody>>;
[[nodiscard]] LoopBodies loop_bodies(const Graph& graph, const KernelGraph& kernel_graph,
                                     const SearchOptions& options);

/// What the sizes of loops depend on.
void add_loop_dims(const Graph& graph, const KernelGraph& kernel_graph, const LoopBodies& bodies, Dims& dims);

/// With plans of the bodies for one bucket, by host.
struct Loops {
  const LoopBodies& bodies;
  std::vector<std::shared_ptr<const runtime::Plan>> plans;
};

/// The launch of a loop, but for the tensors of the plan that it stands in.
[[nodiscard]] runtime::LoopLaunch loop_launch(const Node& node, const LoopBody& body,
                                              std::shared_ptr<const runtime::Plan> plan);

}  // namespace luminal::search
