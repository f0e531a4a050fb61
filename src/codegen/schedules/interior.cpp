#include "codegen/schedules/interior.h"

#include <algorithm>
#include <optional>

#include "kernel/axes.h"
#include "symbolic/node.h"

namespace luminal::codegen {
namespace {

using kernel::AxisSet;
using kernel::KernelSpec;
using Conditions = std::vector<Interior::Condition>;

/// Adds what makes `predicate` hold at all positions of a block and a window. An inequality that is affine in
/// each of their axes holds for all if it does at the corner where its left side is greatest.
bool add_corner(const KernelSpec& spec, const Expression& predicate, const AxisGroup& inner, AxisSet window,
                Conditions& conditions) {
  using symbolic::Kind;
  const symbolic::Node& n = predicate.node();
  const AxisSet lanes = kernel::axes_of(inner.axes), looped = kernel::axes_of(predicate) & (lanes | window);
  if (looped != 0 && (n.kind == Kind::And || n.kind == Kind::Product))
    return std::ranges::all_of(n.args, [&](const Expression& part) {
      return symbolic::is_boolean(part) && add_corner(spec, part, inner, window, conditions);
    });
  Interior::Condition c{.predicate = predicate};
  if (looped != 0) {
    if (n.kind != Kind::Negative || ((looped & lanes) != 0 && inner.axes.size() != 1)) return false;
    std::vector<Expression> corner = kernel::axis_variables(spec.extents());
    bool affine = true;
    kernel::for_each_axis(looped, [&](int axis) {
      const auto even = evenly(n.args[0], AxisGroup{{axis}, {INT64_MAX}, {0}});
      affine = affine && even;
      if (!affine) return;
      if ((lanes & kernel::axis_bit(axis)) != 0)
        c.at_last = even->stride > 0;
      else
        corner[static_cast<size_t>(axis)] =
            even->stride > 0 ? spec.extents()[static_cast<size_t>(axis)] - 1 : Expression(0);
    });
    if (!affine) return false;
    c.predicate = predicate.substitute_indices(corner);
  }
  if (std::ranges::find(conditions, c) == conditions.end()) conditions.push_back(c);
  return true;
}

}  // namespace

Interior interior_of(const KernelSpec& spec, const AxisGroup& inner, AxisSet window) {
  kernel::SpecParts parts = spec.parts();
  Interior result;
  for (kernel::Value& v : parts.values)
    for (kernel::Operand& o : v.operands)
      std::erase_if(o.masks, [&](const kernel::Mask& m) {
        Conditions needed = result.conditions;
        if (!add_corner(spec, m.predicate, inner, window, needed)) return false;
        result.conditions = std::move(needed);
        return true;
      });
  result.spec = KernelSpec(std::move(parts));
  return result;
}

Expression Interior::holds(const AxisGroup& inner, const Coordinates& at, const Expression& start,
                           int64_t width) const {
  Expression all = 1;
  for (const Condition& c : conditions) {
    Coordinates there = at;
    inner.place(c.at_last ? start + (width - 1) : start, there);
    all = all & c.predicate.substitute_indices(there);
  }
  return all;
}

void guarded(StageBuilder& b, const Expression& condition, const std::function<void(bool inside)>& body) {
  if (const auto known = condition.constant()) return body(*known != 0);
  const Id inside = b.compute(ScalarOp::Ne, {b.index(condition), b.constant({Dtype::I64, 1}, 0)});
  b.if_true(inside, [&] { body(true); });
  b.if_true(b.compute(ScalarOp::Not, {inside}), [&] { body(false); });
}

}  // namespace luminal::codegen
