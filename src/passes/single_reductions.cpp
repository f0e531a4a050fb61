#include <limits>

#include "luminal/passes.h"
#include "luminal/reference.h"
#include "passes/rewrite.h"

namespace luminal {
namespace {

/// Numbers on which a monoid that is not the identity shows it: both zeros, both ends, infinities, NaN.
std::vector<Number> probes(Dtype dtype) {
  if (!is_float(dtype))
    return {0, 1, -1, 100, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
  constexpr double kInf = std::numeric_limits<double>::infinity();
  return {0.0,
          -0.0,
          1.5,
          -1.5,
          1e300,
          1e-320,
          60000.0,
          6e-8,
          kInf,
          -kInf,
          std::numeric_limits<double>::quiet_NaN()};
}

bool equal_numbers(Number a, Number b) {
  if (a.is_integer()) return a == b;
  const double x = a.as<double>(), y = b.as<double>();
  return x == y || (x != x && y != y);
}

/// Whether reducing one element gives this element, as far as `mode` looks. The reference device tells.
bool keeps_single(const Node& node, Dtype dtype, MathMode mode) {
  Attributes flat = node.attributes;
  flat.set("axes", std::vector<int64_t>{0});
  for (const Number probe : probes(dtype)) {
    const TensorData input = passes::filled(probe, dtype, {1});
    const Number before = passes::only_element(input);
    const Number after = passes::only_element(evaluate_op(*node.op, flat, std::span(&input, 1)).at(0));
    if (mode == MathMode::Strict ? after != before : !equal_numbers(after, before)) return false;
  }
  return true;
}

struct Axes1 {
  std::vector<int64_t> kept;  ///< axes to reduce, numbered after the single ones are gone
  ShapeTracker view;          ///< without the single axes
};

Axes1 without_single_axes(const Edge& edge, const std::vector<int64_t>& axes) {
  Axes1 result{{}, edge.view};
  int removed = 0;
  for (const int64_t axis : axes) {
    const int at = static_cast<int>(axis) - removed;
    if (edge.view.dims()[static_cast<size_t>(axis)].constant() == 1) {
      result.view = result.view.squeeze(at);
      ++removed;
    } else {
      result.kept.push_back(at);
    }
  }
  return result;
}

}  // namespace

void RemoveSingleReductions::run(Graph& graph, Remap& remap) const {
  const passes::Untouchable untouchable(graph, remap);
  for (const NodeId id : graph.topological_order()) {
    const Node node = graph.node(id);  // a copy: nodes are added
    if (!node.op->monoid || node.inputs.size() != 1 || node.outputs.size() != 1) continue;
    const Edge& edge = node.inputs[0];
    const auto& axes = node.attributes.get<std::vector<int64_t>>("axes");
    const auto [kept, view] = without_single_axes(edge, axes);
    if (kept.size() == axes.size() ||
        view.rank() - static_cast<int>(kept.size()) != static_cast<int>(node.outputs[0].dims.size()))
      continue;

    Edge better{edge.source, view};
    if (!kept.empty()) {
      if (untouchable.fixed(id)) continue;
      const Graph::OriginScope scope(graph, node.origin);
      Attributes fewer = node.attributes;
      fewer.set("axes", kept);
      better = {{graph.add_node(*node.op, std::move(fewer), {{edge.source, view}}), 0},
                ShapeTracker::contiguous(node.outputs[0].dims)};
    } else if (graph.type(edge.source).dtype != node.outputs[0].dtype ||
               !keeps_single(node, node.outputs[0].dtype, mode_) ||
               !untouchable.may_replace({id, 0}, edge.source)) {
      continue;
    }
    graph.replace({id, 0}, better);
    graph.remove(id);
  }
}

}  // namespace luminal
