#include "ops/composite/build.h"

#include <cmath>
#include <limits>

namespace luminal::composite {

std::string label() {
  std::string text;
  std::string_view previous;
  for (const std::string_view name : CallSite::chain()) {
    if (name == previous) continue;
    if (!text.empty()) text += " > ";
    text += name;
    previous = name;
  }
  return text;
}

int axis_of(const GraphTensor& x, int axis) {
  const int rank = x.rank(), at = axis < 0 ? axis + rank : axis;
  if (rank == 0)
    reject("axis {} of {}, which has no axes; reshape it to have one", axis, x.type().to_string());
  if (at < 0 || at >= rank)
    reject("axis {} is out of range for {}; axes go from {} to {}", axis, x.type().to_string(), -rank,
           rank - 1);
  return at;
}

int new_axis_of(const GraphTensor& x, int axis) {
  const int rank = x.rank(), at = axis < 0 ? axis + rank + 1 : axis;
  if (at < 0 || at > rank)
    reject("a new axis at {} is out of range for {}; places go from {} to {}", axis, x.type().to_string(),
           -rank - 1, rank);
  return at;
}

// --- Nodes

GraphTensor apply(const OpDef& op, std::span<const GraphTensor> inputs, Attributes attributes) {
  Graph graph = inputs.front().graph();
  std::vector<Edge> edges;
  edges.reserve(inputs.size());
  for (const GraphTensor& input : inputs) {
    if (input.graph().state() != graph.state())
      reject<Error>(
          "the tensors belong to different graphs; move values from one to the other with transfer_data");
    edges.push_back(input.edge());
  }
  return graph.tensor_of(Value{graph.add_node(op, std::move(attributes), std::move(edges)), 0});
}

GraphTensor leaf(Graph& graph, const OpDef& op, Attributes attributes) {
  return graph.tensor_of(Value{graph.add_node(op, std::move(attributes), {}), 0});
}

GraphTensor elementwise(const OpDef& op, std::initializer_list<GraphTensor> inputs, Attributes attributes) {
  std::vector<GraphTensor> aligned(inputs);
  if (aligned.size() > 1) {
    const Shape dims = broadcast_dims(aligned);
    for (GraphTensor& input : aligned) input = broadcast_to(input, dims);
  }
  return apply(op, aligned, std::move(attributes));
}

GraphTensor formula(Graph& graph, const Expression& e, Shape dims, Dtype dtype) {
  return leaf(graph, kIota, {{"expression", e}, {"dims", std::move(dims)}, {"dtype", dtype}});
}

GraphTensor positions(const GraphTensor& x, int axis) {
  Graph graph = x.graph();
  GraphTensor result = formula(graph, Expression::flat_index(), {x.dim(axis)});
  for (int i = axis + 1; i < x.rank(); ++i) result = result.with_view(result.view().unsqueeze(result.rank()));
  return result;
}

// --- Small exact pieces

namespace {

/// The number behind a rank-0 constant, or nullptr.
const Number* constant_value(const GraphTensor& x) {
  if (x.rank() != 0) return nullptr;
  const Graph graph = x.graph();
  const Edge edge = x.edge();
  if (!edge.view.is_identity()) return nullptr;
  const Node& source = graph.node(edge.source.node);
  return source.op == &kConstant ? &source.attributes.get<Number>("value") : nullptr;
}

}  // namespace

namespace {

/// -1 where integers wrap, which in those without a sign is the greatest one; all of their bits.
Number minus_one(Dtype dtype) { return is_signed(dtype) ? -1 : info(dtype).greatest; }

}  // namespace

GraphTensor negated(const GraphTensor& x) {
  // The least integer has no negative; the product wraps.
  if (const Number* value = constant_value(x);
      value && is_signed(x.dtype()) && *value != neutral_element(Monoid::Max, x.dtype()))
    return value->is_integer() ? scalar(x, -value->as<int64_t>()) : scalar(x, -value->as<double>());
  return elementwise(kMul, {x, scalar(x, minus_one(x.dtype()))});
}

GraphTensor reversed(const GraphTensor& x) {
  if (is_float(x.dtype())) return negated(x);
  if (x.dtype() == Dtype::Bool) return inverted(x);
  return elementwise(kXor, {x, scalar(x, minus_one(x.dtype()))});
}

GraphTensor inverted(const GraphTensor& truth_value) {
  return elementwise(kXor, {truth_value, scalar(truth_value, 1)});
}

GraphTensor less(const GraphTensor& a, const GraphTensor& b) { return elementwise(kLessThan, {a, b}); }
GraphTensor less(const GraphTensor& a, Number b) { return less(a, scalar(a, b)); }
GraphTensor less(Number a, const GraphTensor& b) { return less(scalar(b, a), b); }
GraphTensor both(const GraphTensor& a, const GraphTensor& b) { return elementwise(kAnd, {a, b}); }
GraphTensor either(const GraphTensor& a, const GraphTensor& b) { return elementwise(kOr, {a, b}); }

GraphTensor select(const GraphTensor& condition, const GraphTensor& if_true, const GraphTensor& if_false) {
  return elementwise(kWhere, {condition, if_true, if_false});
}

std::string ties_name(Ties ties) { return ties == Ties::First ? "first" : "split"; }

GraphTensor greater_of(const GraphTensor& a, const GraphTensor& b, Ties ties) {
  if (a.dtype() == Dtype::Bool) return either(a, b);
  return elementwise(kMax, {a, b}, {{"ties", ties_name(ties)}});
}

GraphTensor lesser_of(const GraphTensor& a, const GraphTensor& b, Ties ties) {
  if (a.dtype() == Dtype::Bool) return both(a, b);
  return reversed(greater_of(reversed(a), reversed(b), ties));
}

GraphTensor not_nan(const GraphTensor& x) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return either(less(x, kInfinity), less(-kInfinity, x));
}

// --- Reductions

GraphTensor reduced(const OpDef& op, const GraphTensor& x, const std::vector<int>& axes, bool keepdims,
                    Attributes attributes) {
  if (axes.empty()) return x;
  attributes.set("axes", std::vector<int64_t>(axes.begin(), axes.end()));
  GraphTensor result = apply(op, {x}, std::move(attributes));
  if (keepdims)
    for (const int axis : axes) result = result.with_view(result.view().unsqueeze(axis));
  return result;
}

GraphTensor maximum_over(const GraphTensor& x, const std::vector<int>& axes, bool keepdims, Ties ties) {
  return reduced(kMaxReduce, x, axes, keepdims, {{"ties", ties_name(ties)}});
}

Expression extent_of(const GraphTensor& x, const std::vector<int>& axes) {
  Expression count = 1;
  for (const int axis : axes) count *= x.dim(axis);
  return count;
}

GraphTensor product_sum(const GraphTensor& a, const GraphTensor& b, const std::vector<int>& axes) {
  const Dtype dtype = a.dtype();
  // A product of two f16 needs 22 bits and may pass 65504, so it must not be rounded to f16 before it is
  // added.
  const Dtype wide = is_float(dtype) ? accumulation_dtype(dtype) : dtype;
  const GraphTensor product = elementwise(kMul, {a.cast(wide), b.cast(wide)});
  return reduced(kSumReduce, product, axes, false).cast(dtype);
}

}  // namespace luminal::composite
