#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/fail.h"
#include "codegen/emit/llvm_writer.h"
#include "symbolic/interval.h"
#include "symbolic/node.h"

namespace luminal::codegen::llvm_text {
namespace {

using symbolic::Node;

std::string text_of(int64_t value) { return std::to_string(value); }
bool bounded(Range r) { return symbolic::finite(r.min) && symbolic::finite(r.max); }
/// Known not to overflow: every value the formula may take fits.
const char* no_wrap(Range r) { return bounded(r) ? " nsw" : ""; }
LlvmValue constant(int64_t value) { return {text_of(value), 0}; }

}  // namespace

LlvmValue Indices::pure(const std::string& op, const LlvmValue& a, const LlvmValue& b) {
  return w_.pure(std::max(a.level, b.level), fmt::format("{} i64 {}, {}", op, a.text, b.text));
}

LlvmValue Indices::value(const Expression& e) { return sized(e).operand; }

Indices::Sized Indices::sized(const Expression& e) {
  const Node& n = e.node();
  switch (n.kind) {
    case symbolic::Kind::Constant:
      return {constant(n.value), n.range};
    case symbolic::Kind::Dim: {
      const auto at = dims.find(n.name);
      LUMINAL_CHECK(at != dims.end(), "dim {}", n.name);
      return {at->second, n.range};
    }
    case symbolic::Kind::Index: {
      const auto at = variables.find(static_cast<int>(n.value));
      LUMINAL_CHECK(at != variables.end(), "variable i{}", n.value);
      return {at->second, n.range};
    }
    case symbolic::Kind::FloorDiv:
    case symbolic::Kind::Mod:
      return {divide(e), n.range};
    case symbolic::Kind::Product:
      return term(1, e);
    case symbolic::Kind::Sum: {
      std::vector<Sized> terms;
      for (const symbolic::Term& t : n.terms) terms.push_back(term(t.coefficient, t.monomial));
      Sized total = sum(std::move(terms));
      if (n.value != 0) total = add(total, {constant(n.value), {n.value, n.value}});
      return total;
    }
    case symbolic::Kind::Min:
    case symbolic::Kind::Max:
    case symbolic::Kind::Negative:
    case symbolic::Kind::And:
    case symbolic::Kind::Or:
      return {fold(e), n.range};
    case symbolic::Kind::Flat:
      break;
  }
  throw InternalError(
      fmt::format("[llvm] '{}' uses the flat index, which loops do not define", e.to_string()));
}

Indices::Sized Indices::add(const Sized& a, const Sized& b) {
  const Range r = symbolic::add(a.range, b.range);
  return {pure(std::string("add") + no_wrap(r), a.operand, b.operand), r};
}

Indices::Sized Indices::mul(const Sized& a, const Sized& b) {
  const Range r = symbolic::mul(a.range, b.range);
  return {pure(std::string("mul") + no_wrap(r), a.operand, b.operand), r};
}

/// Outer factors first, so that as much as possible is computed outside.
Indices::Sized Indices::term(int64_t coefficient, const Expression& monomial) {
  std::vector<Sized> factors;
  if (symbolic::kind_of(monomial) == symbolic::Kind::Product)
    for (const Expression& f : monomial.node().args) factors.push_back(sized(f));
  else
    factors.push_back(sized(monomial));
  if (coefficient != 1) factors.insert(factors.begin(), {constant(coefficient), {coefficient, coefficient}});
  std::ranges::stable_sort(factors, {}, [](const Sized& s) { return s.operand.level; });
  Sized product = factors[0];
  for (size_t k = 1; k < factors.size(); ++k) product = mul(product, factors[k]);
  return product;
}

Indices::Sized Indices::sum(std::vector<Sized> terms) {
  std::ranges::stable_sort(terms, {}, [](const Sized& s) { return s.operand.level; });
  Sized total = terms[0];
  for (size_t k = 1; k < terms.size(); ++k) total = add(total, terms[k]);
  return total;
}

/// Neither side negative. Thirty-two bits where they suffice: wide division is slow on many processors.
LlvmValue Indices::unsigned_divide(const std::string& op, const Sized& a, const Sized& b) {
  const bool small = a.range.max <= UINT32_MAX && b.range.max <= UINT32_MAX;
  const bool by_constant = b.operand.text[0] != '%';
  if (!small || by_constant) return pure(op, a.operand, b.operand);
  const auto narrow = [&](const LlvmValue& o) {
    return w_.pure(o.level, fmt::format("trunc i64 {} to i32", o.text));
  };
  const LlvmValue x = narrow(a.operand), y = narrow(b.operand);
  const int level = std::max(x.level, y.level);
  const LlvmValue result = w_.pure(level, fmt::format("{} i32 {}, {}", op, x.text, y.text));
  return w_.pure(level, fmt::format("zext i32 {} to i64", result.text));
}

LlvmValue Indices::divide(const Expression& e) {
  const Node& n = e.node();
  const bool division = n.kind == symbolic::Kind::FloorDiv;
  const Sized a = sized(n.args[0]);
  Sized b = sized(n.args[1]);
  // What stands outside a loop also runs where the loop has no iterations, and the divisor may be 0 there.
  if (b.range.min <= 0 && b.range.max >= 0) {
    const LlvmValue zero = pure("icmp eq", b.operand, constant(0));
    b.operand =
        w_.pure(b.operand.level, fmt::format("select i1 {}, i64 1, i64 {}", zero.text, b.operand.text));
    if (b.range.min == 0) b.range.min = 1;
  }
  const std::optional<int64_t> by = n.args[1].constant();
  if (by && *by > 0 && std::has_single_bit(static_cast<uint64_t>(*by)))
    return division ? pure("ashr", a.operand, constant(std::countr_zero(static_cast<uint64_t>(*by))))
                    : pure("and", a.operand, constant(*by - 1));
  if (a.range.min >= 0 && b.range.min > 0) return unsigned_divide(division ? "udiv" : "urem", a, b);
  // Only -1 and the least number have no quotient; they cannot meet where nothing overflows.
  const LlvmValue rest = pure("srem", a.operand, b.operand);
  const LlvmValue signs_differ = pure("icmp slt", pure("xor", rest, b.operand), constant(0));
  const LlvmValue inexact = pure("icmp ne", rest, constant(0));
  const LlvmValue adjust = w_.pure(rest.level, fmt::format("and i1 {}, {}", inexact.text, signs_differ.text));
  const auto choose = [&](const std::string& value) {
    return w_.pure(rest.level, fmt::format("select i1 {}, i64 {}, i64 0", adjust.text, value));
  };
  if (!division) return pure("add", rest, choose(b.operand.text));
  return pure("add", pure("sdiv", a.operand, b.operand), choose("-1"));
}

/// Minimum, maximum, comparison, and, or.
LlvmValue Indices::fold(const Expression& e) {
  const Node& n = e.node();
  if (n.kind == symbolic::Kind::Negative) {
    // 1 if the argument is below 0. A sum may leave 64 bits only where its value would be meaningless.
    return pure("lshr", value(n.args[0]), constant(63));
  }
  std::vector<LlvmValue> operands;
  for (const Expression& a : n.args) operands.push_back(value(a));
  std::ranges::stable_sort(operands, {}, &LlvmValue::level);
  LlvmValue total = operands[0];
  for (size_t k = 1; k < operands.size(); ++k) {
    if (n.kind == symbolic::Kind::And || n.kind == symbolic::Kind::Or) {
      total = pure(n.kind == symbolic::Kind::And ? "and" : "or", total, operands[k]);
      continue;
    }
    LUMINAL_CHECK(n.kind == symbolic::Kind::Min || n.kind == symbolic::Kind::Max, "formula {}",
                  e.to_string());
    const std::string name =
        declare_(n.kind == symbolic::Kind::Min ? "llvm.smin.i64" : "llvm.smax.i64", "i64", "i64, i64");
    total = w_.pure(std::max(total.level, operands[k].level),
                    fmt::format("call i64 {}(i64 {}, i64 {})", name, total.text, operands[k].text));
  }
  return total;
}

LlvmValue Indices::address(const LlvmValue& base, const std::string& element, const Expression& e) {
  const Node& n = e.node();
  std::vector<Sized> terms;
  int64_t constant_part = 0;
  if (n.kind == symbolic::Kind::Sum) {
    constant_part = n.value;
    for (const symbolic::Term& t : n.terms) terms.push_back(term(t.coefficient, t.monomial));
  } else if (n.kind == symbolic::Kind::Constant) {
    constant_part = n.value;
  } else {
    terms.push_back(sized(e));
  }
  std::ranges::stable_sort(terms, {}, [](const Sized& s) { return s.operand.level; });
  LlvmValue place = base;
  const auto step = [&](const LlvmValue& by) {
    place = w_.pure(std::max(place.level, by.level),
                    fmt::format("getelementptr {}, ptr {}, i64 {}", element, place.text, by.text));
  };
  // Terms of one depth are added up, then the address moves once; the constant last, where it becomes part of
  // the instruction that reads.
  for (size_t k = 0; k < terms.size();) {
    Sized group = terms[k];
    for (++k; k < terms.size() && terms[k].operand.level == group.operand.level; ++k)
      group = add(group, terms[k]);
    step(group.operand);
  }
  if (constant_part != 0) step(constant(constant_part));
  return place;
}

}  // namespace luminal::codegen::llvm_text
