#include <algorithm>

#include "base/fail.h"
#include "symbolic/node.h"
#include "symbolic/polynomial.h"

/// The written forms of a formula: infix, postfix, C, and terms for the e-graph engine.
namespace luminal {
namespace {

using symbolic::factors;
using symbolic::Kind;
using symbolic::kind_of;
using symbolic::Node;
using symbolic::Term;

// How tightly an operator binds, loosest first.
enum Level { kOr, kAnd, kCompare, kAdd, kMultiply, kUnary, kAtom };

std::string facts_text(const DimFacts& f) {
  std::string text;
  const auto part = [&](const std::string& piece) { text += (text.empty() ? "" : ",") + piece; };
  if (f.min != 0 || f.max != INT64_MAX)
    part(fmt::format("{}..{}", f.min == INT64_MIN ? "" : std::to_string(f.min),
                     f.max == INT64_MAX ? "" : std::to_string(f.max)));
  if (f.multiple_of != 1) part(fmt::format("/{}", f.multiple_of));
  return text.empty() ? text : "{" + text + "}";
}

// A sum in reading order: products before single atoms, something positive in front if there is any.
std::vector<Term> reading_order(const Node& sum) {
  std::vector<Term> terms = sum.terms;
  std::ranges::sort(terms, [](const Term& a, const Term& b) {
    const size_t da = factors(a.monomial).size(), db = factors(b.monomial).size();
    return da != db ? da > db : symbolic::compare(a.monomial, b.monomial) < 0;
  });
  const auto positive = std::ranges::find_if(terms, [](const Term& t) { return t.coefficient > 0; });
  if (positive != terms.end()) std::rotate(terms.begin(), positive, positive + 1);
  return terms;
}

// The two sides of `sum < 0` with nothing negative on either: lhs < rhs.
struct Sides {
  Node left, right;
};
Sides sides_of(const Expression& a) {
  Sides s;
  s.left.kind = s.right.kind = Kind::Sum;
  const symbolic::Polynomial p(a);
  for (const Term& t : p.terms) {
    if (t.coefficient > 0 || t.coefficient == INT64_MIN)
      s.left.terms.push_back(t);
    else
      s.right.terms.push_back({-t.coefficient, t.monomial});
  }
  if (p.constant > 0 || p.constant == INT64_MIN)
    s.left.value = p.constant;
  else
    s.right.value = -p.constant;
  return s;
}

class Infix {
 public:
  explicit Infix(bool extents) : extents_(extents) {}

  std::string operator()(const Expression& e, Level outer = kOr) const {
    const Node& n = e.node();
    const auto binary = [&](Level level, const char* op, Level left, Level right) {
      return wrap((*this)(n.args[0], left) + op + (*this)(n.args[1], right), level, outer);
    };
    switch (n.kind) {
      case Kind::Constant:
        return wrap(std::to_string(n.value), n.value < 0 ? kUnary : kAtom, outer);
      case Kind::Dim:
        return n.name + facts_text(n.facts);
      case Kind::Index:
        return fmt::format("i{}", n.value) + (extents_ ? "[" + (*this)(n.args[0]) + "]" : "");
      case Kind::Flat:
        return "z";
      case Kind::FloorDiv:
        return binary(kMultiply, "/", kMultiply, kUnary);
      case Kind::Mod:
        return binary(kMultiply, "%", kMultiply, kUnary);
      case Kind::Min:
        return "min(" + list(n.args, ", ", kOr) + ")";
      case Kind::Max:
        return "max(" + list(n.args, ", ", kOr) + ")";
      case Kind::Negative:
        return wrap(comparison(n.args[0]), kCompare, outer);
      // Operands stand in parentheses unless they are atoms: people remember no precedence here.
      case Kind::And:
        return wrap(list(n.args, " & ", kMultiply), kAnd, outer);
      case Kind::Or:
        return wrap(list(n.args, " | ", kMultiply), kOr, outer);
      case Kind::Product:
        return wrap(list(n.args, "*", kUnary), kMultiply, outer);
      case Kind::Sum:
        return sum(n, outer);
    }
    return {};
  }

 private:
  static std::string wrap(const std::string& text, Level level, Level outer) {
    return level < outer ? "(" + text + ")" : text;
  }
  std::string list(const std::vector<Expression>& args, const char* separator, Level level) const {
    std::string text;
    for (const Expression& a : args) text += (text.empty() ? "" : separator) + (*this)(a, level);
    return text;
  }

