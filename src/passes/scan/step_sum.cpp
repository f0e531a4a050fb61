#include "passes/scan/step_sum.h"

#include <algorithm>
#include <set>

#include "luminal/ops.h"
#include "passes/autograd/view_gradient.h"

namespace luminal::passes {
namespace {

/// A node that makes more elements than it reads, each where it is needed: a product of two sides.
bool spreads(const Graph& step, const Node& node) {
  if (!node.op->elementwise || node.inputs.empty()) return false;
  std::set<Value> sources;
  for (const Edge& edge : node.inputs) sources.insert(edge.source);
  double read = 0;
  for (const Value& source : sources) read += autograd::typical_elements(step.type(source).dims);
  return autograd::typical_elements(node.outputs[0].dims) > read;
}

/// Whether a sum over steps may be taken before the view is looked through.
bool is_linear(const ShapeTracker& view) {
  return std::ranges::all_of(view.masks(), [](const auto& mask) { return mask.fill == Number(0); });
}

/// Sums of parts, and of parts rounded to another dtype, are such sums too.
bool passes_sums(const Node& node) {
  return node.op == &kAdd || (node.op == &kCast && is_float(node.outputs[0].dtype));
}

void collect_factors(const Graph& step, const Edge& edge, std::vector<Value>& factors) {
  const Node& node = step.node(edge.source.node);
  if (spreads(step, node)) {
    for (const Edge& input : node.inputs) collect_factors(step, input, factors);
  } else if (std::ranges::find(factors, edge.source) == factors.end()) {
    factors.push_back(edge.source);
  }
}

bool collect_sums(const Graph& step, const Edge& part, std::vector<Value>& factors) {
  const Node& node = step.node(part.source.node);
  if (!is_linear(part.view)) return false;
  if (node.op == &kSumReduce) {
    collect_factors(step, node.inputs[0], factors);
    return true;
  }
  return passes_sums(node) && std::ranges::all_of(node.inputs, [&](const Edge& input) {
           return is_float(step.type(input.source).dtype) && collect_sums(step, input, factors);
         });
}

/// Copies a step's part with the steps along a last axis.
class OverSteps {
 public:
  OverSteps(const Graph& step, Graph& cx, const Expression& length,
            const std::function<GraphTensor(const Value&)>& factor)
      : step_(step), cx_(cx), length_(length), factor_(factor) {}

  GraphTensor sum(const Edge& part) {
    const Node& node = step_.node(part.source.node);
    OpBuilder builder = cx_.add_op(*node.op);
    for (const auto& [key, value] : node.attributes.entries()) builder.attribute(key, value);
    if (node.op == &kSumReduce) {
      const GraphTensor terms = value(node.inputs[0]);
      auto axes = node.attributes.get<std::vector<int64_t>>("axes");
      axes.push_back(terms.rank() - 1);
      builder.input(terms).attribute("axes", axes);
    } else {
      for (const Edge& input : node.inputs) builder.input(sum(input));
    }
    return builder.finish().with_view(part.view);
  }

 private:
  GraphTensor value(const Edge& edge) {
    const Node& node = step_.node(edge.source.node);
    GraphTensor result = spreads(step_, node) ? elements(node) : factor_(edge.source);
    for (const MovementStep& move : edge.view.steps())
      result = result.with_view(result.view().apply(autograd::with_trailing_axes(move, {length_})));
    return result;
  }

  GraphTensor elements(const Node& node) {
    OpBuilder builder = cx_.add_op(*node.op);
    for (const auto& [key, value] : node.attributes.entries()) builder.attribute(key, value);
    for (const Edge& input : node.inputs) builder.input(value(input));
    return builder.finish();
  }

  const Graph& step_;
  Graph& cx_;
  const Expression& length_;
  const std::function<GraphTensor(const Value&)>& factor_;
};

}  // namespace

std::vector<Value> factors_of_sum(const Graph& step, const Edge& part) {
  std::vector<Value> factors;
  if (!collect_sums(step, part, factors)) factors.clear();
  return factors;
}

GraphTensor sum_over_steps(const Graph& step, const Edge& part, Graph& cx, const Expression& length,
                           const std::function<GraphTensor(const Value&)>& factor) {
  return OverSteps(step, cx, length, factor).sum(part);
}

}  // namespace luminal::passes
