#include <algorithm>
#include <bit>
#include <cmath>

#include "codegen/schedules/stream.h"
#include "kernel/axes.h"
#include "kernel/calls.h"
#include "kernel/copies.h"
#include "scalar/typing.h"
#include "symbolic/node.h"
#include "symbolic/polynomial.h"

// Which blocks masks exclude whole: intervals of their formulas over the box of rows and streamed positions. A mask
// hides scores by minus infinity or by a large negative number, or it makes weights 0.
//
// When it is sound to leave a block out. Let every score x of the block be at most c, as its mask says.
//
// Sums that follow a maximum m add exp(x - u(m)), u as in kernel/online.h. Let m be the maximum of what has been walked
// over. The block changes neither m nor a sum if c <= m and exp(u(c) - u(m)), the factor of kernel::Online::rescale, is
// exactly 0 in the arithmetic of the kernel: x <= c gives exp(x - u(m)) <= exp(u(c) - u(m)) = 0, and m only rises from
// here on. So a block is asked about when all blocks that no mask excludes have been walked over. A row that sees no
// key fails both conditions (m is minus infinity or c itself): it walks over all blocks, and a mask of -1e9 gives it
// the mean of all values, as the plain graph does. A score of minus infinity adds nothing at any m.
//
// A mask that is added, x = p + c, hides what is no greater than c and |p|. A product p of the stream has
// |p| <= sum |a| * max |b|, of its sides a and b (Hoelder's inequality); the kernel computes both factors, of a row and
// of a block, and so a c of its own for each row. Where this is not finite, a NaN among it, the block is walked over.
//
// Other sums have no m that rises. There the weight must have a factor that is 0 all over the block: a selection of 0,
// or exp(x - l) where l was stored by an earlier kernel. The kernel computes exp(c - l) at the block's rows or streamed
// positions, on whichever l depends. A row whose l makes this anything but 0, NaN included, keeps the block.
//
// A weight of 0 counts as nothing, whatever it multiplies (MathMode::Relaxed).
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
  Bounds(const Box& box, const ScalarFunction& body, std::span<const Operand> operands)
      : box_(box), body_(body), operands_(operands) {}

  [[nodiscard]] Surely condition(Scalar s) const {
    const ScalarNode& n = body_[s];
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
          if (const ScalarNode& by = body_[n.operands[k]]; by.op == ScalarOp::Constant && by.payload == 1)
            return negated(condition(n.operands[1 - k]));
        return {};
      case ScalarOp::And:
        return both(condition(n.operands[0]), condition(n.operands[1]));
      case ScalarOp::Or:
        return either(condition(n.operands[0]), condition(n.operands[1]));
      case ScalarOp::Convert: {
        const ScalarNode& from = body_[n.operands[0]];
        if (from.dtype == Dtype::Bool) return condition(n.operands[0]);
        if (n.dtype != Dtype::Bool || from.op != ScalarOp::Input) return {};
        const Operand& o = operands_[from.payload];
        return o.kind == Operand::Kind::Index ? predicate(o.index) : Surely{};
      }
      default:
        return {};
    }
  }

  /// Of what is converted to a number: a truth value, or an integer formula that is 0 or 1.
  [[nodiscard]] std::optional<Surely> number_of_condition(Scalar s) const {
    const ScalarNode& n = body_[s];
    if (n.dtype == Dtype::Bool) return condition(s);
    if (n.op == ScalarOp::Convert && is_integer(n.dtype)) return number_of_condition(n.operands[0]);
    if (n.op != ScalarOp::Input || operands_[n.payload].kind != Operand::Kind::Index) return std::nullopt;
    const Expression& e = operands_[n.payload].index;
    return symbolic::is_boolean(e) ? std::optional(predicate(e)) : std::nullopt;
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
    const ScalarNode& n = body_[s];
    if (n.op == ScalarOp::Input && operands_[n.payload].kind == Operand::Kind::Index)
      return formula(operands_[n.payload].index);
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
  const ScalarFunction& body_;
  std::span<const Operand> operands_;
};

