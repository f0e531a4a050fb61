#include "kernel/online.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "kernel/axes.h"
#include "kernel/calls.h"
#include "kernel/canonical_steps.h"
#include "kernel/copies.h"
#include "kernel/deviations.h"
#include "luminal/scalar_math.h"
#include "scalar/typing.h"

namespace luminal::kernel {
namespace {

using Kind = Operand::Kind;

/// Bodies in one builder over one list of operands, commutative operands in one order: equal parts are one
/// node.
class JointBodies {
 public:
  std::vector<Scalar> add(const Value& v) {
    std::vector<Scalar> made;
    for (ScalarNode n : v.body.nodes()) {
      for (int k = 0; k < arity(n.op); ++k) {
        Scalar& operand = n.operands[static_cast<size_t>(k)];
        operand = made[operand.index];
      }
      made.push_back(n.op == ScalarOp::Input ? input(v.operands[n.payload]) : make(n));
    }
    return made;
  }
  Scalar make(ScalarNode n) {
    if (is_commutative(n.op) && n.operands[1].index < n.operands[0].index)
      std::swap(n.operands[0], n.operands[1]);
    return n.op == ScalarOp::Constant ? b_.constant_bits(n.dtype, n.payload) : b_.make(n);
  }
  /// Node `at` with one node in place of another.
  Scalar replaced(Scalar at, Scalar from, Scalar to) {
    std::map<uint32_t, Scalar> known{{from.index, to}};
    return replaced(at, known);
  }

 private:
  Scalar replaced(Scalar at, std::map<uint32_t, Scalar>& known) {
    if (const auto found = known.find(at.index); found != known.end()) return found->second;
    ScalarNode n = b_[at];
    if (arity(n.op) == 0) return at;
    for (int k = 0; k < arity(n.op); ++k) {
      Scalar& operand = n.operands[static_cast<size_t>(k)];
      operand = replaced(operand, known);
    }
    return known.emplace(at.index, make(n)).first->second;
  }
  Scalar input(const Operand& o) { return b_.input(add_operand(operands_, o), o.dtype); }
  ScalarBuilder b_;
  std::vector<Operand> operands_;
};

double real_constant(const ScalarNode& n) {
  return n.dtype == Dtype::F32 ? static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(n.payload)))
                               : std::bit_cast<double>(n.payload);
}

/// What node `s` rounds to another float and takes back at once: f32(f16(x)). Relaxed math may keep x instead, which
/// is nearer to what is meant.
std::optional<Scalar> rounded(const ScalarFunction& body, Scalar s) {
  const ScalarNode& wide = body[s];
  if (wide.op != ScalarOp::Convert || !is_real(wide.dtype)) return std::nullopt;
  const ScalarNode& narrow = body[wide.operands[0]];
  if (narrow.op != ScalarOp::Convert || !is_float(narrow.dtype)) return std::nullopt;
  const Scalar inner = narrow.operands[0];
  return body[inner].dtype == wide.dtype ? std::optional(inner) : std::nullopt;
}

/// exp2((x - u) * c1 * c2 ...) in a sum's body.
struct Exponential {
  Scalar node, x, u;
  std::string_view function;
  std::vector<Scalar> scales;
};

class OnlineFinder {
 public:
  OnlineFinder(std::span<const Value> values, int sum)
      : values_(values),
        v_(values[static_cast<size_t>(sum)]),
        summed_(axes_of(v_.reduced)),
        axes_(node_axes(v_, values)) {}

