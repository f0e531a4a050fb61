#include "search/loops.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/fail.h"
#include "ops/scan_form.h"
#include "search/pipeline.h"

namespace luminal::search {
namespace {

/// Inputs from `first_shared` on are the same in all steps: what the body's kernels prepare of them is made once for a
/// run of the loop.
std::shared_ptr<const LoopBody> body_of_loop(const Subgraph& part, size_t first_shared,
                                             const SearchOptions& options) {
  auto body = std::make_shared<LoopBody>();
  body->graph = std::make_shared<Graph>();
  std::vector<GraphTensor> inputs;
  for (const Value& input : part.inputs) {
    const TensorType& type = part.graph.type(input);
    inputs.push_back(body->graph->tensor(type.dims, type.dtype));
    if (body->inputs.size() >= first_shared) body->graph->note_weight(inputs.back().edge().source);
    body->inputs.push_back(inputs.back().edge().source);
  }
  for (const GraphTensor& output : inlined(part, *body->graph, inputs))
    body->outputs.push_back(output.contiguous().retrieve().edge().source);
  body->front_end = std::make_shared<const FrontEnd>(run_front_end(*body->graph, false, options));
  return body;
}

}  // namespace

LoopBodies loop_bodies(const Graph& graph, const KernelGraph& kernel_graph, const SearchOptions& options) {
  LoopBodies bodies(kernel_graph.hosts.size());
  std::map<const Subgraph*, std::shared_ptr<const LoopBody>> known;
  for (size_t host = 0; host < bodies.size(); ++host)
    if (const auto form = ScanForm::of(graph.node(kernel_graph.hosts[host].node).attributes)) {
      std::shared_ptr<const LoopBody>& body = known[form->body.get()];
      if (!body) body = body_of_loop(*form->body, form->carries + form->sequences, options);
      bodies[host] = body;
    }
  return bodies;
}

void add_loop_dims(const Graph& graph, const KernelGraph& kernel_graph, const LoopBodies& bodies,
                   Dims& dims) {
  for (size_t host = 0; host < bodies.size(); ++host) {
    if (!bodies[host]) continue;
    const auto form = ScanForm::of(graph.node(kernel_graph.hosts[host].node).attributes);
    collect_dims(form->length, dims);
    for (const auto& [dim, promised] : bodies[host]->front_end->dims) {
      DimFacts& facts = dims.try_emplace(dim, promised).first->second;
      facts.min = std::max(facts.min, promised.min);
      facts.max = std::min(facts.max, promised.max);
      facts.multiple_of = std::lcm(facts.multiple_of, promised.multiple_of);
    }
  }
}

runtime::LoopLaunch loop_launch(const Node& node, const LoopBody& body,
                                std::shared_ptr<const runtime::Plan> plan) {
  const auto form = ScanForm::of(node.attributes);
  LUMINAL_CHECK(form.has_value(), "a loop has the attributes {}", node.attributes.to_string());
  runtime::LoopLaunch launch{.body = std::move(plan),
                             .graph = body.graph,
                             .length = form->length,
                             .reverse = form->reverse,
                             .carries = form->carries,
                             .sequences = form->sequences};
  for (const Value& input : body.inputs) {
    const auto holds_it = [&](const runtime::PlanTensor& tensor) {
      return tensor.role == runtime::PlanTensor::Role::Input && tensor.value == input;
    };
    const auto& tensors = launch.body->tensors;
    const auto found = std::ranges::find_if(tensors, holds_it);
    launch.body_inputs.push_back(found == tensors.end() ? -1 : static_cast<int>(found - tensors.begin()));
  }
  for (const Value& output : body.outputs) {
    const auto found = std::ranges::find(launch.body->results, output, &runtime::PlanResult::value);
    LUMINAL_CHECK(found != launch.body->results.end(), "a loop's body has no result for value #{}",
                  output.node.index);
    launch.body_outputs.push_back(found->tensor);
  }
  return launch;
}

}  // namespace luminal::search