double real_number(const ScalarNode& n) {
  return n.dtype == Dtype::F32 ? static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(n.payload)))
                               : std::bit_cast<double>(n.payload);
}
bool is_real_number(const ScalarNode& n) {
  return n.op == ScalarOp::Constant && (n.dtype == Dtype::F32 || n.dtype == Dtype::F64);
}
/// The least number of the dtype that is no less than `x`, and one more for a rounding on the way.
double rounded_up(double x, Dtype dtype) {
  if (dtype == Dtype::F64) return std::nextafter(x, HUGE_VAL);
  return static_cast<double>(std::nextafter(static_cast<float>(x), HUGE_VALF));
}

/// Where `when` is 1 a node is at most `most`, plus `slope` times the magnitude of product `inner`, all over the box.
/// Whether it is bounded anywhere, and by what, does not depend on the box.
struct AtMost {
  Expression when = 0;
  double most = -HUGE_VAL, slope = 0;
  int inner = -1;
  bool bounded = false;
  [[nodiscard]] Hidden hidden() const { return {most, slope, inner}; }
};
/// Where `when` is 1 a node is 0 all over the box if all its factors are: exponentials with a hidden score in place of
/// one that is no greater.
struct Vanishes {
  struct Factor {
    Scalar node, score;
    Hidden hidden;
    Expression when = 0;  ///< the score is no greater
  };
  Expression when = 0;
  std::vector<Factor> factors;
};

class Masks {
 public:
  Masks(const Box& box, const ScalarFunction& body, std::span<const Operand> operands,
        const std::set<int>& products)
      : bounds_(box, body, operands),
        body_(body),
        operands_(operands),
        products_(products),
        at_most_(body.nodes().size()),
        at_least_(body.nodes().size()),
        hidden_(body.nodes().size()),
        vanishes_(body.nodes().size()) {}

  /// Of a bound on scores: numbers nearer to 0 are hardly ever far enough below a maximum.
  static bool hides(double most) { return most <= -256; }

  [[nodiscard]] const AtMost& at_most(Scalar s) { return bound(s, false); }
  [[nodiscard]] const Vanishes& vanishes(Scalar s) {
    if (!vanishes_[s.index]) vanishes_[s.index] = find_vanishes(s);
    return *vanishes_[s.index];
  }

 private:
  static bool never(const Expression& when) { return when == Expression(0); }