  std::optional<Online> find() {
    if (v_.monoid != Monoid::Add || !is_real(v_.dtype())) return std::nullopt;
    if (!find_maximum()) return std::nullopt;
    mark_dependent();
    multiples_.resize(v_.body.nodes().size());
    for (uint32_t i = 0; i < v_.body.nodes().size(); ++i) {
      const auto e = exponential_at({i});
      if (!e) continue;
      multiples_.assign(multiples_.size(), std::nullopt);
      if (!is_factor(v_.body.outputs()[0], e->node)) continue;
      const auto above = subtracted(e->u);
      if (above && same_as_maximised(*above, e->x)) return result(*e, *above);
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] const ScalarNode& node(Scalar s) const { return v_.body[s]; }
  [[nodiscard]] bool varies(Scalar s) const { return (axes_[s.index] & summed_) != 0; }
  [[nodiscard]] bool depends(Scalar s) const { return dependent_[s.index]; }

  /// The one value over the summed axes that the sum reads.
  bool find_maximum() {
    for (size_t k = 0; k < v_.operands.size(); ++k) {
      if (v_.operands[k].kind != Kind::Value) continue;
      const int at = v_.operands[k].value;
      const Value& w = values_[static_cast<size_t>(at)];
      if ((axes_of(w.reduced) & summed_) == 0) continue;
      if (maximum_ >= 0 || w.monoid != Monoid::Max || w.reduced != v_.reduced || w.dtype() != v_.dtype())
        return false;
      maximum_ = at;
      maximum_operand_ = k;
    }
    return maximum_ >= 0;
  }

  void mark_dependent() {
    const auto nodes = v_.body.nodes();
    dependent_.assign(nodes.size(), false);
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].op == ScalarOp::Input) dependent_[i] = nodes[i].payload == maximum_operand_;
      for (int k = 0; k < arity(nodes[i].op); ++k)
        if (depends(nodes[i].operands[static_cast<size_t>(k)])) dependent_[i] = true;
    }
  }

  [[nodiscard]] std::optional<Exponential> exponential_at(Scalar s) const {
    if (!depends(s) || !varies(s)) return std::nullopt;
    const auto call = call_at(v_.body, s);
    if (!call || (call->name != "exp2" && call->name != "exp")) return std::nullopt;
    Exponential e{.node = s, .x = {}, .u = {}, .function = call->name, .scales = {}};
    Scalar difference = call->arguments[0];
    while (node(difference).op == ScalarOp::Mul) {
      const auto [a, b] = std::pair(node(difference).operands[0], node(difference).operands[1]);
      const bool second = node(b).op == ScalarOp::Constant;
      const Scalar scale = second ? b : a;
      if (node(scale).op != ScalarOp::Constant || !(real_constant(node(scale)) > 0)) return std::nullopt;
      e.scales.push_back(scale);
      difference = second ? a : b;
    }
    const ScalarNode& n = node(difference);
    if (n.op == ScalarOp::Sub) {
      e.x = n.operands[0];
      e.u = n.operands[1];
    } else if (n.op == ScalarOp::Add) {
      const bool second = node(n.operands[1]).op == ScalarOp::Neg;
      const Scalar negated = n.operands[second ? 1 : 0];
      if (node(negated).op != ScalarOp::Neg) return std::nullopt;
      e.x = n.operands[second ? 0 : 1];
      e.u = node(negated).operands[0];
    } else {
      return std::nullopt;
    }
    return depends(e.x) || varies(e.u) ? std::nullopt : std::optional(e);
  }

  /// Whether `s` is a multiple of `factor`, by something that does not depend on the maximum.
  [[nodiscard]] bool is_factor(Scalar s, Scalar factor) {
    std::optional<bool>& known = multiples_[s.index];
    if (!known) known = find_factor(s, factor);
    return *known;
  }
  [[nodiscard]] bool find_factor(Scalar s, Scalar factor) {
    if (s == factor) return true;
    const ScalarNode& n = node(s);
    const auto multiple = [&](size_t k) { return is_factor(n.operands[k], factor); };
    const auto zero = [&](size_t k) {
      const ScalarNode& o = node(n.operands[k]);
      return o.op == ScalarOp::Constant && real_constant(o) == 0;
    };
    switch (n.op) {
      case ScalarOp::Convert: {
        const auto inner = rounded(v_.body, s);
        return inner && is_factor(*inner, factor);
      }
      case ScalarOp::Neg:
        return multiple(0);
      case ScalarOp::Mul:
        return (multiple(0) && !depends(n.operands[1])) || (multiple(1) && !depends(n.operands[0]));
      case ScalarOp::Div:
        return multiple(0) && !depends(n.operands[1]);
      case ScalarOp::Add:
      case ScalarOp::Sub:
        return multiple(0) && multiple(1);
      case ScalarOp::Select:
        return !depends(n.operands[0]) && (multiple(1) || zero(1)) && (multiple(2) || zero(2)) &&
               !(zero(1) && zero(2));
      default:
        return false;
    }
  }

  /// u without max(.., k): it rises with the maximum by operations that do not reverse the order.
  [[nodiscard]] std::optional<Scalar> subtracted(Scalar u) const {
    if (!depends(u)) return std::nullopt;
    if (node(u).op == ScalarOp::Maximum) {
      const Scalar a = node(u).operands[0], b = node(u).operands[1];
      if (depends(a) == depends(b)) return std::nullopt;
      return subtracted(depends(a) ? a : b);
    }
    // Where the maximum is infinite, a constant: terms below minus infinity are 0, a term of infinity is one.
    if (const ScalarNode& n = node(u); n.op == ScalarOp::Select)
      return is_finite_maximum(n.operands[0]) && !depends(n.operands[2]) ? subtracted(n.operands[1])
                                                                         : std::nullopt;
    return rises(u) ? std::optional(u) : std::nullopt;
  }
  /// Comparisons of the maximum with infinities, which hold for every finite one.
  [[nodiscard]] bool is_finite_maximum(Scalar s) const {
    const ScalarNode& n = node(s);
    if (n.op == ScalarOp::And) return is_finite_maximum(n.operands[0]) && is_finite_maximum(n.operands[1]);
    if (n.op != ScalarOp::Lt) return false;
    const auto bound = [&](size_t k, double infinity) {
      const ScalarNode& c = node(n.operands[k]);
      return node(n.operands[1 - k]).op == ScalarOp::Input && depends(n.operands[1 - k]) &&
             c.op == ScalarOp::Constant && is_real(c.dtype) && real_constant(c) == infinity;
    };
    return bound(0, -HUGE_VAL) || bound(1, HUGE_VAL);
  }
  [[nodiscard]] bool rises(Scalar u) const {
    const ScalarNode& n = node(u);
    if (n.op == ScalarOp::Input) return true;
    if (arity(n.op) != 2) return false;
    const bool first = depends(n.operands[0]);
    if (first == depends(n.operands[1])) return false;
    const Scalar inner = n.operands[first ? 0 : 1], other = n.operands[first ? 1 : 0];
    if (n.op == ScalarOp::Add || (n.op == ScalarOp::Sub && first)) return rises(inner);
    return n.op == ScalarOp::Mul && node(other).op == ScalarOp::Constant && real_constant(node(other)) > 0 &&
           rises(inner);
  }

  /// Whether `above`, with what the maximum is taken of in place of the maximum, is x. Finds what is maximised
  /// in the sum's body.
  bool same_as_maximised(Scalar above, Scalar x) {
    const Value& most = values_[static_cast<size_t>(maximum_)];
    JointBodies joint;
    const std::vector<Scalar> mine = joint.add(v_), maximised = joint.add(most);
    const auto found = std::ranges::find(mine, maximised[most.body.outputs()[0].index]);
    if (found == mine.end()) return false;
    maximised_ = Scalar{static_cast<uint32_t>(found - mine.begin())};
    Scalar maximum;
    for (size_t i = 0; i < mine.size(); ++i)
      if (v_.body.nodes()[i].op == ScalarOp::Input && v_.body.nodes()[i].payload == maximum_operand_)
        maximum = mine[i];
    return joint.replaced(mine[above.index], maximum, maximised[most.body.outputs()[0].index]) ==
           mine[x.index];
  }

  /// Node `s` in `b`, the maximum replaced.
  Scalar copied(ScalarBuilder& b, Scalar s, Scalar maximum) const {
    Copies copies(b, v_.body);
    for (uint32_t i = 0; i < v_.body.nodes().size(); ++i)
      if (node({i}).op == ScalarOp::Input && node({i}).payload == maximum_operand_)
        copies.replace({i}, maximum);
    return copies.of(s);
  }
  Scalar exponential(ScalarBuilder& b, const Exponential& e, Scalar x, Scalar u) const {
    Scalar t = b.sub(x, u);
    for (size_t k = e.scales.size(); k-- > 0;) t = b.mul(t, copied(b, e.scales[k], {}));
    return e.function == "exp2" ? math::exp2(b, t) : math::exp(b, t);
  }

  /// The body with input `next` for what is maximised. Weights are not rounded to shorter floats: below a maximum that
  /// still rises a term may be too great for them.
  [[nodiscard]] ScalarFunction terms(int next) const {
    ScalarBuilder b;
    Copies copies(b, v_.body);
    copies.replace(maximised_, b.input(next, node(maximised_).dtype));
    for (uint32_t i = 0; i < v_.body.nodes().size(); ++i)
      if (const auto inner = depends({i}) ? rounded(v_.body, {i}) : std::nullopt)
        copies.replace({i}, copies.of(*inner));
    return b.finish(copies.of(v_.body.outputs()[0]));
  }

  [[nodiscard]] Online result(const Exponential& e, Scalar above) const {
    Online o{.maximum = maximum_,
             .rescale = {},
             .nothing = {},
             .terms = terms(static_cast<int>(v_.operands.size()))};
    const auto next = static_cast<int>(v_.operands.size());
    {
      ScalarBuilder b;
      const Scalar before = b.input(next, v_.dtype()), after = b.input(next + 1, v_.dtype());
      const Scalar factor = exponential(b, e, copied(b, e.u, before), copied(b, e.u, after));
      const Scalar none = b.eq(before, b.constant(v_.dtype(), -HUGE_VAL));
      o.rescale = b.finish(b.select(none, b.constant(v_.dtype(), 1), factor));
    }
    ScalarBuilder b;
    const Scalar maximum = b.input(next, v_.dtype());
    const Scalar factor = exponential(b, e, copied(b, above, maximum), copied(b, e.u, maximum));
    const Scalar none = b.eq(maximum, b.constant(v_.dtype(), -HUGE_VAL));
    o.nothing = b.finish(b.select(none, factor, b.constant(v_.dtype(), 1)));
    return o;
  }

  std::span<const Value> values_;
  const Value& v_;
  AxisSet summed_;
  std::vector<AxisSet> axes_;
  int maximum_ = -1;
  size_t maximum_operand_ = 0;
  Scalar maximised_;  ///< in the body
  std::vector<bool> dependent_;
  std::vector<std::optional<bool>> multiples_;  ///< by node: is_factor, of the exponential at hand
};