  std::string comparison(const Expression& a) const {
    Sides s = sides_of(a);
    // x < y + 1 reads better as x <= y, and 1 < x as x >= 2.
    if (s.left.terms.empty()) {
      const int64_t above = s.left.value - s.right.value;
      s.right.value = 0;
      return sum(s.right, kAdd) + " >= " + std::to_string(above + 1);
    }
    if (s.right.terms.empty() || s.right.value != 1) return sum(s.left, kAdd) + " < " + sum(s.right, kAdd);
    s.right.value = 0;
    return sum(s.left, kAdd) + " <= " + sum(s.right, kAdd);
  }

  std::string sum(const Node& n, Level outer) const {
    if (n.terms.empty()) return std::to_string(n.value);
    const std::vector<Term> terms = reading_order(n);
    if (n.value == 0 && terms.size() == 1) return wrap(term(terms[0], true), kMultiply, outer);
    std::string text;
    const bool constant_first = n.value > 0 && terms[0].coefficient < 0;
    if (constant_first) text = std::to_string(n.value);
    for (const Term& t : terms) text += term(t, text.empty());
    if (n.value != 0 && !constant_first)
      text += n.value > 0 ? fmt::format(" + {}", n.value) : " - " + std::to_string(n.value).substr(1);
    return wrap(text, kAdd, outer);
  }

  std::string term(const Term& t, bool first) const {
    const bool minus = t.coefficient < 0;
    const std::string sign = first ? (minus ? "-" : "") : (minus ? " - " : " + ");
    std::string magnitude = std::to_string(t.coefficient);
    if (minus) magnitude.erase(0, 1);
    const bool one = magnitude == "1";
    const Level level = one && !minus && kind_of(t.monomial) != Kind::Product ? kMultiply : kUnary;
    std::string text;
    for (const Expression& f : factors(t.monomial)) text += (text.empty() ? "" : "*") + (*this)(f, level);
    return sign + (one ? "" : magnitude + "*") + text;
  }