  /// Of a node, or of its negation.
  [[nodiscard]] const AtMost& bound(Scalar s, bool negated) {
    std::optional<AtMost>& known = (negated ? at_least_ : at_most_)[s.index];
    if (!known) known = find_bound(s, negated);
    return *known;
  }
  [[nodiscard]] AtMost find_bound(Scalar s, bool negated) {
    const ScalarNode& n = body_[s];
    if (is_real_number(n)) return {1, negated ? -real_number(n) : real_number(n), 0, -1, true};
    switch (n.op) {
      case ScalarOp::Input:
        return product(n);
      case ScalarOp::Convert:
        return indicator(s, negated);
      case ScalarOp::Neg:
        return bound(n.operands[0], !negated);
      case ScalarOp::Select:
        return selected(bounds_.condition(n.operands[0]), bound(n.operands[1], negated),
                        bound(n.operands[2], negated));
      case ScalarOp::Maximum:
        return negated ? AtMost{} : greater(bound(n.operands[0], false), bound(n.operands[1], false));
      case ScalarOp::Add:
        return added(bound(n.operands[0], negated), bound(n.operands[1], negated), n.dtype);
      case ScalarOp::Sub:
        return added(bound(n.operands[0], negated), bound(n.operands[1], !negated), n.dtype);
      case ScalarOp::Mul:
      case ScalarOp::Div:
        return scaled(n, negated);
      default:
        return {};
    }
  }
  [[nodiscard]] AtMost product(const ScalarNode& n) const {
    if (n.payload >= operands_.size() || operands_[n.payload].kind != Operand::Kind::Value) return {};
    const int value = operands_[n.payload].value;
    return products_.contains(value) ? AtMost{1, 0, 1, value, true} : AtMost{};
  }
  /// A condition as the number 0 or 1. Of the two bounds that it has the one that a mask is made of.
  [[nodiscard]] AtMost indicator(Scalar s, bool negated) const {
    const ScalarNode& n = body_[s];
    if (!is_real(n.dtype)) return {};
    const auto surely = bounds_.number_of_condition(n.operands[0]);
    if (!surely) return {};
    return negated ? AtMost{surely->holds, -1, 0, -1, true} : AtMost{surely->fails, 0, 0, -1, true};
  }
  static bool may_join(const AtMost& a, const AtMost& b) {
    return a.bounded && b.bounded && (a.slope == 0 || b.slope == 0 || a.inner == b.inner);
  }
  static AtMost joined(const AtMost& a, const AtMost& b, const Expression& when, double most, double slope) {
    return {when, most, slope, std::max(a.inner, b.inner), true};
  }
  static AtMost greater(const AtMost& a, const AtMost& b) {
    if (!may_join(a, b)) return {};
    return joined(a, b, a.when & b.when, std::max(a.most, b.most), std::max(a.slope, b.slope));
  }
  static AtMost added(const AtMost& a, const AtMost& b, Dtype dtype) {
    if (!may_join(a, b)) return {};
    const double slope = a.slope + b.slope;
    return joined(a, b, a.when & b.when, rounded_up(a.most + b.most, dtype),
                  slope == 0 ? 0 : rounded_up(slope, dtype));
  }
  [[nodiscard]] AtMost scaled(const ScalarNode& n, bool negated) {
    const bool second = is_real_number(body_[n.operands[1]]);
    if (!second && (n.op == ScalarOp::Div || !is_real_number(body_[n.operands[0]]))) return {};
    double by = real_number(body_[n.operands[second ? 1 : 0]]);
    if (n.op == ScalarOp::Div) by = 1 / by;
    if (!std::isfinite(by) || by == 0) return {};
    AtMost x = bound(n.operands[second ? 0 : 1], negated != (by < 0));
    x.most = rounded_up(x.most * std::abs(by), n.dtype);
    if (x.slope != 0) x.slope = rounded_up(x.slope * std::abs(by), n.dtype);
    return x;
  }
  /// Where one branch alone is below 0 it is what hides.
  static AtMost selected(const Surely& c, const AtMost& a, const AtMost& b) {
    const bool hides_a = a.bounded && a.most < 0, hides_b = b.bounded && b.most < 0;
    if (hides_a == hides_b && may_join(a, b))
      return joined(a, b, (c.holds & a.when) | (c.fails & b.when) | (a.when & b.when),
                    std::max(a.most, b.most), std::max(a.slope, b.slope));
    const bool second = hides_b || (!hides_a && !a.bounded);
    AtMost one = second ? b : a;
    one.when = one.when & (second ? c.fails : c.holds);
    return one;
  }

  [[nodiscard]] Vanishes find_vanishes(Scalar s) {
    const ScalarNode& n = body_[s];
    if (is_real_number(n)) return {real_number(n) == 0 ? 1 : 0, {}};
    if (const auto call = kernel::call_at(body_, s); call && (call->name == "exp2" || call->name == "exp")) {
      const Vanishes::Factor score = hidden_in(call->arguments[0]);
      return never(score.when) ? Vanishes{}
                               : Vanishes{score.when, {{s, score.score, score.hidden, score.when}}};
    }
    if (n.op == ScalarOp::Neg) return vanishes(n.operands[0]);
    const size_t first = n.op == ScalarOp::Select ? 1 : 0;
    if (n.op != ScalarOp::Select && n.op != ScalarOp::Mul && n.op != ScalarOp::Add && n.op != ScalarOp::Sub)
      return {};
    const Vanishes a = vanishes(n.operands[first]), b = vanishes(n.operands[first + 1]);
    if (n.op == ScalarOp::Mul) {
      // One factor is enough; rather one that is 0 without a condition.
      if (never(a.when)) return b;
      return never(b.when) || b.factors.size() >= a.factors.size() ? a : b;
    }
    if (n.op != ScalarOp::Select) return joined(a, b, a.when & b.when);
    const Surely c = bounds_.condition(n.operands[0]);
    return joined(a, b, (c.holds & a.when) | (c.fails & b.when) | (a.when & b.when));
  }
  static Vanishes joined(const Vanishes& a, const Vanishes& b, const Expression& when) {
    Vanishes both{when, {}};
    for (const Vanishes* each : {&a, &b})
      if (!never(each->when))
        both.factors.insert(both.factors.end(), each->factors.begin(), each->factors.end());
    return both;
  }

