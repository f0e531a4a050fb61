#include "search/finite_launches.h"

#include "base/fail.h"
#include "graph/graph_state.h"
#include "reference/finite.h"

namespace luminal::search {
namespace {

[[noreturn]] void report_kernel(const Graph& graph, const runtime::Launch& launch, const std::string& tensor,
                                const std::string& element) {
  std::vector<std::string> nodes;
  for (const NodeId id : launch.covers)
    if (const Node& node = graph.node(id); node.origin) nodes.push_back(node.origin->to_string());
  fail(
      "[finite] {} is the first tensor that is not finite: kernel {} gives {}, and its nodes give finite "
      "numbers when they are interpreted: {}; compute in a wider dtype",
      tensor, launch.name, element, fmt::join(nodes, ", "));
}

}  // namespace

void FiniteLaunches::run(Graph& graph, runtime::Executor& executor, std::vector<TraceEntry>* trace) {
  const runtime::Plan& plan = executor.plan();
  FiniteCheck inputs(graph);
  std::vector<std::shared_ptr<const TensorData>> held;  // so that no launch writes over an input
  std::vector<Tainted> tainted(plan.tensors.size());
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    const runtime::PlanTensor& tensor = plan.tensors[i];
    if (tensor.role == runtime::PlanTensor::Role::Input) {
      held.push_back(graph.value(*tensor.value));
      inputs.given(*tensor.value, *held.back());
      tainted[i] = *inputs.find(*tensor.value);
    } else if (tensor.constant) {
      const NotFinite found = not_finite(*tensor.constant);
      tainted[i].infinity = found.nan || found.infinity;
    }
  }
  std::unordered_map<Value, TensorData> effects;
  executor.run(graph, trace, nullptr, [&](int number, const auto& read) {
    const runtime::Launch& launch = plan.launches[static_cast<size_t>(number)];
    Tainted operands;
    for (const runtime::TensorIndex input : launch.inputs()) operands |= tainted[static_cast<size_t>(input)];
    for (const runtime::TensorIndex output : launch.outputs()) {
      const TensorData data = read(output);
      const runtime::PlanTensor& tensor = plan.tensors[static_cast<size_t>(output)];
      if (launch.host && tensor.value) effects.insert_or_assign(*tensor.value, data);
      const NotFinite found = not_finite(data);
      tainted[static_cast<size_t>(output)] = {found.nan.has_value(), found.infinity.has_value()};
      const auto fault = operands.unexplained(found);
      if (!fault || (!found.nan && infinities_.contains(output))) continue;
      const FiniteCheck nodes =
          reference::check_nodes(graph, {launch.covers.begin(), launch.covers.end()}, effects);
      const Tainted* same = tensor.value ? nodes.find(*tensor.value) : nullptr;
      if (found.nan || (same != nullptr && !same->infinity))
        report_kernel(graph, launch,
                      tensor.value ? describe_value(graph, *tensor.value) : "a tensor of the plan",
                      element_at(data, *fault));
      infinities_.insert(output);
    }
  });
}

}  // namespace luminal::search