  bool extents_;
};

// A binary operator applied along a list, left to right, by the given joiner.
template <class Join>
std::string joined(std::vector<std::string> parts, Join join) {
  std::string text = std::move(parts[0]);
  for (size_t i = 1; i < parts.size(); ++i) text = join(text, parts[i]);
  return text;
}

// Calls emit(op, left, right) for each operation, as a printer of binary trees needs it.
template <class Leaf, class Binary>
std::string as_binary_tree(const Expression& e, const Leaf& leaf, const Binary& binary) {
  const Node& n = e.node();
  const auto self = [&](const Expression& a) { return as_binary_tree(a, leaf, binary); };
  const auto along = [&](const std::vector<Expression>& args, const char* op) {
    std::vector<std::string> parts;
    for (const Expression& a : args) parts.push_back(self(a));
    return joined(std::move(parts),
                  [&](const std::string& a, const std::string& b) { return binary(op, a, b); });
  };
  const auto sum = [&](const Node& s) {
    std::vector<std::string> parts;
    for (const Term& t : reading_order(s))
      parts.push_back(t.coefficient == 1
                          ? self(t.monomial)
                          : binary("*", leaf(symbolic::constant(t.coefficient)), self(t.monomial)));
    if (s.value != 0 || parts.empty()) parts.push_back(leaf(symbolic::constant(s.value)));
    return joined(std::move(parts),
                  [&](const std::string& a, const std::string& b) { return binary("+", a, b); });
  };
  switch (n.kind) {
    case Kind::FloorDiv:
      return along(n.args, "/");
    case Kind::Mod:
      return along(n.args, "%");
    case Kind::Min:
      return along(n.args, "min");
    case Kind::Max:
      return along(n.args, "max");
    case Kind::And:
      return along(n.args, "&");
    case Kind::Or:
      return along(n.args, "|");
    case Kind::Product:
      return along(n.args, "*");
    case Kind::Sum:
      return sum(n);
    case Kind::Negative: {
      const Sides s = sides_of(n.args[0]);
      return binary("<", sum(s.left), sum(s.right));
    }
    default:
      return leaf(e);
  }
}

std::string c_name(std::string name) {
  std::ranges::replace(name, '.', '_');
  return name;
}

std::string c_leaf(const Expression& e) {
  const Node& n = e.node();
  if (n.kind == Kind::Dim) return c_name(n.name);
  if (n.kind != Kind::Constant) return n.kind == Kind::Index ? fmt::format("i{}", n.value) : "z";
  if (n.value == INT64_MIN) return "(-9223372036854775807L - 1)";
  const bool fits_int = n.value >= -INT32_MAX && n.value <= INT32_MAX;
  const std::string text = std::to_string(n.value) + (fits_int ? "" : "L");
  return n.value < 0 ? "(" + text + ")" : text;
}

std::string c_text(const Expression& e) {
  const Node& n = e.node();
  if (n.kind == Kind::FloorDiv || n.kind == Kind::Mod) {
    const bool division = n.kind == Kind::FloorDiv;
    const std::string a = c_text(n.args[0]), b = c_text(n.args[1]);
    // C truncates: the same as the floor where both sides are at least 0.
    if (n.args[0].node().range.min >= 0 && n.args[1].node().range.min >= 0)
      return fmt::format("({} {} {})", a, division ? "/" : "%", b);
    return fmt::format("{}({}, {})", division ? "luminal_floor_div" : "luminal_floor_mod", a, b);
  }
  const auto along = [&](const std::vector<Expression>& args, auto join) {
    std::vector<std::string> parts;
    for (const Expression& a : args) parts.push_back(c_text(a));
    return joined(std::move(parts), join);
  };
  const auto infix = [](const char* op) {
    return [op](const std::string& a, const std::string& b) { return fmt::format("({} {} {})", a, op, b); };
  };
  const auto call = [](const char* f) {
    return [f](const std::string& a, const std::string& b) { return fmt::format("{}({}, {})", f, a, b); };
  };
  const auto sum = [&](const Node& s) {
    std::vector<std::string> parts;
    for (const Term& t : reading_order(s)) {
      const std::string m = c_text(t.monomial);
      const std::string c = c_leaf(symbolic::constant(t.coefficient));
      parts.push_back(t.coefficient == 1 ? m : fmt::format("({} * {})", c, m));
    }
    if (s.value != 0 || parts.empty()) parts.push_back(c_leaf(symbolic::constant(s.value)));
    return joined(std::move(parts), infix("+"));
  };
  switch (n.kind) {
    case Kind::Min:
      return along(n.args, call("luminal_min"));
    case Kind::Max:
      return along(n.args, call("luminal_max"));
    case Kind::And:
      return along(n.args, infix("&"));
    case Kind::Or:
      return along(n.args, infix("|"));
    case Kind::Product:
      return along(n.args, infix("*"));
    case Kind::Sum:
      return sum(n);
    case Kind::Negative: {
      const Sides s = sides_of(n.args[0]);
      return fmt::format("({} < {})", sum(s.left), sum(s.right));
    }
    default:
      return c_leaf(e);
  }
}

std::string egglog_leaf(const Expression& e) {
  const Node& n = e.node();
  switch (n.kind) {
    case Kind::Constant:
      return fmt::format("(Num {})", n.value);
    case Kind::Dim:
      return fmt::format("(Dim \"{}\" {} {} {})", n.name, n.facts.min, n.facts.max, n.facts.multiple_of);
    case Kind::Index:
      return fmt::format("(Index {} {})", n.value, n.args[0].to_egglog());
    default:
      return "(Flat)";
  }
}

const char* egglog_name(std::string_view op) {
  constexpr std::pair<std::string_view, const char*> kNames[] = {
      {"+", "Add"},   {"*", "Mul"},  {"/", "Div"}, {"%", "Mod"}, {"min", "Min"},
      {"max", "Max"}, {"<", "Less"}, {"&", "And"}, {"|", "Or"}};
  for (const auto& [symbol, name] : kNames)
    if (symbol == op) return name;
  throw InternalError("unnamed operator");
}

}  // namespace

std::string Expression::to_string() const { return Infix(false)(*this); }
std::string Expression::to_text() const { return Infix(true)(*this); }

std::string Expression::to_rpn() const {
  return as_binary_tree(
      *this, [](const Expression& leaf) { return leaf.to_string(); },
      [](const char* op, const std::string& a, const std::string& b) { return a + " " + b + " " + op; });
}

std::string Expression::to_kernel() const { return c_text(*this); }

std::string Expression::to_egglog() const {
  return as_binary_tree(*this, egglog_leaf, [](const char* op, const std::string& a, const std::string& b) {
    return fmt::format("({} {} {})", egglog_name(op), a, b);
  });
}

std::string to_string(std::span<const Expression> shape) {
  std::string text;
  for (const Expression& d : shape) text += (text.empty() ? "" : ", ") + d.to_string();
  return "[" + text + "]";
}

}  // namespace luminal