/// Takes factors of a sum's terms that hold other values over the summed axes out of the terms: the sum of a
/// softmax, by which each weight is divided.
class FactorsOut {
 public:
  FactorsOut(std::span<const Value> values, const Value& v)
      : v_(v), summed_(axes_of(v.reduced)), axes_(node_axes(v, values)) {
    held_.assign(v.body.nodes().size(), false);
    for (size_t i = 0; i < held_.size(); ++i) {
      const ScalarNode& n = v.body.nodes()[i];
      if (n.op == ScalarOp::Input && v.operands[n.payload].kind == Kind::Value) {
        const Value& read = values[static_cast<size_t>(v.operands[n.payload].value)];
        held_[i] = read.monoid && read.monoid != Monoid::Max && read.reduced == v.reduced;
      }
      for (int k = 0; k < arity(n.op); ++k)
        if (held_[n.operands[static_cast<size_t>(k)].index]) held_[i] = true;
    }
  }

  /// The terms without these factors.
  std::optional<ScalarFunction> terms() {
    ScalarBuilder b;
    Copies copies(b, v_.body);
    const Scalar root = rebuilt(b, copies, v_.body.outputs()[0]);
    if (factors_.empty() || visits_ > kMostVisits) return std::nullopt;
    return b.finish(root);
  }
  /// Input v.operands.size(), the sum of these terms, times the factors.
  [[nodiscard]] ScalarFunction product() const {
    ScalarBuilder b;
    Scalar whole = b.input(static_cast<int>(v_.operands.size()), v_.dtype());
    Copies copies(b, v_.body);
    for (const auto& [s, divides] : factors_)
      whole = divides ? b.div(whole, copies.of(s)) : b.mul(whole, copies.of(s));
    return b.finish(whole);
  }

