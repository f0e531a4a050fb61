#include "search/encode/node_spec.h"

#include <algorithm>
#include <variant>

#include "base/fail.h"
#include "kernel/axes.h"
#include "kernel/canonical.h"
#include "search/encode/kernel_graph.h"
#include "symbolic/node.h"

namespace luminal::search {
namespace {

using kernel::Operand;

/// Whether a formula has a value wherever it is evaluated: nothing in it may divide by zero.
bool never_divides_by_zero(const Expression& e) {
  const symbolic::Node& node = e.node();
  if (node.kind == symbolic::Kind::FloorDiv || node.kind == symbolic::Kind::Mod) {
    const Range divisor = node.args[1].range();
    if (divisor.min <= 0 && divisor.max >= 0) return false;
  }
  return std::ranges::all_of(node.args, never_divides_by_zero) &&
         std::ranges::all_of(node.terms,
                             [](const auto& term) { return never_divides_by_zero(term.monomial); });
}

bool formula_has_values(const Node& node) {
  const auto formula = node.op->formula(node.attributes);
  const auto* expression = std::get_if<Expression>(&formula);
  return expression == nullptr || never_divides_by_zero(*expression);
}

/// What a load of an element gives: blocks decode.
Dtype loaded(Dtype stored) { return is_quantized(stored) ? Dtype::F32 : stored; }

/// Builds the body of one value and the operands it reads.
class Body {
 public:
  Body(const Graph& graph, NodeSpec& spec, kernel::Value& value)
      : graph_(graph), spec_(spec), value_(value) {}

  /// The element of `edge` at the value's coordinates.
  Scalar read(const Edge& edge) {
    const Dtype dtype = loaded(graph_.type(edge.source).dtype);
    if (is_formula(graph_, edge.source.node)) return padded(formula(edge, dtype), edge.view, dtype);
    Operand load{.kind = Operand::Kind::Load, .dtype = dtype};
    load.slot = slot_of(edge);
    load.index = edge.view.index_expression();
    load.masks = edge.view.masks();
    return operand(std::move(load));
  }
  ScalarBuilder& builder() { return builder_; }
  void finish(Scalar result) { value_.body = builder_.finish(result); }

 private:
  Scalar operand(Operand operand) {
    const auto known = std::ranges::find(value_.operands, operand);
    const auto at = known - value_.operands.begin();
    if (known == value_.operands.end()) value_.operands.push_back(operand);
    return builder_.input(static_cast<int>(at), operand.dtype);
  }
  Scalar integer(const Expression& e) {
    if (const auto constant = e.constant()) return builder_.constant(Dtype::I64, *constant);
    return operand({.kind = Operand::Kind::Index, .dtype = Dtype::I64, .index = e});
  }
  int slot_of(const Edge& edge) {
    const auto known = std::ranges::find(spec_.slots, edge.source);
    const auto at = static_cast<int>(known - spec_.slots.begin());
    if (known == spec_.slots.end()) {
      spec_.slots.push_back(edge.source);
      const TensorType& type = graph_.type(edge.source);
      spec_.parts.slots.push_back({type.dtype, element_count(type.dims)});
    }
    return at;
  }
  Scalar number(Number value, Dtype dtype) {
    return value.is_integer() ? builder_.constant(dtype, value.as<int64_t>())
                              : builder_.constant(dtype, value.as<double>());
  }
  Scalar formula(const Edge& edge, Dtype dtype) {
    const Node& node = graph_.node(edge.source.node);
    const auto formula = node.op->formula(node.attributes);
    if (const auto* value = std::get_if<Number>(&formula)) return number(*value, dtype);
    const Expression flat = std::get<Expression>(formula).substitute_flat_index(edge.view.index_expression());
    return builder_.convert(integer(flat), dtype);
  }
  /// What padding shows instead: the first mask that fails decides.
  Scalar padded(Scalar inside, const ShapeTracker& view, Dtype dtype) {
    for (auto mask = view.masks().rbegin(); mask != view.masks().rend(); ++mask)
      inside = builder_.select(builder_.convert(integer(mask->predicate), Dtype::Bool), inside,
                               number(mask->fill, dtype));
    return inside;
  }

