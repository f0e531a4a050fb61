#include "passes/arithmetic_rules.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "luminal/ops.h"
#include "luminal/reference.h"
#include "passes/rewrite.h"

namespace luminal::passes {
namespace {

using Rewritten = std::optional<Edge>;

/// 1 and 1.0 are the same element of any dtype, 0.0 and -0.0 are not.
[[nodiscard]] bool same_element(Number a, Number b, Dtype dtype) {
  return only_element(filled(a, dtype, {})) == only_element(filled(b, dtype, {}));
}

// --- Neutral and absorbing elements

enum class Side { Either, Right };
enum class For { Floats, Whole };  // Whole: integers and bool

struct Element {
  const OpDef* op;
  Side side;
  For dtypes;
  Number value;
  MathMode mode;
};

constexpr double kInf = std::numeric_limits<double>::infinity();

// x + -0.0 = x for every x; -0.0 + 0.0 is 0.0, so only the real number is kept there.
const std::array kNeutral{
    Element{&kAdd, Side::Either, For::Floats, -0.0, MathMode::Strict},
    Element{&kAdd, Side::Either, For::Floats, 0.0, MathMode::Relaxed},
    Element{&kAdd, Side::Either, For::Whole, 0, MathMode::Strict},
    Element{&kMul, Side::Either, For::Floats, 1.0, MathMode::Strict},
    Element{&kMul, Side::Either, For::Whole, 1, MathMode::Strict},
    Element{&kDiv, Side::Right, For::Floats, 1.0, MathMode::Strict},
    Element{&kIntDiv, Side::Right, For::Whole, 1, MathMode::Strict},
    Element{&kMax, Side::Either, For::Floats, -kInf, MathMode::Strict},
    Element{&kOr, Side::Either, For::Whole, 0, MathMode::Strict},
    Element{&kXor, Side::Either, For::Whole, 0, MathMode::Strict},
    Element{&kAnd, Side::Either, For::Whole, -1, MathMode::Strict},
    Element{&kShift, Side::Right, For::Whole, 0, MathMode::Strict},
};

// NaN * 0 and inf * 0 are NaN: floats only in fast mode.
const std::array kAbsorbing{
    Element{&kMul, Side::Either, For::Floats, 0.0, MathMode::Fast},
    Element{&kMul, Side::Either, For::Floats, -0.0, MathMode::Fast},
    Element{&kMul, Side::Either, For::Whole, 0, MathMode::Strict},
    Element{&kAnd, Side::Either, For::Whole, 0, MathMode::Strict},
    Element{&kOr, Side::Either, For::Whole, -1, MathMode::Strict},
};

/// Which input of `node` is this element, or -1.
int find_element(const Rewrite& at, const Element& element) {
  if (at.node.op != element.op || !at.allows(element.mode)) return -1;
  for (int input = element.side == Side::Right ? 1 : 0; input < 2; ++input) {
    const Edge& edge = at.node.inputs[static_cast<size_t>(input)];
    const Dtype dtype = at.dtype(edge);
    if (is_float(dtype) != (element.dtypes == For::Floats)) continue;
    const std::optional<Number> value = uniform_value(at.graph, edge);
    if (value && same_element(*value, element.value, dtype)) return input;
  }
  return -1;
}

Rewritten neutral(const Rewrite& at) {
  for (const Element& element : kNeutral) {
    const int input = find_element(at, element);
    if (input < 0) continue;
    const Edge& other = at.node.inputs[static_cast<size_t>(1 - input)];
    if (at.dtype(other) == at.node.outputs[0].dtype) return other;
  }
  return std::nullopt;
}

Rewritten absorbing(const Rewrite& at) {
  for (const Element& element : kAbsorbing)
    if (find_element(at, element) >= 0)
      return uniform(at.graph, element.value, at.node.outputs[0].dtype, at.node.outputs[0].dims);
  return std::nullopt;
}

// --- Laws of one op

Rewritten idempotent(const Rewrite& at) {
  if (!at.node.op->is(Trait::Idempotent) || at.node.inputs.size() != 2 ||
      at.node.inputs[0] != at.node.inputs[1])
    return std::nullopt;
  return at.node.inputs[0];
}

Rewritten known_choice(const Rewrite& at) {
  if (at.node.op != &kWhere) return std::nullopt;
  if (at.node.inputs[1] == at.node.inputs[2]) return at.node.inputs[1];
  const std::optional<Number> condition = uniform_value(at.graph, at.node.inputs[0]);
  if (!condition) return std::nullopt;
  return at.node.inputs[condition->as<bool>() ? 1 : 2];
}

Rewritten cast_away(const Rewrite& at) {
  if (at.node.op != &kCast) return std::nullopt;
  const Edge& from = at.node.inputs[0];
  const Dtype middle = at.dtype(from), target = at.node.outputs[0].dtype;
  if (middle == target) return from;
  const Node* inner = at.producer(from);
  if (inner == nullptr || inner->op != &kCast || at.dtype(inner->inputs[0]) != target ||
      !holds(middle, target))
    return std::nullopt;
  return stacked(inner->inputs[0], from.view);
}

struct InversePair {
  const OpDef *outer, *inner;
  MathMode mode;
};
// Removing the detour removes its overflow. exp2(log2 x) is NaN for negative x, where x is not: fast only.
const std::array kInversePairs{
    InversePair{&kRecip, &kRecip, MathMode::Relaxed},
    InversePair{&kLog2, &kExp2, MathMode::Relaxed},
    InversePair{&kExp2, &kLog2, MathMode::Fast},
};

Rewritten inverse(const Rewrite& at) {
  for (const InversePair& pair : kInversePairs) {
    if (at.node.op != pair.outer || !at.allows(pair.mode)) continue;
    const Edge& edge = at.node.inputs[0];
    const Node* inner = at.producer(edge);
    if (inner != nullptr && inner->op == pair.inner) return stacked(inner->inputs[0], edge.view);
  }
  return std::nullopt;
}

// --- Constants

/// Named dims in attributes are known at run time only.
bool depends_on_dims(const Attributes& attributes) {
  return std::ranges::any_of(attributes.entries(), [](const auto& entry) {
    const auto* expression = std::get_if<Expression>(&entry.second);
    return expression != nullptr && (!expression->to_symbols().empty() || expression->uses_flat_index());
  });
}

Rewritten fold_elementwise(const Rewrite& at) {
  if (!at.node.op->is(Trait::Elementwise) || at.node.op->is(Trait::Stateful) || at.node.inputs.empty() ||
      at.node.outputs.size() != 1)
    return std::nullopt;
  std::vector<TensorData> inputs;
  for (const Edge& edge : at.node.inputs) {
    const std::optional<Number> value = uniform_value(at.graph, edge);
    if (!value) return std::nullopt;
    inputs.push_back(filled(*value, at.dtype(edge), {}));
  }
  const TensorData result = evaluate_op(*at.node.op, at.node.attributes, inputs).at(0);
  return uniform(at.graph, only_element(result), at.node.outputs[0].dtype, at.node.outputs[0].dims);
}

Rewritten fold_iota(const Rewrite& at) {
  if (at.node.op != &kIota || depends_on_dims(at.node.attributes)) return std::nullopt;
  Attributes one = at.node.attributes;
  one.set("dims", Shape{});
  return uniform(at.graph, only_element(evaluate_op(*at.node.op, one, {}).at(0)), at.node.outputs[0].dtype,
                 at.node.outputs[0].dims);
}

/// A reduction of equal elements. Sums of floats round, so their order would show: not in strict mode.
Rewritten fold_reduction(const Rewrite& at) {
  constexpr int64_t kMostElements = 4096;
  if (!at.node.op->monoid || at.node.inputs.size() != 1) return std::nullopt;
  const Edge& edge = at.node.inputs[0];
  const Dtype dtype = at.dtype(edge);
  if (is_float(dtype) && !at.allows(MathMode::Relaxed)) return std::nullopt;
  const std::optional<Number> value = uniform_value(at.graph, edge);
  if (!value) return std::nullopt;
  int64_t count = 1;
  for (const int64_t axis : at.node.attributes.get<std::vector<int64_t>>("axes")) {
    const std::optional<int64_t> size = edge.view.dims()[static_cast<size_t>(axis)].constant();
    if (!size || *size > kMostElements || count * *size > kMostElements) return std::nullopt;
    count *= *size;
  }
  Attributes flat = at.node.attributes;
  flat.set("axes", std::vector<int64_t>{0});
  const TensorData input = filled(*value, dtype, {count});
  const TensorData result = evaluate_op(*at.node.op, flat, std::span(&input, 1)).at(0);
  return uniform(at.graph, only_element(result), at.node.outputs[0].dtype, at.node.outputs[0].dims);
}

/// The constant and the other input of a node with two inputs.
struct WithConstant {
  Number constant;
  Edge other;
};
std::optional<WithConstant> split_constant(const Graph& graph, const Node& node) {
  for (const size_t input : {1, 0})
    if (const std::optional<Number> value = uniform_value(graph, node.inputs[input]))
      return WithConstant{*value, node.inputs[1 - input]};
  return std::nullopt;
}

/// Whether (x op a) op b = x op c for all x, where c is a op b as computed.
/// Integers wrap, so it always holds. Floats, strict: signs move freely, rounding does not. Relaxed: over the
/// reals, with all three normal numbers; then a result out of range was out of range before.
bool may_join(const Rewrite& at, Number a, Number b, Number c) {
  const OpDef* op = at.node.op;
  if (!is_float(at.dtype())) return true;
  if (op != &kAdd && op != &kMul) return false;
  const double x = a.as<double>(), y = b.as<double>(), z = c.as<double>();
  if (op == &kMul && ((std::abs(x) == 1 && !std::isnan(y)) || (std::abs(y) == 1 && !std::isnan(x))))
    return true;
  if (!at.allows(MathMode::Relaxed)) return false;
  const double least = std::ldexp(1.0, info(at.dtype()).least_exponent);
  const auto normal = [&](double v) { return std::isfinite(v) && std::abs(v) >= least; };
  return normal(x) && normal(y) && (normal(z) || (op == &kAdd && z == 0));
}

Rewritten join_constants(const Rewrite& at) {
  const OpDef& op = *at.node.op;
  if (at.node.inputs.size() != 2 || !at.node.attributes.entries().empty() || !op.is(Trait::Elementwise) ||
      !op.is(Trait::Associative) || !op.is(Trait::Commutative))
    return std::nullopt;
  const auto outer = split_constant(at.graph, at.node);
  if (!outer) return std::nullopt;
  const Node* producer = at.producer(outer->other);
  if (producer == nullptr || producer->op != &op) return std::nullopt;
  const auto inner = split_constant(at.graph, *producer);
  if (!inner) return std::nullopt;
  const std::optional<Edge> x = stacked(inner->other, outer->other.view);
  if (!x || x->view.dims() != at.node.outputs[0].dims) return std::nullopt;
  const std::array constants{filled(inner->constant, at.dtype(), {}),
                             filled(outer->constant, at.dtype(), {})};
  const Number joined = only_element(evaluate_op(op, at.node.attributes, constants).at(0));
  if (!may_join(at, inner->constant, outer->constant, joined)) return std::nullopt;
  const Edge constant = uniform(at.graph, joined, at.dtype(), at.node.outputs[0].dims);
  return Edge{{at.graph.add_node(op, {}, {*x, constant}), 0},
              ShapeTracker::contiguous(at.node.outputs[0].dims)};
}

constexpr std::array kRules{
    ArithmeticRule{"elementwise-fold", "an op of constants is a constant, which its own evaluation computes",
                   fold_elementwise},
    ArithmeticRule{"iota-fold", "a formula without variables is a constant", fold_iota},
    ArithmeticRule{"reduction-fold", "a reduction of equal constants is a constant", fold_reduction},
    ArithmeticRule{"neutral-drop", "x + -0 = x, x * 1 = x, max(x, -inf) = x", neutral},
    ArithmeticRule{"absorbing-take", "x & 0 = 0; in fast mode x * 0 = 0", absorbing},
    ArithmeticRule{"idempotent-drop", "max(x, x) = x", idempotent},
    ArithmeticRule{"where-choose", "a known condition, or equal branches", known_choice},
    ArithmeticRule{"cast-drop", "to the same type, or to a wider one and back", cast_away},
    ArithmeticRule{"inverse-drop", "recip(recip x) = x, log2(exp2 x) = x", inverse},
    ArithmeticRule{"constants-join", "(2 * a) * 3 = 6 * a", join_constants},
};

}  // namespace

const Node* Rewrite::producer(const Edge& edge) const {
  if (!without_padding(edge.view) || untouchable.held(edge.source.node)) return nullptr;
  return &graph.node(edge.source.node);
}

std::span<const ArithmeticRule> arithmetic_rules() { return kRules; }

}  // namespace luminal::passes
