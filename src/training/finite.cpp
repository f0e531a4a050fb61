#include "training/finite.h"

#include <cmath>
#include <limits>
#include <set>

#include "base/fail.h"
#include "base/place.h"
#include "luminal/training/loss.h"

namespace luminal::training {
namespace {

/// Minus infinity is what masks are made of.
bool suspicious(double value) {
  return std::isnan(value) || value == std::numeric_limits<double>::infinity();
}

/// "'x' f32[8, 3] (made at model.cpp:7) holds nan at [2, 0]", or nothing.
std::string found_in(const Graph& graph, NodeId id) {
  const auto held = graph.value({id, 0});
  if (!held || !is_float(held->dtype)) return {};
  std::string found;
  visit_dtype(held->dtype, [&](auto element) {
    const auto values = held->as<decltype(element)>();
    for (size_t i = 0; i < values.size() && found.empty(); ++i) {
      const auto value = static_cast<double>(values[i]);
      if (!suspicious(value)) continue;
      const Node& node = graph.node(id);
      const std::string name = node.name.empty() ? "the input" : "'" + node.name + "'";
      const std::string made =
          node.origin ? fmt::format(" (made at {}:{})", node.origin->file, node.origin->line) : "";
      found = fmt::format("{} {}{} holds {} at {}", name, node.outputs[0].to_string(), made,
                          std::isnan(value) ? "nan" : "inf", place_of(i, held->dims));
    }
  });
  return found;
}

}  // namespace

std::set<NodeId> inputs_of(const Graph& graph, const GraphTensor& tensor) {
  std::set<NodeId> seen, inputs;
  for (std::vector<NodeId> stack{tensor.node()}; !stack.empty();) {
    const NodeId id = stack.back();
    stack.pop_back();
    if (!seen.insert(id).second) continue;
    if (!is_computed(*graph.node(id).op)) inputs.insert(id);
    for (const Edge& edge : graph.node(id).inputs) stack.push_back(edge.source.node);
  }
  return inputs;
}

std::string remedy(const GraphTensor& loss) {
  const Graph graph = loss.graph();
  std::set<NodeId> states;  // weights, mostly
  for (const Graph::StateUpdate& update : graph.state_updates()) states.insert(update.state.node);
  std::string weight;
  for (const NodeId id : inputs_of(graph, loss)) {
    const std::string found = found_in(graph, id);
    if (found.empty()) continue;
    if (!states.contains(id)) return found + "; give it finite numbers";
    if (weight.empty()) weight = found;
  }
  if (!weight.empty())
    return weight +
           ": an earlier step was too large. Lower the learning rate, set clip_norm, and start again "
           "or from a checkpoint";
  return "All data and weights are finite, so the computation produced it: lower the learning rate, set "
         "clip_norm, or look for a logarithm, root or quotient of 0: LUMINAL_CHECK=finite names the first "
         "one";
}

double finite_loss(const GraphTensor& loss) {
  const double value = loss.item();
  if (!std::isfinite(value))
    fail("[finite_loss] the loss is {} after run {}. {}",
         std::isnan(value) ? "nan" : fmt::format("{}", value), loss.graph().step(), remedy(loss));
  return value;
}

}  // namespace luminal::training