  const Graph& graph_;
  NodeSpec& spec_;
  kernel::Value& value_;
  ScalarBuilder builder_;
};

std::vector<int> all_axes(size_t rank) {
  std::vector<int> axes(rank);
  for (size_t i = 0; i < rank; ++i) axes[i] = static_cast<int>(i);
  return axes;
}

void store(NodeSpec& spec, int value, const std::vector<int>& axes) {
  const std::vector<Expression>& extents = spec.parts.extents;
  spec.parts.outputs.push_back({value, kernel::row_major(axes, extents), kernel::elements_of(axes, extents)});
}

NodeSpec elementwise(const Graph& graph, const Node& node) {
  NodeSpec spec;
  spec.parts.extents = node.outputs[0].dims;
  kernel::Value value{.axes = all_axes(spec.parts.extents.size())};
  Body body(graph, spec, value);
  std::vector<Scalar> inputs;
  for (const Edge& edge : node.inputs) inputs.push_back(body.read(edge));
  body.finish(node.op->lower(body.builder(), inputs, node.attributes));
  spec.parts.values.push_back(value);
  store(spec, 0, value.axes);
  return spec;
}

NodeSpec formula(const Graph& graph, NodeId id) {
  NodeSpec spec;
  spec.parts.extents = graph.node(id).outputs[0].dims;
  kernel::Value value{.axes = all_axes(spec.parts.extents.size())};
  Body body(graph, spec, value);
  body.finish(body.read({{id, 0}, ShapeTracker::contiguous(spec.parts.extents)}));
  spec.parts.values.push_back(value);
  store(spec, 0, value.axes);
  return spec;
}

NodeSpec reduction(const Graph& graph, const Node& node) {
  NodeSpec spec;
  const Edge& edge = node.inputs[0];
  const Dtype dtype = node.outputs[0].dtype;
  spec.parts.extents = edge.view.dims();
  kernel::Value fold;
  const auto& reduced = node.attributes.get<std::vector<int64_t>>("axes");
  for (const int axis : all_axes(spec.parts.extents.size()))
    (std::ranges::find(reduced, axis) != reduced.end() ? fold.reduced : fold.axes).push_back(axis);
  if (!fold.reduced.empty()) fold.monoid = node.op->monoid;
  Body body(graph, spec, fold);
  const Dtype accumulator = accumulation_dtype(*node.op->monoid, dtype);
  body.finish(body.builder().convert(body.read(edge), accumulator));
  spec.parts.values.push_back(fold);
  if (accumulator != dtype) {
    ScalarBuilder builder;
    kernel::Value rounded{.axes = fold.axes};
    rounded.operands.push_back({.kind = Operand::Kind::Value, .dtype = accumulator, .value = 0});
    rounded.body = builder.finish(builder.convert(builder.input(0, accumulator), dtype));
    spec.parts.values.push_back(rounded);
  }
  store(spec, static_cast<int>(spec.parts.values.size()) - 1, fold.axes);
  return spec;
}

}  // namespace

bool is_formula(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  return node.op->formula && !graph.is_present(id) && formula_has_values(node);
}

bool has_spec(const Node& node) {
  if (node.outputs.size() != 1 || is_quantized(node.outputs[0].dtype)) return false;
  if (node.op->is(Trait::Opaque) || node.op->is(Trait::SideEffect) || node.op->is(Trait::Stateful))
    return false;
  if (node.op->formula) return formula_has_values(node);
  return node.op->is(Trait::Elementwise) ? static_cast<bool>(node.op->lower) : node.op->monoid.has_value();
}

NodeSpec spec_of(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (node.op->formula) return formula(graph, id);
  return node.op->is(Trait::Elementwise) ? elementwise(graph, node) : reduction(graph, node);
}

kernel::KernelSpec copy_spec(const ShapeTracker& view, Dtype dtype) {
  kernel::SpecParts parts;
  parts.extents = view.dims();
  kernel::Value value{.axes = all_axes(parts.extents.size())};
  value.operands.push_back({.kind = Operand::Kind::Load,
                            .dtype = loaded(dtype),
                            .slot = 0,
                            .index = view.index_expression(),
                            .masks = view.masks()});
  ScalarBuilder builder;
  value.body = builder.finish(builder.input(0, loaded(dtype)));
  parts.slots.push_back({dtype, view.n_physical_elements()});
  parts.outputs.push_back({0, kernel::row_major(value.axes, parts.extents), view.n_elements()});
  parts.values.push_back(std::move(value));
  return kernel::canonical(std::move(parts)).spec;
}

}  // namespace luminal::search
