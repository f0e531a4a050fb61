#include "kernel/one_term.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "symbolic/node.h"

namespace luminal::kernel {
namespace {

/// What the conditions of a value's body say of an axis.
class Conditions {
 public:
  Conditions(const Value& value, int axis, std::span<const Value> values)
      : value_(value), body_(value.body), axis_(axis), node_axes_(node_axes(value, values)) {}

  /// What the axis's index has to be equal to where a condition holds, or where it does not.
  struct Place {
    Scalar place;
    bool is_all = true;  ///< what the condition asks for
  };
  [[nodiscard]] std::optional<Place> place_where(Scalar condition, bool holds) const {
    const ScalarNode& n = body_[condition];
    if (n.op == ScalarOp::Not) return place_where(n.operands[0], !holds);
    if (n.op == (holds ? ScalarOp::Eq : ScalarOp::Ne)) return other_side(n);
    if (n.op != (holds ? ScalarOp::And : ScalarOp::Or)) return std::nullopt;
    // What is neither below nor above is equal.
    const ScalarNode &a = body_[n.operands[0]], &b = body_[n.operands[1]];
    const bool is_order = a.op == b.op && a.op == (holds ? ScalarOp::Le : ScalarOp::Lt);
    if (is_order && a.operands[0] == b.operands[1] && a.operands[1] == b.operands[0]) return other_side(a);
    auto place = place_where(n.operands[0], holds);
    if (!place) place = place_where(n.operands[1], holds);
    if (place) place->is_all = false;
    return place;
  }

 private:
  [[nodiscard]] std::optional<Place> other_side(const ScalarNode& comparison) const {
    for (const size_t side : {0, 1}) {
      const Scalar place = comparison.operands[1 - side];
      if (is_index(comparison.operands[side]) && (node_axes_[place.index] & axis_bit(axis_)) == 0)
        return Place{place};
    }
    return std::nullopt;
  }
  /// The axis's index, perhaps converted to integers that hold all of it.
  [[nodiscard]] bool is_index(Scalar node) const {
    const ScalarNode* n = &body_[node];
    bool is_narrow = false;
    for (; n->op == ScalarOp::Convert; n = &body_[n->operands[0]]) {
      if (n->dtype != Dtype::I32 && n->dtype != Dtype::I64) return false;
      is_narrow = is_narrow || n->dtype == Dtype::I32;
    }
    if (n->op != ScalarOp::Input) return false;
    const Operand& o = value_.operands[n->payload];
    return o.kind == Operand::Kind::Index && symbolic::kind_of(o.index) == symbolic::Kind::Index &&
           o.index.node().value == axis_ &&
           (!is_narrow || o.index.range().max <= std::numeric_limits<int32_t>::max());
  }

  const Value& value_;
  const ScalarFunction& body_;
  int axis_;
  std::vector<AxisSet> node_axes_;
};

bool is_zero(const ScalarNode& n) { return n.op == ScalarOp::Constant && n.payload == 0; }

bool sums_one_axis(const Value& v) { return v.monoid == Monoid::Add && v.reduced.size() == 1; }

/// condition ? body with `factor` as 1 : 0
ScalarFunction choice(const Value& v, Scalar factor, Scalar condition) {
  ScalarBuilder b;
  std::vector<Scalar> made;
  for (ScalarNode n : v.body.nodes()) {
    for (int k = 0; k < arity(n.op); ++k) {
      Scalar& operand = n.operands[static_cast<size_t>(k)];
      operand = made[operand.index];
    }
    made.push_back(made.size() == factor.index ? b.constant(n.dtype, 1) : b.make(n));
  }
  const Scalar root = made[v.body.outputs()[0].index];
  return b.finish(b.select(made[condition.index], root, b.constant(v.dtype(), 0)));
}

}  // namespace

std::vector<Scalar> multiplied(const ScalarFunction& body, Scalar root) {
  std::vector<Scalar> factors;
  std::vector<bool> seen(root.index + 1, false);
  seen[root.index] = true;
  for (uint32_t i = root.index + 1; i-- > 0;) {
    if (!seen[i]) continue;
    const ScalarNode& n = body.nodes()[i];
    if (n.op == ScalarOp::Mul)
      seen[n.operands[0].index] = seen[n.operands[1].index] = true;
    else
      factors.push_back({i});
  }
  return factors;
}

std::optional<OneTerm> named_term_of(std::span<const Value> values, size_t number) {
  const Value& v = values[number];
  if (!sums_one_axis(v)) return std::nullopt;
  const ScalarNode& root = v.body[v.body.outputs()[0]];
  if (root.op != ScalarOp::Select) return std::nullopt;
  const bool if_true = is_zero(v.body[root.operands[2]]);
  if (!if_true && !is_zero(v.body[root.operands[1]])) return std::nullopt;
  const auto named = Conditions(v, v.reduced[0], values).place_where(root.operands[0], if_true);
  if (!named) return std::nullopt;
  ScalarBuilder b;
  std::vector<Scalar> inputs;
  for (size_t k = 0; k < v.operands.size(); ++k)
    inputs.push_back(b.input(static_cast<int>(k), v.operands[k].dtype));
  const auto nodes = v.body.nodes();
  const ScalarFunction all({nodes.begin(), nodes.end()}, {named->place});
  return OneTerm{.axis = v.reduced[0],
                 .place = b.finish(b.convert(b.inline_function(all, inputs)[0], Dtype::I64)),
                 .term = root.operands[if_true ? 1 : 2],
                 .is_certain = named->is_all};
}

std::optional<OneTerm> one_term_of(std::span<const Value> values, size_t number) {
  auto term = named_term_of(values, number);
  const auto depends = [&](const Operand& o) {
    return o.kind == Operand::Kind::Value &&
           (axes_of(values[static_cast<size_t>(o.value)].axes) & axis_bit(term->axis)) != 0;
  };
  if (term && std::ranges::any_of(values[number].operands, depends)) return std::nullopt;
  return term;
}

void choose_one_term(Value& value, std::span<const Value> values, MathMode mode) {
  const Scalar root = value.body.outputs()[0];
  if (!sums_one_axis(value) || value.body[root].op != ScalarOp::Mul) return;
  if (mode == MathMode::Strict && is_float(value.dtype())) return;
  for (const Scalar factor : multiplied(value.body, root)) {
    Scalar condition = factor;
    while (value.body[condition].op == ScalarOp::Convert) condition = value.body[condition].operands[0];
    if (condition == factor || value.body[condition].dtype != Dtype::Bool) continue;
    const Conditions conditions(value, value.reduced[0], values);
    if (!conditions.place_where(condition, true)) continue;
    value.body = choice(value, factor, condition);
    return;
  }
}

}  // namespace luminal::kernel