  /// The score that is hidden in an exponent which rises with it.
  [[nodiscard]] const Vanishes::Factor& hidden_in(Scalar s) {
    if (!hidden_[s.index]) hidden_[s.index] = find_hidden(s);
    return *hidden_[s.index];
  }
  [[nodiscard]] Vanishes::Factor find_hidden(Scalar s) {
    const AtMost& bound = at_most(s);
    if (bound.bounded && !never(bound.when) && hides(bound.most)) return {{}, s, bound.hidden(), bound.when};
    const ScalarNode& n = body_[s];
    if (n.op == ScalarOp::Sub) return hidden_in(n.operands[0]);
    if (n.op != ScalarOp::Add && n.op != ScalarOp::Mul) return {};
    for (const size_t k : {0, 1}) {
      const ScalarNode& by = body_[n.operands[1 - k]];
      if (n.op == ScalarOp::Mul && !(is_real_number(by) && real_number(by) > 0)) continue;
      if (const Vanishes::Factor& f = hidden_in(n.operands[k]); !never(f.when)) return f;
    }
    return {};
  }

  Bounds bounds_;
  const ScalarFunction& body_;
  std::span<const Operand> operands_;
  const std::set<int>& products_;
  std::vector<std::optional<AtMost>> at_most_,
      at_least_;  ///< by node, as those below; at_least_: of negations
  std::vector<std::optional<Vanishes::Factor>> hidden_;
  std::vector<std::optional<Vanishes>> vanishes_;
};

/// Exponentials as formulas over a value's operands, each of rows or of streamed positions alone.
class Factors {
 public:
  Factors(const kernel::KernelSpec& spec, const Stream& s)
      : spec_(spec),
        rows_(kernel::axes_of(s.rows)),
        streamed_(kernel::axes_of(s.streamed)),
        batch_(kernel::axes_of(s.batch)) {}

  [[nodiscard]] bool add(int v, const ScalarFunction& body, const Vanishes& all, Excluded& to) const {
    for (const Vanishes::Factor& f : all.factors) {
      ScalarBuilder b;
      kernel::Copies copies(b, body);
      const size_t behind = spec_.values()[static_cast<size_t>(v)].operands.size();
      copies.replace(f.score, b.input(static_cast<int>(behind), body[f.score].dtype));
      Excluded::Factor made{v, b.finish(copies.of(f.node)), false, f.hidden};
      const auto axes = axes_of(v, made.formula);
      if (!axes) return false;
      made.streams = (*axes & streamed_) != 0;
      if ((*axes & ~batch_ & ~(made.streams ? streamed_ : rows_)) != 0) return false;
      to.factors.push_back(std::move(made));
    }
    return true;
  }

 private:
  /// Empty if it reads other values.
  [[nodiscard]] std::optional<kernel::AxisSet> axes_of(int v, const ScalarFunction& formula) const {
    const std::vector<Operand>& operands = spec_.values()[static_cast<size_t>(v)].operands;
    kernel::AxisSet axes = 0;
    for (const ScalarNode& n : formula.nodes()) {
      if (n.op != ScalarOp::Input || n.payload == operands.size()) continue;
      if (n.payload > operands.size() || operands[n.payload].kind == Operand::Kind::Value)
        return std::nullopt;
      axes |= kernel::axes_of(operands[n.payload], spec_.values());
    }
    return axes;
  }

