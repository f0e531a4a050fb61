#include <algorithm>
#include <bit>
#include <cmath>

#include "codegen/schedules/stream.h"
#include "kernel/axes.h"
#include "scalar/typing.h"
#include "symbolic/node.h"
#include "symbolic/polynomial.h"

// Which blocks a mask excludes whole: intervals of its formula over the box of rows and streamed positions.
namespace luminal::codegen::stream {
namespace {

using kernel::Operand;
using symbolic::Kind;

struct Interval {
  Expression low, high;
};
/// 1 where a condition surely holds, surely does not.
struct Surely {
  Expression holds = 0, fails = 0;
};

class Bounds {
 public:
  Bounds(const Box& box, const kernel::Value& v) : box_(box), v_(v) {}

  [[nodiscard]] Surely condition(Scalar s) const {
    const ScalarNode& n = v_.body[s];
    switch (n.op) {
      case ScalarOp::Lt:
      case ScalarOp::Le: {
        const auto a = number(n.operands[0]), b = number(n.operands[1]);
        if (!a || !b) return {};
        if (n.op == ScalarOp::Lt) return {a->high.lt(b->low), a->low.gte(b->high)};
        return {b->low.gte(a->high), b->high.lt(a->low)};
      }
      case ScalarOp::Not:
        return negated(condition(n.operands[0]));
      case ScalarOp::Xor:
        for (const size_t k : {0, 1})
          if (const ScalarNode& by = v_.body[n.operands[k]]; by.op == ScalarOp::Constant && by.payload == 1)
            return negated(condition(n.operands[1 - k]));
        return {};
      case ScalarOp::And:
        return both(condition(n.operands[0]), condition(n.operands[1]));
      case ScalarOp::Or:
        return either(condition(n.operands[0]), condition(n.operands[1]));
      case ScalarOp::Convert: {
        const ScalarNode& from = v_.body[n.operands[0]];
        if (from.dtype == Dtype::Bool) return condition(n.operands[0]);
        if (n.dtype != Dtype::Bool || from.op != ScalarOp::Input) return {};
        const Operand& o = v_.operands[from.payload];
        return o.kind == Operand::Kind::Index ? predicate(o.index) : Surely{};
      }
      default:
        return {};
    }
  }

 private:
  static Surely negated(Surely s) { return {s.fails, s.holds}; }
  static Surely both(const Surely& a, const Surely& b) { return {a.holds & b.holds, a.fails | b.fails}; }
  static Surely either(const Surely& a, const Surely& b) { return {a.holds | b.holds, a.fails & b.fails}; }

  /// Of an index formula that is 0 or 1.
  [[nodiscard]] Surely predicate(const Expression& e) const {
    const symbolic::Node& n = e.node();
    if (n.kind == Kind::Negative) {
      const auto argument = formula(n.args[0]);
      return argument ? Surely{argument->high.lt(0), argument->low.gte(0)} : Surely{};
    }
    if (!symbolic::is_boolean(e)) return {};
    if (n.kind == Kind::Sum && n.value == 1 && n.terms.size() == 1 && n.terms[0].coefficient == -1)
      return negated(predicate(n.terms[0].monomial));
    if (n.kind != Kind::And && n.kind != Kind::Product && n.kind != Kind::Or) return {};
    Surely all = predicate(n.args[0]);
    for (size_t k = 1; k < n.args.size(); ++k)
      all = n.kind == Kind::Or ? either(all, predicate(n.args[k])) : both(all, predicate(n.args[k]));
    return all;
  }

  /// Of a formula that is linear in axes.
  [[nodiscard]] std::optional<Interval> formula(const Expression& e) const {
    Interval sum{symbolic::constant_part(e), symbolic::constant_part(e)};
    for (const symbolic::Term& t : symbolic::Terms(e)) {
      Interval each{t.monomial, t.monomial};
      if (kernel::axes_of(t.monomial) != 0) {
        if (symbolic::kind_of(t.monomial) != Kind::Index) return std::nullopt;
        const auto axis = static_cast<size_t>(t.monomial.node().value);
        each = {box_.low[axis], box_.high[axis]};
      }
      const bool falls = t.coefficient < 0;
      sum.low += (falls ? each.high : each.low) * t.coefficient;
      sum.high += (falls ? each.low : each.high) * t.coefficient;
    }
    return sum;
  }

  /// Of integers, or floats that hold small ones exactly.
  [[nodiscard]] std::optional<Interval> number(Scalar s) const {
    const ScalarNode& n = v_.body[s];
    if (n.op == ScalarOp::Input && v_.operands[n.payload].kind == Operand::Kind::Index)
      return formula(v_.operands[n.payload].index);
    if (n.op == ScalarOp::Constant) return constant(n);
    if (n.op == ScalarOp::Convert) {
      auto from = number(n.operands[0]);
      constexpr int64_t kExact = 1 << 24;
      const auto fits = [](const Expression& e) { return e.range().min > -kExact && e.range().max < kExact; };
      const bool wide = n.dtype == Dtype::I64 || n.dtype == Dtype::I32 || is_real(n.dtype);
      return from && wide && fits(from->low) && fits(from->high) ? from : std::nullopt;
    }
    if (!is_integer(n.dtype) || (n.op != ScalarOp::Add && n.op != ScalarOp::Sub)) return std::nullopt;
    const auto a = number(n.operands[0]), b = number(n.operands[1]);
    if (!a || !b) return std::nullopt;
    if (n.op == ScalarOp::Add) return Interval{a->low + b->low, a->high + b->high};
    return Interval{a->low - b->high, a->high - b->low};
  }
  [[nodiscard]] static std::optional<Interval> constant(const ScalarNode& n) {
    if (n.dtype == Dtype::I64)
      return Interval{static_cast<int64_t>(n.payload), static_cast<int64_t>(n.payload)};
    if (n.dtype != Dtype::I32) return std::nullopt;
    const int64_t value = static_cast<int32_t>(static_cast<uint32_t>(n.payload));
    return Interval{value, value};
  }

  const Box& box_;
  const kernel::Value& v_;
};

bool is_least(const ScalarNode& n) {
  if (n.op != ScalarOp::Constant) return false;
  if (n.dtype == Dtype::F32) return std::bit_cast<float>(static_cast<uint32_t>(n.payload)) == -HUGE_VALF;
  return n.dtype == Dtype::F64 && std::bit_cast<double>(n.payload) == -HUGE_VAL;
}

/// 1 where the node is minus infinity all over the box.
Expression surely_nothing(const Bounds& bounds, const ScalarFunction& body, Scalar s) {
  const ScalarNode& n = body[s];
  if (n.op != ScalarOp::Select) return is_least(n) ? 1 : 0;
  const Surely c = bounds.condition(n.operands[0]);
  const Expression first = surely_nothing(bounds, body, n.operands[1]),
                   second = surely_nothing(bounds, body, n.operands[2]);
  return (c.holds & first) | (c.fails & second) | (first & second);
}

}  // namespace

Expression excluded(const kernel::KernelSpec& spec, const Stream& s, const Box& box) {
  const auto follows = [](const auto& each) { return each.online.has_value(); };
  if (!std::ranges::all_of(s.columns, follows)) return 0;
  Expression all = 1;
  bool any = false;
  for (const Fold& f : s.folds) {
    if (f.online) continue;
    const kernel::Value& v = spec.values()[static_cast<size_t>(f.value)];
    if (v.monoid != Monoid::Max) return 0;
    all = all & surely_nothing(Bounds(box, v), v.body, v.body.outputs()[0]);
    any = true;
  }
  return any ? all : Expression(0);
}

}  // namespace luminal::codegen::stream