 private:
  [[nodiscard]] bool leaves(Scalar s) const { return held_[s.index] && (axes_[s.index] & summed_) == 0; }
  [[nodiscard]] bool is_zero(Scalar s) const {
    const ScalarNode& n = v_.body[s];
    return n.op == ScalarOp::Constant && real_constant(n) == 0;
  }

  /// A factor leaves once for each way that leads to it. Products of products have too many of them.
  Scalar rebuilt(ScalarBuilder& b, Copies& copies, Scalar s) {
    const ScalarNode& n = v_.body[s];
    if (!held_[s.index] || ++visits_ > kMostVisits) return copies.of(s);
    if (const auto inner = rounded(v_.body, s)) return rebuilt(b, copies, *inner);
    if (n.op == ScalarOp::Neg) return b.neg(rebuilt(b, copies, n.operands[0]));
    if (n.op == ScalarOp::Mul)
      for (const size_t k : {0, 1})
        if (leaves(n.operands[k])) {
          factors_.emplace_back(n.operands[k], false);
          return rebuilt(b, copies, n.operands[1 - k]);
        }
    if (n.op == ScalarOp::Mul) {
      const Scalar left = rebuilt(b, copies, n.operands[0]);
      return b.mul(left, rebuilt(b, copies, n.operands[1]));
    }
    if (n.op == ScalarOp::Div) {
      if (!leaves(n.operands[1])) return b.div(rebuilt(b, copies, n.operands[0]), copies.of(n.operands[1]));
      factors_.emplace_back(n.operands[1], true);
      return rebuilt(b, copies, n.operands[0]);
    }
    if (n.op == ScalarOp::Select && is_zero(n.operands[2]))
      return b.select(copies.of(n.operands[0]), rebuilt(b, copies, n.operands[1]), b.constant(n.dtype, 0));
    if (n.op == ScalarOp::Select && is_zero(n.operands[1]))
      return b.select(copies.of(n.operands[0]), b.constant(n.dtype, 0), rebuilt(b, copies, n.operands[2]));
    return copies.of(s);
  }

