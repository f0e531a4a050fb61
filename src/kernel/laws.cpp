#include "kernel/laws.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/fail.h"
#include "kernel/canonical_steps.h"
#include "kernel/copies.h"
#include "scalar/typing.h"

namespace luminal::kernel {
namespace {

using Kind = Operand::Kind;

const Value* sole_elementwise(const KernelSpec& spec) {
  if (spec.values().size() != 1 || spec.outputs().size() != 1) return nullptr;
  return !spec.values()[0].monoid ? &spec.values()[0] : nullptr;
}

/// The input that `root` hands on, through operations with a constant that change nothing in this mode.
std::optional<size_t> handed_on(const ScalarFunction& body, Scalar root, MathMode mode) {
  const ScalarNode& n = body[root];
  if (n.op == ScalarOp::Input) return n.payload;
  if (arity(n.op) != 2) return std::nullopt;
  const ScalarNode& by = body[n.operands[1]];
  if (by.op != ScalarOp::Constant) return std::nullopt;
  ScalarBuilder b;
  const bool adds_zero = n.op == ScalarOp::Add && by.payload == 0 && mode != MathMode::Strict;
  bool least = false;
  if (n.op == ScalarOp::Maximum)
    visit_dtype(by.dtype, [&]<class T>(T) {
      if constexpr (std::is_floating_point_v<T>)
        least = b[b.constant(by.dtype, -std::numeric_limits<T>::infinity())].payload == by.payload;
      else if constexpr (std::is_integral_v<T>)
        least = b[b.constant(by.dtype, std::numeric_limits<T>::lowest())].payload == by.payload;
    });
  return adds_zero || least ? handed_on(body, n.operands[0], mode) : std::nullopt;
}

Composed own_slots(Canonical c) {
  Composed result{.spec = std::move(c.spec), .slots = {}};
  for (const int s : c.slots) result.slots.push_back({false, s});
  return result;
}

}  // namespace

std::optional<int> identity_of(const KernelSpec& spec, MathMode mode) {
  const Value* v = sole_elementwise(spec);
  if (v == nullptr) return std::nullopt;
  const auto input = handed_on(v->body, v->body.outputs()[0], mode);
  if (!input) return std::nullopt;
  const Operand& o = v->operands[*input];
  const Output& out = spec.outputs()[0];
  const bool same = o.kind == Kind::Load && o.masks.empty() && o.index == out.index &&
                    spec.slots()[static_cast<size_t>(o.slot)].elements == out.elements &&
                    spec.slots()[static_cast<size_t>(o.slot)].dtype == v->dtype();
  return same ? std::optional(o.slot) : std::nullopt;
}

bool is_copy(const KernelSpec& spec) {
  const Value* v = sole_elementwise(spec);
  return v != nullptr && v->body.nodes().size() == 1 && v->operands.size() == 1 &&
         v->operands[0].kind == Kind::Load;
}

std::optional<Number> constant_of(const KernelSpec& spec) {
  const Value* v = sole_elementwise(spec);
  if (v == nullptr || v->body.nodes().size() != 1) return std::nullopt;
  const ScalarNode& root = v->body[v->body.outputs()[0]];
  if (root.op != ScalarOp::Constant) return std::nullopt;
  return visit_dtype(root.dtype, [&]<class T>(T) -> Number {
    T value;
    std::memcpy(static_cast<void*>(&value), &root.payload, sizeof value);  // little-endian hosts
    if constexpr (std::is_integral_v<T>)
      return static_cast<int64_t>(value);
    else
      return static_cast<double>(value);
  });
}

namespace {

/// The terms of a product: those that stay under a reduction and those that may leave it.
struct Product {
  struct Factor {
    Scalar node;
    bool divides = false;
    int branch = 0;              ///< of the choice `node`, whose other branch is zero; 0: the node as it is
    std::vector<Factor> chosen;  ///< what stays of that branch; 1 if nothing does
  };
  std::vector<Factor> inside, outside;
  bool negated = false;
};

/// What may leave a reduction: whatever does not depend on its axes, or constants alone.
enum class Leaving { Any, Constants };

class ProductReader {
 public:
  ProductReader(const KernelSpec& spec, const Value& v, Leaving leaving)
      : v_(v), leaving_(leaving), reduced_(axes_of(v.reduced)), axes_(node_axes(v, spec.values())) {
    find_divisible();
  }

  /// Empty if the product is long: a square of a square of a product has more factors than nodes.
  std::optional<Product> read() {
    visit(v_.body.outputs()[0], product_.inside);
    if (visited_ > kMostFactors) return std::nullopt;
    return std::move(product_);
  }

