#include "kernel/axes.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/fail.h"
#include "scalar/typing.h"
#include "symbolic/node.h"
#include "symbolic/polynomial.h"

namespace luminal::kernel {

AxisSet axes_of(const Expression& e) {
  const symbolic::Node& n = e.node();
  static_assert(symbolic::kLastIndexBit == kMaxAxes - 1);
  if ((n.indices >> symbolic::kLastIndexBit) != 0) {
    const int last = *e.to_indices().rbegin();
    LUMINAL_CHECK(last < kMaxAxes, "axis {} of at most {}", last, kMaxAxes);
  }
  return n.indices;
}

AxisSet axes_of(std::span<const int> axes) {
  AxisSet set = 0;
  for (const int a : axes) set |= axis_bit(a);
  return set;
}

std::vector<int> list_of(AxisSet set) {
  std::vector<int> list;
  list.reserve(static_cast<size_t>(axis_count(set)));
  for_each_axis(set, [&](int a) { list.push_back(a); });
  return list;
}

AxisSet axes_of(const Operand& operand, std::span<const Value> values) {
  if (operand.kind == Operand::Kind::Value) return axes_of(values[static_cast<size_t>(operand.value)].axes);
  AxisSet set = axes_of(operand.index);
  for (const Mask& m : operand.masks) set |= axes_of(m.predicate);
  return set;
}

std::vector<AxisSet> node_axes(const Value& v, std::span<const Value> values) {
  const auto nodes = v.body.nodes();
  std::vector<AxisSet> axes(nodes.size(), 0);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const int count = arity(nodes[i].op);
    if (nodes[i].op == ScalarOp::Input) axes[i] = axes_of(v.operands[nodes[i].payload], values);
    for (int k = 0; k < count; ++k) axes[i] |= axes[nodes[i].operands[static_cast<size_t>(k)].index];
  }
  return axes;
}

Expression row_major(std::span<const int> axes, std::span<const Expression> extents) {
  Expression index = 0;
  for (const int a : axes)
    index = index * extents[static_cast<size_t>(a)] + Expression::index(a, extents[static_cast<size_t>(a)]);
  return index;
}

Expression elements_of(std::span<const int> axes, std::span<const Expression> extents) {
  Expression elements = 1;
  for (const int a : axes) elements *= extents[static_cast<size_t>(a)];
  return elements;
}

std::vector<Expression> axis_variables(std::span<const Expression> extents) {
  std::vector<Expression> variables;
  variables.reserve(extents.size());
  for (size_t k = 0; k < extents.size(); ++k)
    variables.push_back(Expression::index(static_cast<int>(k), extents[k]));
  return variables;
}

namespace {

/// The axis and its stride if the term is a stride times one index variable.
std::optional<DenseAxis> strided_axis(const symbolic::Term& term) {
  if (symbolic::kind_of(term.monomial) == symbolic::Kind::Index)
    return DenseAxis{static_cast<int>(term.monomial.node().value), term.coefficient};
  DenseAxis result{-1, term.coefficient};
  for (const Expression& f : symbolic::factors(term.monomial)) {
    if (!f.node().uses_index) {
      result.stride *= f;
      continue;
    }
    if (symbolic::kind_of(f) != symbolic::Kind::Index || result.axis >= 0) return std::nullopt;
    result.axis = static_cast<int>(f.node().value);
  }
  return result.axis < 0 ? std::nullopt : std::optional(result);
}

}  // namespace

std::vector<DenseAxis> dense_order(const Expression& index, std::span<const Expression> extents) {
  if (symbolic::constant_part(index) != 0) return {};
  // A stride that is a sum of several dims' products spreads over several terms: add them up by axis.
  std::vector<DenseAxis> axes;
  for (const symbolic::Term& t : symbolic::Terms(index)) {
    const auto one = strided_axis(t);
    if (!one) return {};
    const auto same = std::ranges::find(axes, one->axis, &DenseAxis::axis);
    if (same == axes.end())
      axes.push_back(*one);
    else
      same->stride += one->stride;
  }
  Expression expected = 1;
  for (size_t k = 0; k < axes.size(); ++k) {
    const auto next = std::find_if(axes.begin() + static_cast<ptrdiff_t>(k), axes.end(),
                                   [&](const DenseAxis& a) { return a.stride == expected; });
    if (next == axes.end()) return {};
    std::iter_swap(axes.begin() + static_cast<ptrdiff_t>(k), next);
    expected *= extents[static_cast<size_t>(axes[k].axis)];
  }
  return axes;
}

double typical_size(const Expression& e) {
  if (const auto c = e.constant()) return static_cast<double>(*c);
  std::map<std::string, double, std::less<>> dims;
  const auto collect = [&dims](const auto& self, const symbolic::Node& n) -> void {
    if (n.kind == symbolic::Kind::Dim)
      dims[n.name] = static_cast<double>(std::clamp<int64_t>(1021, n.facts.min, n.facts.max));
    for (const Expression& a : n.args) self(self, a.node());
    for (const symbolic::Term& t : n.terms) self(self, t.monomial.node());
  };
  collect(collect, e.node());
  return e.exec_float(dims);
}

Number plain_number(const Number& number) {
  if (number.is_integer()) return number;
  constexpr double kModerate = 1e6;
  const auto value = number.as<double>();
  const bool whole = std::abs(value) <= kModerate && value == std::floor(value);
  return whole && !(value == 0 && std::signbit(value)) ? Number(static_cast<int64_t>(value)) : number;
}

Scalar number_constant(ScalarBuilder& b, Dtype dtype, const Number& number) {
  return b.constant_bits(dtype, bits_of(dtype, number));
}

}  // namespace luminal::kernel
