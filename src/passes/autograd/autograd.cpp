#include "luminal/autograd.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/fail.h"
#include "graph/graph_state.h"
#include "luminal/gradient.h"
#include "luminal/ops.h"
#include "passes/autograd/redraw.h"
#include "passes/autograd/view_gradient.h"

namespace luminal {
namespace {

bool blocks_gradient(const OpDef& op) { return op.is(Trait::ZeroGradient) || &op == &kDetach; }

constexpr std::string_view kGradient = "gradient";  // behind the ops that a gradient node is of

std::shared_ptr<const Origin> gradient_origin(const std::shared_ptr<const Origin>& forward) {
  auto origin = forward ? std::make_shared<Origin>(*forward) : std::make_shared<Origin>();
  origin->ops.emplace_back(kGradient);
  return origin;
}

Origin origin_of(const Node& node) {
  Origin origin;
  if (node.origin) origin = *node.origin;
  if (origin.ops.empty()) origin.ops.emplace_back(node.op->name);
  return origin;
}

std::string made_at(const Origin& origin) {
  return origin.file.empty() ? "" : fmt::format(" (made at {}:{})", origin.file, origin.line);
}

[[noreturn]] void no_gradient(const Node& node) {
  const Origin origin = origin_of(node);
  fail(
      "[{}] '{}' has no gradient and the loss depends on a parameter through it; put stop_gradient() before "
      "it to treat its input as constant{}",
      fmt::join(origin.ops, " > "), node.op->name, made_at(origin));
}

/// One backward walk.
class Backward {
 public:
  Backward(Graph& graph, const std::vector<GraphTensor>& params, const GraphTensor& loss)
      : graph_(graph), params_(params), loss_(loss), redraw_(graph) {
    for (const GraphTensor& param : params) edges_.push_back(param.edge());
  }

  std::vector<GraphTensor> run() {
    const std::vector<NodeId> order = ancestors_of_loss();
    find_dependents(order);
    seed();
    for (auto id = order.rbegin(); id != order.rend(); ++id) visit(*id);
    if (std::ranges::none_of(edges_, [&](const Edge& edge) { return gradients_.contains(edge.source); }))
      refuse_if_cut(order);
    std::vector<GraphTensor> results;
    for (size_t i = 0; i < params_.size(); ++i) results.push_back(result_for(params_[i], edges_[i]));
    return results;
  }

 private:
  /// Inputs before consumers.
  [[nodiscard]] std::vector<NodeId> ancestors_of_loss() const {
    std::unordered_set<NodeId> seen;
    std::vector<NodeId> stack{loss_.node()};
    while (!stack.empty()) {
      const NodeId id = stack.back();
      stack.pop_back();
      if (!seen.insert(id).second) continue;
      for (const Edge& edge : graph_.node(id).inputs) stack.push_back(edge.source.node);
    }
    std::vector<NodeId> order = graph_.topological_order();
    std::erase_if(order, [&](NodeId id) { return !seen.contains(id); });
    return order;
  }

  /// Marks the nodes through which a gradient can flow to a parameter.
  void find_dependents(const std::vector<NodeId>& order) {
    for (const GraphTensor& param : params_) dependents_.insert(param.node());
    for (const NodeId id : order) {
      const Node& node = graph_.node(id);
      if (blocks_gradient(*node.op)) continue;
      if (std::ranges::any_of(node.inputs, [&](const Edge& edge) { return wants(edge); }))
        dependents_.insert(id);
    }
  }

  [[nodiscard]] bool wants(const Edge& edge) const {
    return dependents_.contains(edge.source.node) && is_float(graph_.type(edge.source).dtype);
  }

  void seed() {
    const Edge edge = loss_.edge();
    if (!dependents_.contains(edge.source.node)) return;
    const Graph::OriginScope scope(graph_, gradient_origin(graph_.node(edge.source.node).origin));
    const GraphTensor ones = graph_.full(edge.view.dims(), 1.0, loss_.dtype());
    accumulate(edge.source, autograd::through_view(graph_, ones, edge.view));
  }

  /// No parameter has a gradient: a mistake if every way to the loss leads through integers or bools that the
  /// model makes of floats. Where one is constant almost everywhere or ends at stop_gradient, zeros are
  /// right.
  void refuse_if_cut(const std::vector<NodeId>& order) const {
    const Node* cut = nullptr;
    for (const NodeId id : order) {
      const Node& node = graph_.node(id);
      if (std::ranges::none_of(node.inputs, [&](const Edge& edge) { return wants(edge); })) continue;
      const bool to_floats =
          std::ranges::any_of(node.outputs, [](const auto& t) { return is_float(t.dtype); });
      const bool of_backward =
          node.origin && std::ranges::find(node.origin->ops, kGradient) != node.origin->ops.end();
      if (of_backward || (to_floats && blocks_gradient(*node.op))) return;
      if (!to_floats && !cut) cut = &node;
    }
    if (!cut) return;
    const Origin origin = origin_of(*cut);
    fail(
        "[{}] no gradient reaches a parameter: the loss depends on them only through {}, which has no "
        "gradient with respect to floats. Use a differentiable op (softmax instead of argmax, sigmoid "
        "instead of a comparison), or x + (y - x).stop_gradient() to let gradients pass as if y were x{}",
        fmt::join(origin.ops, " > "), cut->outputs.at(0).to_string(), made_at(origin));
  }