 private:
  static constexpr int kMostFactors = 24;

  [[nodiscard]] bool stays(Scalar s) const {
    if (leaving_ == Leaving::Constants) return v_.body[s].op != ScalarOp::Constant;
    return (axes_[s.index] & reduced_) != 0;
  }

  [[nodiscard]] bool is_constant(Scalar s, int value) const {
    const ScalarNode& n = v_.body[s];
    ScalarBuilder b;
    return n.op == ScalarOp::Constant && n.payload == b[b.constant(n.dtype, value)].payload;
  }
  /// The branch (1 or 2) of a choice beside a zero, or 0: where(c, a * f, 0) = where(c, a, 0) * f.
  [[nodiscard]] int beside_zero(const ScalarNode& n) const {
    if (n.op != ScalarOp::Select || n.dtype == Dtype::Bool) return 0;
    if (is_constant(n.operands[2], 0)) return 1;
    return is_constant(n.operands[1], 0) ? 2 : 0;
  }

  /// Nodes out of which something may leave. A product of which all stays is one factor, as the user wrote
  /// it.
  void find_divisible() {
    const auto nodes = v_.body.nodes();
    divisible_.assign(nodes.size(), false);
    const auto leaves = [this](Scalar s) { return !stays(s) || divisible_[s.index]; };
    for (size_t i = 0; i < nodes.size(); ++i) {
      const ScalarNode& n = nodes[i];
      if (!stays(Scalar{static_cast<uint32_t>(i)})) continue;
      divisible_[i] = n.op == ScalarOp::Neg ||
                      (n.op == ScalarOp::Mul && (leaves(n.operands[0]) || leaves(n.operands[1]))) ||
                      (n.op == ScalarOp::Div && !stays(n.operands[1]));
      if (const int branch = beside_zero(n))
        divisible_[i] = leaves(n.operands[branch]) && !is_constant(n.operands[branch], 1);
    }
  }

  /// Adds the factors of `s` to those that leave and to `inside`.
  void visit(Scalar s, std::vector<Product::Factor>& inside) {
    if (++visited_ > kMostFactors) return;
    const ScalarNode& n = v_.body[s];
    if (!divisible_[s.index]) {
      (stays(s) ? inside : product_.outside).push_back({.node = s});
      return;
    }
    if (const int branch = beside_zero(n)) {
      Product::Factor choice{.node = s, .branch = branch};
      visit(n.operands[branch], choice.chosen);
      inside.push_back(std::move(choice));
      return;
    }
    visit(n.operands[0], inside);
    if (n.op == ScalarOp::Mul) visit(n.operands[1], inside);
    if (n.op == ScalarOp::Neg) product_.negated = !product_.negated;
    if (n.op == ScalarOp::Div) product_.outside.push_back({.node = n.operands[1], .divides = true});
  }

