#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/fail.h"
#include "codegen/emit/c_text.h"
#include "symbolic/interval.h"
#include "symbolic/node.h"

namespace luminal::codegen::c_text {
namespace {

bool is_bounded(Range r) { return symbolic::finite(r.min) && symbolic::finite(r.max); }

}  // namespace

std::string Indices::operator()(const Expression& e) {
  const symbolic::Node& n = e.node();
  switch (n.kind) {
    case symbolic::Kind::Constant:
      return integer_text(n.value);
    case symbolic::Kind::Dim: {
      const auto at = dims.find(n.name);
      LUMINAL_CHECK(at != dims.end(), "dim {}", n.name);
      return at->second;
    }
    case symbolic::Kind::Index: {
      const auto at = variables.find(static_cast<int>(n.value));
      LUMINAL_CHECK(at != variables.end(), "variable i{}", n.value);
      return at->second;
    }
    case symbolic::Kind::FloorDiv:
    case symbolic::Kind::Mod:
      return quotient(e);
    case symbolic::Kind::Product:
      return product(1, e);
    case symbolic::Kind::Sum:
      return sum(e);
    case symbolic::Kind::Min:
    case symbolic::Kind::Max:
    case symbolic::Kind::Negative:
    case symbolic::Kind::And:
    case symbolic::Kind::Or:
      return fold(e);
    case symbolic::Kind::Flat:
      break;
  }
  throw InternalError(fmt::format("[c] '{}' uses the flat index, which loops do not define", e.to_string()));
}

/// Added up or multiplied from left to right: without sign where a number on the way may leave 64 bits.
std::string Indices::joined(const std::vector<std::pair<std::string, Range>>& parts, bool adds) const {
  Range range = parts[0].second;
  bool fits = true;
  std::string text = parts[0].first;
  for (size_t k = 1; k < parts.size(); ++k) {
    range = adds ? symbolic::add(range, parts[k].second) : symbolic::mul(range, parts[k].second);
    fits = fits && is_bounded(range);
    text += (adds ? " + " : " * ") + parts[k].first;
  }
  if (parts.size() == 1) return text;
  if (fits) return "(" + text + ")";
  return fmt::format("(({})(({}){}))", s_.type(Word::I64, 1), s_.type(Word::U64, 1), text);
}

std::string Indices::product(int64_t coefficient, const Expression& monomial) {
  std::vector<std::pair<std::string, Range>> factors;
  const auto add = [&](const Expression& f) { factors.emplace_back((*this)(f), f.range()); };
  if (symbolic::kind_of(monomial) == symbolic::Kind::Product)
    for (const Expression& f : monomial.node().args) add(f);
  else
    add(monomial);
  if (coefficient != 1) factors.emplace_back(integer_text(coefficient), Range{coefficient, coefficient});
  return joined(factors, false);
}

std::string Indices::sum(const Expression& e) {
  const symbolic::Node& n = e.node();
  std::vector<std::pair<std::string, Range>> terms;
  for (const symbolic::Term& t : n.terms)
    terms.emplace_back(product(t.coefficient, t.monomial),
                       symbolic::mul({t.coefficient, t.coefficient}, t.monomial.range()));
  if (n.value != 0) terms.emplace_back(integer_text(n.value), Range{n.value, n.value});
  return joined(terms, true);
}

std::string Indices::quotient(const Expression& e) {
  const symbolic::Node& n = e.node();
  const bool division = n.kind == symbolic::Kind::FloorDiv;
  const std::string a = (*this)(n.args[0]), b = (*this)(n.args[1]);
  const Range dividend = n.args[0].range(), divisor = n.args[1].range();
  const std::optional<int64_t> by = n.args[1].constant();
  if (by && *by > 0 && std::has_single_bit(static_cast<uint64_t>(*by)))
    return division ? fmt::format("({} >> {})", a, std::countr_zero(static_cast<uint64_t>(*by)))
                    : fmt::format("({} & {})", a, *by - 1);
  if (dividend.min < 0 || divisor.min <= 0) return call(division ? "floor_div" : "floor_mod", a, b);
  const char* const sign = division ? "/" : "%";
  // Thirty-two bits where they suffice: wide division is slow on many processors.
  if (by || dividend.max > UINT32_MAX || divisor.max > UINT32_MAX)
    return fmt::format("({} {} {})", a, sign, b);
  return fmt::format("(({0})(({1}){2} {3} ({1}){4}))", s_.type(Word::I64, 1), s_.type(Word::U32, 1), a, sign,
                     b);
}

/// Minimum, maximum, comparison, and, or.
std::string Indices::fold(const Expression& e) {
  const symbolic::Node& n = e.node();
  if (n.kind == symbolic::Kind::Negative) return fmt::format("({} < 0)", (*this)(n.args[0]));
  std::string total = (*this)(n.args[0]);
  for (size_t k = 1; k < n.args.size(); ++k) {
    const std::string next = (*this)(n.args[k]);
    if (n.kind == symbolic::Kind::And || n.kind == symbolic::Kind::Or)
      total = fmt::format("({} {} {})", total, n.kind == symbolic::Kind::And ? "&" : "|", next);
    else
      total = call(n.kind == symbolic::Kind::Min ? "least" : "greatest", total, next);
  }
  return total;
}

/// What an IndexCode gives: 0 where it divides by 0.
std::string Indices::call(const std::string& name, const std::string& a, const std::string& b) {
  if (functions_.is_new(name)) {
    const char* const body = name == "least"      ? "  return a < b ? a : b;\n"
                             : name == "greatest" ? "  return a > b ? a : b;\n"
                             : name == "floor_div"
                                 ? "  if (b == 0) return 0;\n  if (b == -1) return ({0})(0 - ({1})a);\n"
                                   "  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);\n"
                                 : "  if (b == 0 || b == -1) return 0;\n"
                                   "  return a % b + ((a % b != 0 && (a < 0) != (b < 0)) ? b : 0);\n";
    const std::string type = s_.type(Word::I64, 1), natural = s_.type(Word::U64, 1);
    functions_.define(fmt::format("{0} {1} {2}(const {1} a, const {1} b) {{\n{3}}}\n", s_.dialect().function,
                                  type, name, fmt::format(fmt::runtime(body), type, natural)));
  }
  return fmt::format("{}({}, {})", name, a, b);
}

}  // namespace luminal::codegen::c_text