  const kernel::KernelSpec& spec_;
  kernel::AxisSet rows_, streamed_, batch_;
};

Id no_lane(StageBuilder& b, int lanes) {
  return b.compute(ScalarOp::Lt, {b.constant({Dtype::F32, lanes}, 1), b.constant({Dtype::F32, lanes}, 0)});
}

/// No score that is hidden so is greater, whatever was rounded on the way to it.
Id greatest(StageBuilder& b, const Hidden& hidden, Type type, const Magnitudes& magnitudes) {
  const Id most = b.constant(type, hidden.most);
  if (hidden.slope == 0) return most;
  Id magnitude = magnitudes.at(hidden.inner);
  if (b.type(magnitude).lanes != type.lanes) magnitude = b.broadcast(magnitude, type.lanes);
  const Id sum =
      b.compute(ScalarOp::Add, {most, b.compute(ScalarOp::Mul, {b.constant(type, hidden.slope), magnitude})});
  constexpr double kSlack = 0x1p-20;
  return b.compute(ScalarOp::Maximum, {b.compute(ScalarOp::Mul, {sum, b.constant(type, 1 - kSlack)}),
                                       b.compute(ScalarOp::Mul, {sum, b.constant(type, 1 + kSlack)})});
}

/// Lanes that are on and where the formula is not 0.
Id differs(StageBuilder& b, const kernel::KernelSpec& spec, const Excluded::Factor& f, const Ramp& ramp,
           std::span<const Expression> at, const Magnitudes& magnitudes) {
  const kernel::Value& value = spec.values()[static_cast<size_t>(f.value)];
  const Id score = greatest(b, f.score, {value.dtype(), ramp.lanes()}, magnitudes);
  const Id x = apply(b, ramp, f.formula, value.operands, at, {score});
  const Id there = b.compute(ScalarOp::Ne, {x, b.constant(b.type(x), 0)});
  return ramp.inside() == kNone ? there : b.compute(ScalarOp::And, {there, ramp.inside()});
}

}  // namespace

bool Excluded::streams() const { return std::ranges::any_of(factors, &Factor::streams); }

void bound(Box& box, const AxisGroup& group, const Expression& first, const Expression& count) {
  Expression stride = 1;
  for (size_t k = group.axes.size(); k-- > 0;) {
    const auto axis = static_cast<size_t>(group.axes[k]);
    const Expression extent = group.extents[k], low = first / stride, high = (first + count - 1) / stride;
    stride = stride * extent;
    if (k == 0) {
      box.low[axis] = low;
      box.high[axis] = high;
      continue;
    }
    const Expression same = (high / extent - low / extent).lt(1);  // as long as axes outside stand still
    box.low[axis] = low % extent * same;
    box.high[axis] = high % extent * same + (extent - 1) * (1 - same);
  }
}

Excluded excluded(const kernel::KernelSpec& spec, const Stream& s, const Box& box,
                  const std::set<int>& bounded) {
  Excluded all{.where = 1, .most = {}, .factors = {}};
  const Factors factors(spec, s);
  for (const Fold& f : s.folds) {
    const kernel::Value& value = spec.values()[static_cast<size_t>(f.value)];
    if (f.online || value.monoid != Monoid::Max) continue;
    const AtMost bound = Masks(box, f.terms, value.operands, bounded).at_most(f.terms.outputs()[0]);
    if (!bound.bounded || !Masks::hides(bound.most)) return {};  // as for every other box
    all.where = all.where & bound.when;
    if (bound.most != -HUGE_VAL || bound.slope != 0) all.most[f.value] = bound.hidden();
  }
  const auto take = [&](int v, const std::optional<kernel::Online>& online, const ScalarFunction& terms) {
    const kernel::Value& value = spec.values()[static_cast<size_t>(v)];
    if (online || value.monoid == Monoid::Max) return;
    const Vanishes vanishes = Masks(box, terms, value.operands, bounded).vanishes(terms.outputs()[0]);
    const bool possible = value.monoid == Monoid::Add && factors.add(v, terms, vanishes, all);
    all.where = possible ? all.where & vanishes.when : 0;
  };
  for (const Fold& f : s.folds) take(f.value, f.online, f.terms);
  for (const Columns& c : s.columns) take(c.value, c.online, c.weight);
  if (all.where == Expression(0)) all.factors.clear();
  return all;
}

