#include <algorithm>
#include <optional>
#include <utility>

#include "kernel/canonical_steps.h"
#include "symbolic/node.h"
#include "symbolic/polynomial.h"

namespace luminal::kernel {
namespace {

using symbolic::kind_of;
using Divisions = std::vector<Expression>;  ///< different quotients and remainders

void collect_divisions(const Expression& e, Divisions& found) {
  const symbolic::Node& n = e.node();
  if (!n.uses_index || n.kind == symbolic::Kind::Index) return;
  if ((n.kind == symbolic::Kind::FloorDiv || n.kind == symbolic::Kind::Mod) &&
      std::ranges::find(found, e) == found.end())
    found.push_back(e);
  for (const Expression& a : n.args) collect_divisions(a, found);
  for (const symbolic::Term& t : n.terms) collect_divisions(t.monomial, found);
}

/// Calls visit(Expression&) for each index, mask and output index.
template <class Parts, class Visit>
void for_each_expression(Parts& parts, Visit visit) {
  for (auto& v : parts.values)
    for (auto& o : v.operands) {
      visit(o.index);
      for (auto& m : o.masks) visit(m.predicate);
    }
  for (auto& o : parts.outputs) visit(o.index);
}

struct AxisSplit {
  int axis = 0;
  Expression outer, inner;  ///< extents
};

/// What stands beside each index variable in a formula, added up; other terms are left out.
std::vector<std::pair<int, Expression>> coefficients_of(const Expression& e) {
  std::vector<std::pair<int, Expression>> coefficients;
  for (const symbolic::Term& t : symbolic::Terms(e))
    for (const Expression& f : symbolic::factors(t.monomial)) {
      if (kind_of(f) != symbolic::Kind::Index) continue;
      const Expression beside = Expression(t.coefficient) * *symbolic::remove_factors(t.monomial, f);
      const int axis = static_cast<int>(f.node().value);
      const auto same = std::ranges::find(coefficients, axis, &std::pair<int, Expression>::first);
      if (same == coefficients.end())
        coefficients.emplace_back(axis, beside);
      else
        same->second += beside;
    }
  return coefficients;
}

/// How many steps of this size, forwards or backwards, make the divisor. Empty if it is no whole number of
/// them.
std::optional<Expression> steps_within(const Expression& divisor, const Expression& step) {
  auto count = symbolic::divide_exact(divisor, step);
  if (count && count->range().max <= 0) count = -*count;
  if (count && count->range().min < 0) return std::nullopt;
  return count;
}

/// Divisors by which a quotient or remainder cuts an axis into whole pieces.
std::vector<AxisSplit> possible_splits(const SpecParts& parts, const Divisions& divisions) {
  std::vector<AxisSplit> splits;
  for (const Expression& d : divisions) {
    const Expression& by = d.node().args[1];
    if (by.node().uses_index) continue;
    for (const auto& [axis, step] : coefficients_of(d.node().args[0])) {
      if (step.node().uses_index) continue;
      const auto inner = steps_within(by, step);
      if (!inner || *inner == Expression(1)) continue;
      const auto outer = symbolic::divide_exact(parts.extents[static_cast<size_t>(axis)], *inner);
      if (!outer || *outer == Expression(1)) continue;
      splits.push_back({axis, *outer, *inner});
    }
  }
  std::ranges::stable_sort(splits, [](const AxisSplit& a, const AxisSplit& b) {
    return typical_size(a.inner) < typical_size(b.inner);
  });
  return splits;
}

/// Replaces the axis by outer * inner's extent + inner, in everything.
void apply(SpecParts& parts, const AxisSplit& split) {
  const int inner = static_cast<int>(parts.extents.size());
  std::vector<Expression> replacement = axis_variables(parts.extents);
  replacement[static_cast<size_t>(split.axis)] =
      Expression::index(split.axis, split.outer) * split.inner + Expression::index(inner, split.inner);
  parts.extents[static_cast<size_t>(split.axis)] = split.outer;
  parts.extents.push_back(split.inner);
  substitute_axes(parts, replacement);
  for (Value& v : parts.values) {
    if (std::ranges::count(v.axes, split.axis) > 0) v.axes.push_back(inner);
    if (std::ranges::count(v.reduced, split.axis) > 0) v.reduced.push_back(inner);
  }
}

/// With i in {0, 1} every f(i) is f(0) + (f(1) - f(0)) * i: taken where the difference is a number.
Expression linear_in(const Expression& e, int axis, std::vector<Expression>& variables) {
  if ((axes_of(e) & axis_bit(axis)) == 0) return e;
  const symbolic::Node& n = e.node();
  if (n.kind == symbolic::Kind::And) {
    std::vector<Expression> parts;
    for (const Expression& a : n.args) parts.push_back(linear_in(a, axis, variables));
    if (parts == n.args) return e;
    Expression all = 1;
    for (const Expression& part : parts) all = all & part;
    return all;
  }
  if (n.kind == symbolic::Kind::Negative) {
    const Expression less = linear_in(n.args[0], axis, variables);
    return less == n.args[0] ? e : less.lt(0);
  }
  const auto at = [&](const Expression& term, int64_t value) {
    const Expression variable = std::exchange(variables[static_cast<size_t>(axis)], Expression(value));
    Expression result = term.substitute_indices(variables);
    variables[static_cast<size_t>(axis)] = variable;
    return result;
  };
  const symbolic::Polynomial p(e);
  const auto plain = [axis](const symbolic::Term& t) {
    return kind_of(t.monomial) == symbolic::Kind::Index || (axes_of(t.monomial) & axis_bit(axis)) == 0;
  };
  if (std::ranges::all_of(p.terms, plain)) return e;
  Expression sum = p.constant;
  for (const symbolic::Term& t : p.terms) {
    Expression term = Expression(t.coefficient) * t.monomial;
    if (!plain(t)) {
      const Expression zero = at(term, 0), step = at(term, 1) - zero;
      if (step.constant()) term = zero + step * variables[static_cast<size_t>(axis)];
    }
    sum += term;
  }
  return sum;
}

void make_linear(SpecParts& parts) {
  std::vector<Expression> variables = axis_variables(parts.extents);
  for (size_t a = 0; a < parts.extents.size(); ++a) {
    if (!(parts.extents[a] == Expression(2))) continue;
    for_each_expression(parts, [&](Expression& e) { e = linear_in(e, static_cast<int>(a), variables); });
  }
}

Divisions divisions_of(const SpecParts& parts) {
  Divisions divisions;
  for_each_expression(parts, [&](const Expression& e) { collect_divisions(e, divisions); });
  return divisions;
}

}  // namespace

bool split_axes(SpecParts& parts) {
  Divisions divisions = divisions_of(parts);
  if (divisions.empty()) return false;
  const size_t before = parts.extents.size();
  make_linear(parts);
  divisions = divisions_of(parts);
  while (!divisions.empty() && parts.extents.size() < kMaxAxes) {
    bool progress = false;
    for (const AxisSplit& split : possible_splits(parts, divisions)) {
      SpecParts tried = parts;
      apply(tried, split);
      make_linear(tried);
      Divisions left = divisions_of(tried);
      if (left.size() >= divisions.size()) continue;
      parts = std::move(tried);
      divisions = std::move(left);
      progress = true;
      break;
    }
    if (!progress) break;
  }
  return parts.extents.size() > before;
}

namespace {

/// outer * width + inner, as a pair of axes that may be one.
struct Pair {
  int outer = 0, inner = 0;
  Expression width;
  [[nodiscard]] AxisSet axes() const { return axis_bit(outer) | axis_bit(inner); }
};

/// Whether `e` depends on the two axes only through outer * width + inner.
bool is_joint(const Expression& e, const Pair& pair) {
  const symbolic::Node& n = e.node();
  if (!n.uses_index || (axes_of(e) & pair.axes()) == 0) return true;
  if (n.kind != symbolic::Kind::Sum && n.kind != symbolic::Kind::Product && n.kind != symbolic::Kind::Index)
    return std::ranges::all_of(n.args, [&](const Expression& a) { return is_joint(a, pair); });
  Expression outer = 0, inner = 0;  // coefficients
  for (const symbolic::Term& t : symbolic::Terms(e)) {
    if ((axes_of(t.monomial) & pair.axes()) == 0) continue;
    Expression rest = t.coefficient;
    int axis = -1;
    for (const Expression& f : symbolic::factors(t.monomial)) {
      const AxisSet used = axes_of(f) & pair.axes();
      if (kind_of(f) == symbolic::Kind::Index && used != 0) {
        if (axis >= 0) return false;  // a square, or one times the other
        axis = first_axis(used);
      } else if (used != 0 && !is_joint(f, pair)) {
        return false;
      } else {
        rest *= f;
      }
    }
    if (axis < 0) continue;
    if ((axes_of(rest) & pair.axes()) != 0) return false;
    (axis == pair.outer ? outer : inner) += rest;
  }
  return outer == inner * pair.width;
}

bool bound_together(const SpecParts& parts, AxisSet both) {
  const auto split = [both](AxisSet set) { return (set & both) != 0 && (set & both) != both; };
  return std::ranges::none_of(
      parts.values, [&](const Value& v) { return split(axes_of(v.axes)) || split(axes_of(v.reduced)); });
}

bool may_merge(const SpecParts& parts, const Pair& pair) {
  if (!bound_together(parts, pair.axes())) return false;
  for (const Output& o : parts.outputs)
    if (!is_joint(o.index, pair)) return false;
  for (const Value& v : parts.values)
    for (const Operand& o : v.operands) {
      if (!is_joint(o.index, pair)) return false;
      for (const Mask& m : o.masks)
        if (!is_joint(m.predicate, pair)) return false;
    }
  return true;
}

void apply(SpecParts& parts, const Pair& pair) {
  const Expression extent = parts.extents[static_cast<size_t>(pair.outer)] * pair.width;
  std::vector<Expression> replacement = axis_variables(parts.extents);
  // All is a function of outer * width + inner: put the whole in place of the inner one.
  replacement[static_cast<size_t>(pair.outer)] = 0;
  replacement[static_cast<size_t>(pair.inner)] = Expression::index(pair.inner, extent);
  substitute_axes(parts, replacement);
  parts.extents[static_cast<size_t>(pair.inner)] = extent;
  for (Value& v : parts.values) {
    std::erase(v.axes, pair.outer);
    std::erase(v.reduced, pair.outer);
  }
}

/// Pairs that could be one: neighbours in an output, or reduced by the same value.
std::vector<Pair> possible_pairs(const SpecParts& parts) {
  std::vector<Pair> pairs;
  const auto width = [&](int axis) { return parts.extents[static_cast<size_t>(axis)]; };
  const std::vector<DenseAxis> order = dense_order(parts.outputs[0].index, parts.extents);
  for (size_t k = 0; k + 1 < order.size(); ++k)
    pairs.push_back({order[k + 1].axis, order[k].axis, width(order[k].axis)});
  AxisSet parallel = 0;
  for (const Output& o : parts.outputs) parallel |= axes_of(o.index);
  std::vector<std::pair<int, int>> seen;
  for (const Value& v : parts.values)
    for (const int a : v.reduced)
      for (const int b : v.reduced)
        if (a != b && (parallel & (axis_bit(a) | axis_bit(b))) == 0 &&
            std::ranges::find(seen, std::pair(a, b)) == seen.end()) {
          seen.emplace_back(a, b);
          pairs.push_back({a, b, width(b)});
        }
  return pairs;
}

}  // namespace

void merge_axes(SpecParts& parts) {
  for (bool progress = true; progress;) {
    progress = false;
    for (const Pair& pair : possible_pairs(parts)) {
      if (!may_merge(parts, pair)) continue;
      apply(parts, pair);
      progress = true;
      break;
    }
  }
}

}  // namespace luminal::kernel