  const Value& v_;
  AxisSet summed_;
  std::vector<AxisSet> axes_;
  std::vector<bool> held_;
  std::vector<std::pair<Scalar, bool>> factors_;  ///< and whether it divides
  static constexpr int kMostVisits = 64;
  int visits_ = 0;
};

/// Value `at`, if it is an online sum but for factors that may leave it, as the sum and a product behind it.
bool take_factors_out(SpecParts& parts, size_t at) {
  const Value& v = parts.values[at];
  if (v.monoid != Monoid::Add || !is_real(v.dtype())) return false;
  FactorsOut factors(parts.values, v);
  const auto terms = factors.terms();
  if (!terms) return false;
  Value sum = v;
  sum.body = *terms;
  forget_unread(sum);
  std::vector<Value> trial(parts.values.begin(), parts.values.begin() + static_cast<std::ptrdiff_t>(at));
  trial.push_back(sum);
  if (!online_of(trial, static_cast<int>(at))) return false;

  Value product = v;
  product.reduced.clear();
  product.monoid = std::nullopt;
  product.body = factors.product();
  product.operands.push_back(
      {.kind = Kind::Value, .dtype = v.dtype(), .value = static_cast<int>(at), .masks = {}});
  forget_unread(product);

  const auto moved = [&](int& value) { value += value >= static_cast<int>(at) ? 1 : 0; };
  for (size_t k = at + 1; k < parts.values.size(); ++k)
    for (Operand& o : parts.values[k].operands)
      if (o.kind == Kind::Value) moved(o.value);
  for (Output& o : parts.outputs) moved(o.value);
  parts.values[at] = std::move(sum);
  parts.values.insert(parts.values.begin() + static_cast<std::ptrdiff_t>(at) + 1, std::move(product));
  return true;
}

