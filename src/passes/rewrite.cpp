#include "passes/rewrite.h"

#include <algorithm>

#include "luminal/ops.h"
#include "luminal/reference.h"

namespace luminal::passes {

Untouchable::Untouchable(const Graph& graph, const Remap& remap) {
  for (const Value& value : graph.wanted()) owned_.insert(value.node);
  for (const Graph::StateUpdate& update : graph.state_updates()) owned_.insert(update.state.node);
  for (const NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (!is_computed(*node.op)) owned_.insert(id);
    for (int output = 0; output < static_cast<int>(node.outputs.size()); ++output)
      if (graph.is_pinned({id, output}) || graph.is_kept({id, output})) held_.insert(id);
    if (node.op->is(Trait::SideEffect) || node.op->is(Trait::Opaque) || !node.after.empty())
      fixed_.insert(id);
    fixed_.insert(node.after.begin(), node.after.end());
  }
  owned_.insert(held_.begin(), held_.end());
  fixed_.insert(owned_.begin(), owned_.end());
  for (const Value& value : remap.roots()) followed_.insert(value.node);
}

bool Untouchable::may_replace(const Value& old, const Value& source) const {
  return !fixed_.contains(old.node) && !(followed_.contains(old.node) && owned_.contains(source.node));
}

Edge uniform(Graph& graph, Number value, Dtype dtype, const Shape& dims) {
  return graph.full(dims, only_element(filled(value, dtype, {})), dtype).edge();
}

std::optional<Number> uniform_value(const Graph& graph, const Edge& edge) {
  const Node& source = graph.node(edge.source.node);
  if (source.op != &kConstant || !without_padding(edge.view)) return std::nullopt;
  return only_element(filled(source.attributes.get<Number>("value"), source.outputs.at(0).dtype, {}));
}

Number only_element(const TensorData& data) {
  return visit_dtype(data.dtype, [&]<class T>(T) -> Number {
    const T value = data.as<T>()[0];
    if constexpr (std::is_integral_v<T>)
      return Number(value);
    else
      return Number(static_cast<double>(value));
  });
}

TensorData filled(Number value, Dtype dtype, std::vector<int64_t> sizes) {
  TensorData data(dtype, std::move(sizes));
  visit_dtype(dtype, [&]<class T>(T) {
    T rounded{};
    if constexpr (std::is_arithmetic_v<T>)
      rounded = value.as<T>();
    else
      rounded = T(value.as<float>());
    std::ranges::fill(data.as<T>(), rounded);
  });
  return data;
}

std::optional<Edge> stacked(const Edge& inner, const ShapeTracker& outer) {
  if (inner.view.dims() != outer.physical_dims()) return std::nullopt;
  if (outer.is_identity()) return inner;
  if (inner.view.is_identity()) return Edge{inner.source, outer};
  return Edge{inner.source, inner.view.then(outer)};
}

}  // namespace luminal::passes
