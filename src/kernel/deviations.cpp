#include "kernel/deviations.h"

#include "kernel/axes.h"
#include "kernel/canonical_steps.h"
#include "kernel/copies.h"
#include "scalar/typing.h"

namespace luminal::kernel {
namespace {

/// Whether `x`, over the operands of `a`, is what `b` folds.
bool has_same_terms(const Value& a, const ScalarFunction& x, const Value& b) {
  ScalarBuilder both;  // in which equal nodes are one
  std::vector<Operand> operands;
  const auto root_of = [&](const ScalarFunction& body, const Value& v) {
    std::vector<Scalar> inputs;
    for (const Operand& o : v.operands) inputs.push_back(both.input(add_operand(operands, o), o.dtype));
    return both.inline_function(body, inputs)[0];
  };
  return root_of(x, a) == root_of(b.body, b);
}

}  // namespace

std::optional<Deviation> deviation_of(std::span<const Value> values, int squares) {
  const Value& v = values[static_cast<size_t>(squares)];
  if (v.monoid != Monoid::Add || !is_real(v.dtype())) return std::nullopt;
  const ScalarNode& root = v.body[v.body.outputs()[0]];
  if (root.op != ScalarOp::Mul || root.operands[0] != root.operands[1]) return std::nullopt;
  const ScalarNode& difference = v.body[root.operands[0]];
  if (difference.op != ScalarOp::Sub && difference.op != ScalarOp::Add) return std::nullopt;
  const std::vector<AxisSet> axes = node_axes(v, values);
  const auto varies = [&](Scalar at) { return (axes[at.index] & axes_of(v.reduced)) != 0; };
  Scalar x = difference.operands[0], u = difference.operands[1];
  if (varies(u)) std::swap(x, u);  // (u - x)^2 is the same
  if (varies(u)) return std::nullopt;
  Deviation found{.x = part_of(v.body, x), .u = part_of(v.body, u), .adds = difference.op == ScalarOp::Add};
  for (int other = 0; other < std::ssize(values); ++other) {
    const Value& sum = values[static_cast<size_t>(other)];
    if (sum.monoid != Monoid::Add || sum.reduced != v.reduced) continue;
    if (!has_same_terms(v, found.x, sum)) continue;
    found.sum = other;
    return found;
  }
  return std::nullopt;
}

}  // namespace luminal::kernel
