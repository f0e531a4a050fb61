#include "graph/node_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace luminal {
namespace {

thread_local const NodeRun* innermost_run = nullptr;

}  // namespace

NodeRun::NodeRun(const Graph& graph, NodeId id)
    : graph_(graph), node_(graph.contains(id) ? &graph.node(id) : nullptr), outer_(innermost_run) {
  if (node_ != nullptr && node_->origin && !node_->origin->file.empty())
    site_.emplace(node_->origin->file, node_->origin->line);
  innermost_run = this;
}
NodeRun::~NodeRun() { innermost_run = outer_; }

std::string NodeRun::label(std::string_view op) {
  if (innermost_run == nullptr || innermost_run->node_ == nullptr || !innermost_run->node_->origin)
    return std::string(op);
  std::vector<std::string> calls = innermost_run->node_->origin->ops;
  if (calls.size() > 1) calls.pop_back();  // the primitive
  calls.erase(std::unique(calls.begin(), calls.end()), calls.end());
  return calls.empty() ? std::string(op) : fmt::format("{}", fmt::join(calls, " > "));
}

std::string NodeRun::input_name(size_t input) {
  if (innermost_run == nullptr || innermost_run->node_ == nullptr ||
      input >= innermost_run->node_->inputs.size())
    return "";
  const NodeId source = innermost_run->node_->inputs[input].source.node;
  if (!innermost_run->graph_.contains(source)) return "";
  const std::string& name = innermost_run->graph_.node(source).name;
  return name.empty() ? "" : "'" + name + "' ";
}

}  // namespace luminal