  const Value& v_;
  Leaving leaving_;
  AxisSet reduced_;
  std::vector<AxisSet> axes_;
  std::vector<bool> divisible_;
  Product product_;
  int visited_ = 0;
};

/// A value no other reduction is nested around: its free axes are parallel.
bool stands_free(const KernelSpec& spec, const Value& v) {
  return (axes_of(v.axes) & ~axes_of(spec.parallel_axes())) == 0;
}

/// inner: value `at` with `body`; outer: everything else, with the value as `outer_body` over inner's result
/// (input v.operands.size()) and the value's old operands.
Split split_at(const KernelSpec& spec, size_t at, const ScalarFunction& inner_body,
               const ScalarFunction& outer_body) {
  const Value& v = spec.values()[at];
  const Expression index = row_major(v.axes, spec.extents());
  const Expression elements = elements_of(v.axes, spec.extents());

  SpecParts inner = spec.parts();
  inner.values.resize(at + 1);
  inner.values[at].body = inner_body;
  inner.outputs = {{static_cast<int>(at), index, elements}};
  Canonical ci = canonical(std::move(inner));

  SpecParts outer = spec.parts();
  const int slot = static_cast<int>(outer.slots.size());
  outer.slots.push_back({inner_body[inner_body.outputs()[0]].dtype, elements});
  Value& rest = outer.values[at];
  rest.operands.push_back(
      {.kind = Kind::Load, .dtype = outer.slots.back().dtype, .slot = slot, .index = index, .masks = {}});
  rest.monoid = std::nullopt;
  rest.reduced.clear();
  rest.body = outer_body;
  forget_unread(rest);
  Canonical co = canonical(std::move(outer));

  Split split{
      .outer = std::move(co.spec), .outer_slots = {}, .inner = std::move(ci.spec), .inner_slots = ci.slots};
  for (const int s : co.slots) split.outer_slots.push_back(s == slot ? -1 : s);
  return split;
}

/// The product of what stays, in `b` to which `copies` brings nodes of `body`; there is some.
Scalar product_of(ScalarBuilder& b, const ScalarFunction& body, Copies& copies,
                  std::span<const Product::Factor> factors) {
  const auto one = [&](const Product::Factor& f) {
    if (f.branch == 0) return copies.of(f.node);
    const ScalarNode& n = body[f.node];
    const Scalar kept = f.chosen.empty() ? b.constant(n.dtype, 1) : product_of(b, body, copies, f.chosen);
    const Scalar zero = b.constant(n.dtype, 0), condition = copies.of(n.operands[0]);
    return f.branch == 1 ? b.select(condition, kept, zero) : b.select(condition, zero, kept);
  };
  Scalar whole = one(factors[0]);
  for (const Product::Factor& f : factors.subspan(1)) whole = b.mul(whole, one(f));
  return whole;
}

/// The body of `product`'s inside alone, and of the outside applied to input `reduced_input`.
std::optional<Split> split_product(const KernelSpec& spec, size_t at, const Product& product) {
  const Value& v = spec.values()[at];
  ScalarBuilder in;
  Copies inside(in, v.body);
  const Scalar kept = product_of(in, v.body, inside, product.inside);
  ScalarBuilder out;
  Copies outside(out, v.body);
  Scalar whole = out.input(static_cast<int>(v.operands.size()), v.dtype());
  for (const Product::Factor& f : product.outside) {
    const Scalar factor = outside.of(f.node);
    whole = f.divides ? out.div(whole, factor) : out.mul(whole, factor);
  }
  if (product.negated) whole = out.neg(whole);
  return split_at(spec, at, in.finish(kept), out.finish(whole));
}

}  // namespace

namespace {

/// A constant node of F32 or F64.
double real_value(const ScalarNode& n) {
  return n.dtype == Dtype::F32 ? static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(n.payload)))
                               : std::bit_cast<double>(n.payload);
}

/// Whether applying these constants, one after the other, to a sum of terms without them stays within
/// kMostGrowth times what a sum of terms with them is.
bool stays_in_range(const ScalarFunction& body, std::span<const Product::Factor> constants) {
  double product = 1, greatest = 1;
  for (const Product::Factor& f : constants) {
    const double value = std::abs(real_value(body[f.node]));
    product = f.divides ? product / value : product * value;
    greatest = std::max(greatest, product);
  }
  return std::isfinite(greatest) && greatest <= kMostGrowth * product;
}

bool leaves_something(const Product& product) {
  return !product.inside.empty() && (!product.outside.empty() || product.negated);
}

}  // namespace

std::optional<Split> leave_sum(const KernelSpec& spec) {
  for (size_t at = 0; at < spec.values().size(); ++at) {
    const Value& v = spec.values()[at];
    const Dtype dtype = v.dtype();
    if (v.monoid != Monoid::Add || !stands_free(spec, v) || !(is_real(dtype) || is_integer(dtype))) continue;
    const auto product = ProductReader(spec, v, Leaving::Any).read();
    if (product && leaves_something(*product)) return split_product(spec, at, *product);
  }
  return std::nullopt;
}

std::optional<Split> leave_sum_constants(const KernelSpec& spec) {
  for (size_t at = 0; at < spec.values().size(); ++at) {
    const Value& v = spec.values()[at];
    if (v.monoid != Monoid::Add || !stands_free(spec, v) || !is_real(v.dtype())) continue;
    const auto product = ProductReader(spec, v, Leaving::Constants).read();
    if (product && leaves_something(*product) && stays_in_range(v.body, product->outside))
      return split_product(spec, at, *product);
  }
  return std::nullopt;
}

namespace {

/// No product: at most one term, also within a choice.
bool is_one_term(std::span<const Product::Factor> factors) {
  return factors.empty() || (factors.size() == 1 && is_one_term(factors[0].chosen));
}

}  // namespace