std::set<int> hidden_by_adding(const kernel::KernelSpec& spec, const Stream& s) {
  std::set<int> products, hidden;
  for (const Inner& i : s.inner)
    if (!i.read_varies) products.insert(i.value);
  const Box anywhere{std::vector<Expression>(spec.extents().size(), 0),
                     std::vector<Expression>(spec.extents().size(), 0)};
  const auto look = [&](int v, const ScalarFunction& terms) {
    Masks masks(anywhere, terms, spec.values()[static_cast<size_t>(v)].operands, products);
    for (uint32_t i = 0; i < terms.nodes().size(); ++i)
      if (const AtMost& bound = masks.at_most({i});
          bound.bounded && bound.slope != 0 && Masks::hides(bound.most))
        hidden.insert(bound.inner);
  };
  for (const Fold& f : s.folds) look(f.value, f.terms);
  for (const Columns& c : s.columns) look(c.value, c.weight);
  return hidden;
}

Id rows_count(StageBuilder& b, const kernel::KernelSpec& spec, const Stream& s, const Excluded& e,
              const Ramp& ramp, std::span<const Expression> at, const std::map<int, Id>& maxima,
              const Magnitudes& magnitudes) {
  Id any = no_lane(b, ramp.lanes());
  const auto note = [&](Id lanes) { any = b.compute(ScalarOp::Or, {any, lanes}); };
  const auto fits = [&](Id lanes) {
    note(ramp.inside() == kNone ? lanes : b.compute(ScalarOp::And, {lanes, ramp.inside()}));
  };
  for (const auto& [v, most] : e.most) {
    const Type type = b.type(maxima.at(v));
    const Id low = greatest(b, most, type, magnitudes);
    fits(b.compute(ScalarOp::Not, {b.compute(ScalarOp::Le, {low, maxima.at(v)})}));
    const auto follow = [&](int sum, const std::optional<kernel::Online>& online) {
      if (!online || online->maximum != v) return;
      const Id factor = apply(b, ramp, online->rescale, spec.values()[static_cast<size_t>(sum)].operands, at,
                              {low, maxima.at(v)});
      fits(b.compute(ScalarOp::Ne, {factor, b.constant(type, 0)}));
    };
    for (const Fold& f : s.folds) follow(f.value, f.online);
    for (const Columns& c : s.columns) follow(c.value, c.online);
  }
  for (const Excluded::Factor& f : e.factors)
    if (!f.streams) note(differs(b, spec, f, ramp, at, magnitudes));
  return any;
}

Id positions_count(StageBuilder& b, const kernel::KernelSpec& spec, const Excluded& e,
                   const AxisGroup& streamed, int lanes, const Expression& first, const Expression& count,
                   std::span<const Expression> at, const Magnitudes& magnitudes) {
  const auto step = [&](const Expression& v, std::span<const Id> now) {
    Ramp ramp(b, streamed, first + v * lanes, lanes, first + count);
    Id any = now[0];
    for (const Excluded::Factor& f : e.factors) {
      if (!f.streams) continue;
      for (const Operand& o : spec.values()[static_cast<size_t>(f.value)].operands) ramp.prepare(o);
      any = b.compute(ScalarOp::Or, {any, differs(b, spec, f, ramp, at, magnitudes)});
    }
    return std::vector<Id>{any};
  };
  return b.loop(count.ceil_div(lanes), LoopKind::Serial, {no_lane(b, lanes)}, step)[0];
}

}  // namespace luminal::codegen::stream