/// Value `at` with the elementwise values that it reads in its body; such values are stored, others stand in their
/// readers from the start. Those that differ along what is reduced stay apart: they would be computed twice. Empty
/// if it reads none.
std::optional<Value> with_bodies_read(const SpecParts& parts, size_t at) {
  Value v = parts.values[at];
  const AxisSet reduced = axes_of(v.reduced);
  const auto is_elementwise = [&](const Operand& o) {
    if (o.kind != Kind::Value) return false;
    const Value& read = parts.values[static_cast<size_t>(o.value)];
    return !read.monoid && (axes_of(read.axes) & reduced) == 0;
  };
  if (std::ranges::none_of(v.operands, is_elementwise)) return std::nullopt;
  while (std::ranges::any_of(v.operands, is_elementwise)) {
    ScalarBuilder b;
    std::vector<Operand> operands;
    const auto input = [&](const Operand& o) { return b.input(add_operand(operands, o), o.dtype); };
    std::vector<Scalar> inputs;
    for (const Operand& o : v.operands) {
      if (!is_elementwise(o)) {
        inputs.push_back(input(o));
        continue;
      }
      const Value& read = parts.values[static_cast<size_t>(o.value)];
      std::vector<Scalar> inner;
      for (const Operand& each : read.operands) inner.push_back(input(each));
      inputs.push_back(b.inline_function(read.body, inner)[0]);
    }
    v.body = b.finish(b.inline_function(v.body, inputs)[0]);
    v.operands = std::move(operands);
  }
  return v;
}

/// Values that a sum reads are part of it where it follows a maximum only then.
bool take_bodies_in(SpecParts& parts, size_t at) {
  const Value& v = parts.values[at];
  if (v.monoid != Monoid::Add || !is_real(v.dtype())) return false;
  auto whole = with_bodies_read(parts, at);
  if (!whole) return false;
  SpecParts trial = parts;
  trial.values[at] = std::move(*whole);
  if (!online_of(trial.values, static_cast<int>(at)) && !take_factors_out(trial, at)) return false;
  parts = std::move(trial);
  return true;
}

bool has_maximum(const SpecParts& parts) {
  return std::ranges::any_of(parts.values, [](const Value& v) { return v.monoid == Monoid::Max; });
}

}  // namespace

std::optional<Online> online_of(std::span<const Value> values, int sum) {
  return OnlineFinder(values, sum).find();
}

bool joins_walk(std::span<const Value> values, int fold) {
  const Value& v = values[static_cast<size_t>(fold)];
  const auto reads_fold = [&](const ScalarFunction& body) {
    return std::ranges::any_of(body.nodes(), [&](const ScalarNode& n) {
      if (n.op != ScalarOp::Input || v.operands[n.payload].kind != Kind::Value) return false;
      return values[static_cast<size_t>(v.operands[n.payload].value)].reduced == v.reduced;
    });
  };
  if (v.online || !reads_fold(v.body)) return true;
  if (v.monoid != Monoid::Add) return false;
  const auto terms = FactorsOut(values, v).terms();
  return terms && !reads_fold(*terms);
}

void mark_online(SpecParts& parts) {
  if (parts.values.size() < 2) return;
  bool changed = false;
  if (has_maximum(parts)) {
    for (size_t k = 0; k < parts.values.size(); ++k) changed |= take_bodies_in(parts, k);
    for (size_t k = 0; k < parts.values.size(); ++k) changed |= take_factors_out(parts, k);
  }
  if (changed) simplify_values(parts);
  for (size_t k = 0; k < parts.values.size(); ++k) {
    const auto v = static_cast<int>(k);
    parts.values[k].online =
        online_of(parts.values, v).has_value() || deviation_of(parts.values, v).has_value();
  }
}

}  // namespace luminal::kernel