std::optional<Split> leave_max(const KernelSpec& spec) {
  for (size_t at = 0; at < spec.values().size(); ++at) {
    const Value& v = spec.values()[at];
    if (!v.monoid || !info(*v.monoid).selects || !stands_free(spec, v) || !is_real(v.dtype())) continue;
    const auto product = ProductReader(spec, v, Leaving::Constants).read();
    if (!product || !leaves_something(*product) || product->negated) continue;
    // One constant at the root: with several factors rounding would not be that of one monotone function.
    if (product->outside.size() != 1 || !is_one_term(product->inside)) continue;
    const double factor = real_value(v.body[product->outside[0].node]);
    if (factor > 0 && std::isfinite(factor)) return split_product(spec, at, *product);
  }
  return std::nullopt;
}

std::optional<Composed> fold_constant(const KernelSpec& spec, int slot, Number value) {
  SpecParts parts = spec.parts();
  bool any = false;
  for (Value& v : parts.values) {
    const auto reads = [slot](const Operand& o) { return o.kind == Kind::Load && o.slot == slot; };
    if (std::ranges::none_of(v.operands, reads)) continue;
    any = true;
    ScalarBuilder b;
    std::vector<Operand> operands;
    std::vector<Scalar> inputs;
    for (const Operand& o : v.operands) {
      if (!reads(o)) {
        inputs.push_back(b.input(add_operand(operands, o), o.dtype));
        continue;
      }
      Scalar constant = number_constant(b, o.dtype, value);
      for (size_t k = o.masks.size(); k-- > 0;) {
        const int at = add_operand(
            operands, {.kind = Kind::Index, .dtype = Dtype::I64, .index = o.masks[k].predicate, .masks = {}});
        const Scalar valid = b.convert(b.input(at, Dtype::I64), Dtype::Bool);
        constant = b.select(valid, constant, number_constant(b, o.dtype, o.masks[k].fill));
      }
      inputs.push_back(constant);
    }
    v.body = b.finish(b.inline_function(v.body, inputs)[0]);
    v.operands = std::move(operands);
  }
  if (!any) return std::nullopt;
  return own_slots(canonical(std::move(parts)));
}

namespace {

/// `count` as a value of `dtype`.
Scalar count_scalar(ScalarBuilder& b, std::vector<Operand>& operands, const Expression& count, Dtype dtype) {
  if (const auto n = count.constant()) return b.constant(dtype, *n);
  const int at =
      add_operand(operands, {.kind = Kind::Index, .dtype = Dtype::I64, .index = count, .masks = {}});
  return b.convert(b.input(at, Dtype::I64), dtype);
}

}  // namespace

std::optional<Composed> reduce_repeated(const KernelSpec& spec) {
  for (size_t at = 0; at < spec.values().size(); ++at) {
    const Value& v = spec.values()[at];
    if (!v.monoid || (v.monoid != Monoid::Add && !info(*v.monoid).selects)) continue;
    AxisSet used = 0;
    for (const Operand& o : v.operands) used |= axes_of(o, spec.values());
    AxisSet unused = axes_of(v.reduced) & ~used;
    // Over nothing there is no term that could be repeated.
    for_each_axis(unused, [&](int a) {
      if (spec.extents()[static_cast<size_t>(a)].range().min < 1) unused &= ~axis_bit(a);
    });
    if (unused == 0) continue;
    Expression count = 1;
    for_each_axis(unused, [&](int a) { count *= spec.extents()[static_cast<size_t>(a)]; });
    SpecParts parts = spec.parts();
    Value& narrowed = parts.values[at];
    narrowed.reduced = list_of(axes_of(v.reduced) & ~unused);
    if (narrowed.reduced.empty()) narrowed.monoid = std::nullopt;
    if (v.monoid == Monoid::Add) {
      // The multiple follows its sum; later readers and outputs take the multiple.
      Value multiple{.axes = v.axes};
      multiple.operands.push_back(
          {.kind = Kind::Value, .dtype = v.dtype(), .value = static_cast<int>(at), .masks = {}});
      ScalarBuilder b;
      const Scalar one = b.input(0, v.dtype());
      multiple.body = b.finish(b.mul(one, count_scalar(b, multiple.operands, count, v.dtype())));
      const auto shift = [at](int& value) { value += value >= static_cast<int>(at); };
      for (size_t k = at + 1; k < parts.values.size(); ++k)
        for (Operand& o : parts.values[k].operands)
          if (o.kind == Kind::Value) shift(o.value);
      for (Output& o : parts.outputs) shift(o.value);
      parts.values.insert(parts.values.begin() + static_cast<ptrdiff_t>(at) + 1, std::move(multiple));
    }
    return own_slots(canonical(std::move(parts)));
  }
  return std::nullopt;
}

}  // namespace luminal::kernel
