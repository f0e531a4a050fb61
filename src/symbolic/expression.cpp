#include "luminal/expression.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <numeric>
#include <unordered_map>

#include "base/fail.h"
#include "symbolic/dims.h"
#include "symbolic/interval.h"
#include "symbolic/memo.h"
#include "symbolic/names.h"
#include "symbolic/node.h"
#include "symbolic/polynomial.h"
#include "symbolic/prove.h"

namespace luminal {

using symbolic::Kind;
using symbolic::Node;
using symbolic::Term;

Expression::Expression() : Expression(symbolic::constant(0)) {}
Expression::Expression(Literal literal) : Expression(symbolic::constant(literal.value)) {}

Expression Expression::dim(std::string_view name, DimFacts facts) {
  symbolic::check_dim_name(name);
  if (facts.min > facts.max)
    fail<Error>("[Expression] dim '{}' has min {} above max {}; swap them", name, facts.min, facts.max);
  if (facts.multiple_of < 1)
    fail<Error>("[Expression] dim '{}' has multiple_of {}; give at least 1", name, facts.multiple_of);
  const int64_t m = facts.multiple_of;
  if (m > 1) {  // ends of the range are multiples themselves
    if (facts.min != INT64_MIN) {
      const int64_t above = symbolic::floor_mod(facts.min, m);
      if (above != 0) facts.min = symbolic::saturate(symbolic::int128{facts.min} + (m - above));
    }
    if (facts.max != INT64_MAX) facts.max -= symbolic::floor_mod(facts.max, m);
    if (facts.min > facts.max)
      fail<Error>("[Expression] dim '{}' has no possible size: no multiple of {} lies in its range; widen it",
                  name, m);
  }
  Node n;
  n.kind = Kind::Dim;
  n.name = name;
  n.facts = facts;
  return symbolic::intern(std::move(n));
}

Expression Expression::index(int axis, const Expression& extent) {
  if (axis < 0) fail<Error>("[Expression] index variable of axis {}; axes count from 0", axis);
  if (extent.node().uses_index || extent.node().uses_flat)
    fail<Error>("[Expression] the extent {} of i{} depends on an index variable; use dims and constants only",
                extent.to_string(), axis);
  if (extent.node().range.max <= 1) return symbolic::constant(0);  // its only value
  return symbolic::Memo<struct Indexing>::of(symbolic::constant(axis), extent, [&] {
    Node n;
    n.kind = Kind::Index;
    n.value = axis;
    n.args = {extent};
    return symbolic::intern(std::move(n));
  });
}

Expression Expression::flat_index() { return symbolic::raw(Kind::Flat, {}); }

Expression operator+(const Expression& a, const Expression& b) { return symbolic::add(a, b); }
Expression operator-(const Expression& a, const Expression& b) { return symbolic::subtract(a, b); }
Expression operator*(const Expression& a, const Expression& b) { return symbolic::multiply(a, b); }
Expression operator/(const Expression& a, const Expression& b) { return symbolic::divide(a, b); }
Expression operator%(const Expression& a, const Expression& b) { return symbolic::modulo(a, b); }
Expression operator&(const Expression& a, const Expression& b) { return symbolic::bit_and(a, b); }
Expression operator|(const Expression& a, const Expression& b) { return symbolic::bit_or(a, b); }
Expression Expression::operator-() const { return symbolic::subtract(symbolic::constant(0), *this); }
Expression Expression::min(const Expression& b) const { return symbolic::minimum(*this, b); }
Expression Expression::max(const Expression& b) const { return symbolic::maximum(*this, b); }

Expression Expression::ceil_div(const Expression& b) const {
  // -(-a / b): unlike (a + b - 1) / b right for negative divisors too; the two agree for positive ones.
  if (b.node().range.min >= 0) return (*this + b - 1) / b;
  return -(-*this / b);
}

Expression Expression::lt(const Expression& b) const {
  const Range x = range(), y = b.range();
  if (x.max < y.min) return 1;
  if (x.min >= y.max && x.min != INT64_MIN && y.max != INT64_MAX) return 0;
  return symbolic::negative(*this - b);
}

Expression Expression::gte(const Expression& b) const {
  const Range x = range(), y = b.range();
  if (x.min >= y.max && x.min != INT64_MIN && y.max != INT64_MAX) return 1;
  if (x.max < y.min) return 0;
  return symbolic::negative(b - *this - 1);  // b <= a exactly if b - a - 1 < 0
}

std::optional<int64_t> Expression::constant() const {
  if (node_->kind != Kind::Constant) return std::nullopt;
  return node_->value;
}

std::optional<size_t> Expression::to_usize() const {
  const auto value = constant();
  if (!value || *value < 0) return std::nullopt;
  return static_cast<size_t>(*value);
}

namespace {

// Calls visit(node) once for each different node under e; extents of index variables are not entered.
template <class Visit>
void for_each_node(const Expression& root, Visit visit) {
  std::vector<const Node*> open{&root.node()};
  std::set<const Node*> seen;
  while (!open.empty()) {
    const Node* n = open.back();
    open.pop_back();
    if (!seen.insert(n).second) continue;
    visit(*n);
    if (n->kind == Kind::Index) continue;
    for (const Expression& a : n->args) open.push_back(&a.node());
    for (const Term& t : n->terms) open.push_back(&t.monomial.node());
  }
}

}  // namespace

std::set<std::string> Expression::to_symbols() const {
  std::set<std::string> names;
  if (!node_->uses_dim) return names;
  for_each_node(*this, [&](const Node& n) {
    if (n.kind == Kind::Dim) names.insert(n.name);
  });
  return names;
}

void symbolic::collect_dims(const Expression& e, KnownDims& dims) {
  if (!e.node().uses_dim) return;
  for_each_node(e, [&](const Node& n) {
    if (n.kind != Kind::Dim) return;
    DimFacts& facts = dims[n.name];
    facts.min = std::max(facts.min, n.facts.min);
    facts.max = std::min(facts.max, n.facts.max);
    facts.multiple_of = std::lcm(facts.multiple_of, n.facts.multiple_of);
  });
}

std::set<int> Expression::to_indices() const {
  std::set<int> axes;
  if ((node_->indices >> symbolic::kLastIndexBit) == 0) {
    for (uint64_t rest = node_->indices; rest != 0; rest &= rest - 1) axes.insert(std::countr_zero(rest));
    return axes;
  }
  for_each_node(*this, [&](const Node& n) {
    if (n.kind == Kind::Index) axes.insert(static_cast<int>(n.value));
  });
  return axes;
}

bool Expression::uses_flat_index() const { return node_->uses_flat; }
Range Expression::range() const { return node_->range; }
int64_t Expression::divisor() const { return node_->divisor; }
uint64_t Expression::hash() const { return node_->hash; }

bool Expression::known_equal(const Expression& a, const Expression& b) {
  if (a == b) return true;
  const Range x = a.range(), y = b.range();
  if (x.max < y.min || y.max < x.min) return false;
  return symbolic::proves_less_equal(a, b) && symbolic::proves_less_equal(b, a);
}
bool Expression::known_less(const Expression& a, const Expression& b) { return symbolic::proves_less(a, b); }
bool Expression::known_less_equal(const Expression& a, const Expression& b) {
  return symbolic::proves_less_equal(a, b);
}

std::optional<Expression::Affine> Expression::as_affine() const {
  const symbolic::Polynomial p(*this);
  Affine result{.constant = p.constant, .coefficients = {}};
  for (const Term& t : p.terms) {
    Expression coefficient = t.coefficient;
    std::optional<int> axis;
    for (const Expression& f : symbolic::factors(t.monomial)) {
      if (f.node_->uses_flat) return std::nullopt;
      if (!f.node_->uses_index) {
        coefficient *= f;
        continue;
      }
      if (f.node_->kind != Kind::Index || axis) return std::nullopt;
      axis = static_cast<int>(f.node_->value);
    }
    if (axis)
      result.coefficients[*axis] += coefficient;
    else
      result.constant += coefficient;
  }
  return result;
}

Expression element_count(std::span<const Expression> shape) {
  // The others may be of any size where one is 0.
  if (std::ranges::any_of(shape, [](const Expression& d) { return d.constant() == 0; })) return 0;
  Expression count = 1;
  for (const Expression& d : shape) count *= d;
  return count;
}

std::vector<int64_t> exec(std::span<const Expression> shape, const DimMap& dims) {
  std::vector<int64_t> sizes;
  sizes.reserve(shape.size());
  for (const Expression& d : shape) {
    sizes.push_back(d.exec(dims));
    if (sizes.back() < 0)
      fail<Error>("[Expression] dim {} of {} is {}; sizes must be at least 0", d.to_string(),
                  to_string(shape), sizes.back());
  }
  return sizes;
}

}  // namespace luminal