  void accumulate(const Value& value, const GraphTensor& gradient) {
    const auto [at, fresh] = gradients_.try_emplace(value, gradient);
    if (!fresh) at->second = graph_.add_op(kAdd).input(at->second).input(gradient).finish();
  }

  void visit(NodeId id) {
    if (!dependents_.contains(id)) return;
    const Node node = graph_.node(id);  // a copy: the rules below add nodes
    if (blocks_gradient(*node.op)) return;
    std::vector<bool> wanted;
    for (const Edge& edge : node.inputs) wanted.push_back(wants(edge));
    if (std::ranges::none_of(wanted, [](bool w) { return w; })) return;

    const Graph::OriginScope scope(graph_, gradient_origin(node.origin));
    std::vector<GraphTensor> outputs, upstreams;
    bool reached = false;
    for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i) {
      const auto found = gradients_.find(Value{id, i});
      reached |= found != gradients_.end();
      outputs.push_back(graph_.tensor_of(Value{id, i}));
      upstreams.push_back(found != gradients_.end() ? found->second : GraphTensor());
    }
    if (!reached) return;
    if (node.op->is(Trait::NotDifferentiable) || !node.op->gradient) no_gradient(node);
    for (size_t i = 0; i < upstreams.size(); ++i)
      if (!gradients_.contains(Value{id, static_cast<int>(i)}))
        upstreams[i] = graph_.zeros(node.outputs[i].dims, node.outputs[i].dtype);
    apply_rule(node, std::move(outputs), std::move(upstreams), std::move(wanted));
  }

  void apply_rule(const Node& node, std::vector<GraphTensor> outputs, std::vector<GraphTensor> upstreams,
                  const std::vector<bool>& wanted) {
    std::vector<GraphTensor> inputs;
    for (const Edge& edge : node.inputs) inputs.push_back(graph_.tensor_of(redraw_(edge)));
    Gradient rule(node, std::move(inputs), std::move(outputs), std::move(upstreams), wanted);
    node.op->gradient(rule);
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (wanted[i] && rule.has_result(i))
        accumulate(node.inputs[i].source,
                   autograd::through_view(graph_, rule.result(i), node.inputs[i].view));
  }

  GraphTensor result_for(const GraphTensor& param, const Edge& edge) {
    const auto found = gradients_.find(edge.source);
    if (found != gradients_.end()) return autograd::seen_through(found->second, edge.view);
    const Graph::OriginScope scope(graph_, gradient_origin(graph_.node(param.node()).origin));
    return graph_.zeros(param.dims(), param.dtype());
  }

  Graph& graph_;
  const std::vector<GraphTensor>& params_;
  const GraphTensor& loss_;
  std::vector<Edge> edges_;  ///< of the parameters before a rule replaces a node by one that keeps more
  std::unordered_set<NodeId> dependents_;
  std::unordered_map<Value, GraphTensor> gradients_;
  autograd::Redraw redraw_;
};

void check_tensor(const Graph& graph, const GraphTensor& tensor, const std::string& what) {
  if (!tensor.valid())
    fail("[Autograd] {} is not a tensor of an existing graph; give tensors that this graph still holds",
         what);
  if (tensor.graph().state() != graph.state())
    fail("[Autograd] {} {} belongs to another graph; give tensors of the graph that is compiled", what,
         describe_value(tensor.graph(), tensor.edge().source, tensor.type()));
  if (!is_float(tensor.dtype()))
    fail<DtypeError>("[Autograd] {} is {}; only floating tensors have gradients, cast() it before it is used",
                     what, describe_value(tensor.graph(), tensor.edge().source, tensor.type()));
}

}  // namespace

Autograd::Autograd(std::vector<GraphTensor> params, GraphTensor loss)
    : params_(std::move(params)), loss_(std::move(loss)) {}

std::vector<GraphTensor> Autograd::tensors() const {
  std::vector<GraphTensor> all = params_;
  all.push_back(loss_);
  return all;
}

std::vector<GraphTensor> Autograd::run(Graph& graph, Remap& remap) const {
  check_tensor(graph, loss_, "the loss");
  for (size_t i = 0; i < params_.size(); ++i) check_tensor(graph, params_[i], fmt::format("parameter {}", i));
  std::vector<GraphTensor> gradients = Backward(graph, params_, loss_).run();
  for (const GraphTensor& gradient : gradients) remap.keep(gradient);
  return gradients;
}

}  // namespace luminal
