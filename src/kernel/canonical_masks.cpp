#include <algorithm>
#include <bit>
#include <optional>
#include <tuple>

#include "kernel/canonical_steps.h"
#include "symbolic/node.h"

namespace luminal::kernel {
namespace {

using Kind = Operand::Kind;

/// The operand whose predicate decides a select, if its condition is one: bool(index).
std::optional<size_t> condition_of(const Value& v, const ScalarNode& n) {
  if (n.op != ScalarOp::Select) return std::nullopt;
  const ScalarNode& condition = v.body[n.operands[0]];
  if (condition.op != ScalarOp::Convert) return std::nullopt;
  const ScalarNode& source = v.body[condition.operands[0]];
  if (source.op != ScalarOp::Input || v.operands[source.payload].kind != Kind::Index) return std::nullopt;
  return source.payload;
}

bool reads_under(const Operand& o, const Expression& predicate) {
  return o.kind == Kind::Load && !o.masks.empty() && o.masks[0].predicate == predicate;
}

/// One body and one predicate.
class Normaliser {
 public:
  Normaliser(Value& v, Expression predicate)
      : v_(v),
        nodes_(v.body.nodes()),
        predicate_(std::move(predicate)),
        touched_(nodes_.size(), false),
        outside_(nodes_.size()) {}

  void run() {
    evaluate_outside();
    if (!has_work(v_.body.outputs()[0])) return;
    place_.assign(nodes_.size(), Scalar{});
    const Scalar root = emit(v_.body.outputs()[0]);
    v_.body = b_.finish(root);
    v_.operands = std::move(operands_);
  }

 private:
  [[nodiscard]] const Operand* operand(const ScalarNode& n) const {
    return n.op == ScalarOp::Input ? &v_.operands[n.payload] : nullptr;
  }
  [[nodiscard]] bool chooses(const ScalarNode& n) const {
    const auto k = condition_of(v_, n);
    return k && v_.operands[*k].index == predicate_;
  }

  /// What each node is where the predicate is 0, if that is one constant; and whether it depends on the
  /// predicate.
  void evaluate_outside() {
    ScalarBuilder constants;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const ScalarNode& n = nodes_[i];
      if (const Operand* o = operand(n)) {
        touched_[i] = reads_under(*o, predicate_);
        if (touched_[i])
          outside_[i] = constants[number_constant(constants, o->dtype, o->masks[0].fill)].payload;
      } else if (n.op == ScalarOp::Constant) {
        outside_[i] = n.payload;
      } else if (chooses(n)) {
        touched_[i] = true;
        outside_[i] = outside_[n.operands[2].index];
      } else {
        evaluate_node(constants, i);
      }
    }
  }
  void evaluate_node(ScalarBuilder& constants, size_t i) {
    ScalarNode n = nodes_[i];
    bool known = true;
    for (int k = 0; k < arity(n.op); ++k) {
      Scalar& o = n.operands[static_cast<size_t>(k)];
      touched_[i] = touched_[i] || touched_[o.index];
      known = known && outside_[o.index];
      if (known) o = constants.constant_bits(nodes_[o.index].dtype, *outside_[o.index]);
    }
    if (!known || !touched_[i]) return;
    const Scalar result = constants.make(n);
    if (constants.is_constant(result)) outside_[i] = constants[result].payload;
  }

  /// A part to put in normal form: an operation, constant outside.
  [[nodiscard]] bool is_part(Scalar s) const {
    return touched_[s.index] && outside_[s.index] && arity(nodes_[s.index].op) > 0;
  }
  /// Each node is looked at once: bodies share their parts.
  [[nodiscard]] bool has_work(Scalar s) {
    if (is_part(s)) return true;
    if (looked_at_.empty()) looked_at_.assign(nodes_.size(), false);
    if (looked_at_[s.index]) return false;
    looked_at_[s.index] = true;
    const ScalarNode& n = nodes_[s.index];
    for (int k = 0; k < arity(n.op); ++k)
      if (touched_[n.operands[static_cast<size_t>(k)].index] && has_work(n.operands[static_cast<size_t>(k)]))
        return true;
    return false;
  }

  Scalar input(Operand o) {
    const Dtype dtype = o.dtype;
    return b_.input(add_operand(operands_, std::move(o)), dtype);
  }

  Scalar emit(Scalar s) {
    if (place_[s.index] != Scalar{}) return place_[s.index];
    if (is_part(s)) return place_[s.index] = emit_part(s);
    ScalarNode n = nodes_[s.index];
    if (const Operand* o = operand(n)) return place_[s.index] = input(*o);
    for (int k = 0; k < arity(n.op); ++k) {
      Scalar& o = n.operands[static_cast<size_t>(k)];
      o = emit(o);
    }
    return place_[s.index] = b_.make(n);
  }

  Scalar emit_part(Scalar s) {
    const Dtype dtype = nodes_[s.index].dtype;
    const uint64_t outside = *outside_[s.index];
    // The fill of the part's own value first, then 0, as in composition.
    for (const auto& fill : {std::optional(outside), std::optional<uint64_t>()}) {
      ScalarBuilder constants;
      std::vector<Scalar> place(nodes_.size());
      const Scalar there = inside(constants, place, s, [&](const Operand& o) -> Scalar {
        if (!reads_under(o, predicate_)) return constants.input(0, o.dtype);  // not constant: decides against
        if (fill && o.dtype != dtype) return constants.input(0, o.dtype);
        return constants.constant_bits(o.dtype, fill.value_or(0));
      });
      if (!constants.is_constant(there) || constants[there].payload != outside) continue;
      return inside_with_fill(s, fill.value_or(0));
    }
    const Scalar value = inside_with_fill(s, 0);
    const Scalar valid = b_.convert(
        input({.kind = Kind::Index, .dtype = Dtype::I64, .index = predicate_, .masks = {}}), Dtype::Bool);
    return b_.select(valid, value, b_.constant_bits(dtype, outside));
  }

  Scalar inside_with_fill(Scalar s, uint64_t bits) {
    std::vector<Scalar> place(nodes_.size());
    return inside(b_, place, s, [&](Operand o) {
      if (reads_under(o, predicate_)) {
        const std::vector<Mask> masks = std::move(o.masks);
        o.masks.clear();
        // The part came out constant whatever loads of other dtypes hold there.
        append_mask(o.masks, predicate_, number_of(o.dtype, o.dtype == nodes_[s.index].dtype ? bits : 0));
        for (size_t k = 1; k < masks.size(); ++k) append_mask(o.masks, masks[k].predicate, masks[k].fill);
      }
      return input(std::move(o));
    });
  }

  /// The part where the predicate is 1: selects by it are gone.
  template <class Leaf>
  Scalar inside(ScalarBuilder& b, std::vector<Scalar>& place, Scalar s, const Leaf& leaf) {
    if (place[s.index] != Scalar{}) return place[s.index];
    ScalarNode n = nodes_[s.index];
    Scalar result;
    if (const Operand* o = operand(n)) {
      result = leaf(*o);
    } else if (chooses(n)) {
      result = inside(b, place, n.operands[1], leaf);
    } else {
      for (int k = 0; k < arity(n.op); ++k) {
        Scalar& part = n.operands[static_cast<size_t>(k)];
        part = inside(b, place, part, leaf);
      }
      result = b.make(n);
    }
    return place[s.index] = result;
  }

  static Number number_of(Dtype dtype, uint64_t bits) {
    ScalarBuilder b;
    const Scalar s = b.constant_bits(dtype, bits);
    if (is_float(dtype)) return plain_number(std::bit_cast<double>(b[b.convert(s, Dtype::F64)].payload));
    return static_cast<int64_t>(b[b.convert(s, Dtype::I64)].payload);
  }

  Value& v_;
  std::span<const ScalarNode> nodes_;
  Expression predicate_;
  std::vector<bool> touched_, looked_at_;
  std::vector<std::optional<uint64_t>> outside_;
  std::vector<Scalar> place_;
  std::vector<Operand> operands_;
  ScalarBuilder b_;
};

}  // namespace

void normalise_masks(Value& v) {
  std::vector<Expression> predicates;
  const auto add = [&predicates](const Expression& e) {
    if (std::ranges::find(predicates, e) == predicates.end()) predicates.push_back(e);
  };
  for (const ScalarNode& n : v.body.nodes())
    if (const auto k = condition_of(v, n)) add(v.operands[*k].index);
  if (v.body.nodes().size() > 1)
    for (const Operand& o : v.operands)
      if (o.kind == Kind::Load && !o.masks.empty()) add(o.masks[0].predicate);
  for (const Expression& p : predicates) Normaliser(v, p).run();
}

namespace {

/// Products that are not factors of others only: each node's own factors are among theirs.
std::vector<Scalar> outermost_products(const ScalarFunction& body) {
  const auto nodes = body.nodes();
  std::vector<bool> outermost(nodes.size(), false);
  outermost[body.outputs()[0].index] = true;
  for (const ScalarNode& n : nodes)
    for (int k = 0; k < arity(n.op) && n.op != ScalarOp::Mul; ++k)
      outermost[n.operands[static_cast<size_t>(k)].index] = true;
  std::vector<Scalar> products;
  for (size_t i = 0; i < nodes.size(); ++i)
    if (outermost[i] && nodes[i].op == ScalarOp::Mul) products.push_back(Scalar{static_cast<uint32_t>(i)});
  return products;
}

/// The operands that a product has as direct factors, each once: x^1024 is a product of ten nodes.
std::vector<size_t> factors_of(const ScalarFunction& body, Scalar product) {
  std::vector<size_t> inputs;
  std::vector<bool> seen(product.index + 1, false);
  seen[product.index] = true;
  for (size_t i = product.index + 1; i-- > 0;) {
    if (!seen[i]) continue;
    const ScalarNode& n = body.nodes()[i];
    if (n.op == ScalarOp::Input) inputs.push_back(n.payload);
    if (n.op != ScalarOp::Mul) continue;
    seen[n.operands[0].index] = seen[n.operands[1].index] = true;
  }
  return inputs;
}

bool always_in_buffer(const Operand& o, const SpecParts& parts) {
  const Expression& elements = parts.slots[static_cast<size_t>(o.slot)].elements;
  const Range r = o.index.range();
  if (r.min < 0) return false;
  if (const auto size = elements.constant()) return r.max < *size;
  return Expression::known_less(o.index, elements);
}

bool is_zero_outside(const Operand& o) {
  return o.kind == Kind::Load && !o.masks.empty() && o.masks[0].fill == Number(0);
}

}  // namespace

void drop_repeated_masks(Value& v, const SpecParts& parts) {
  if (std::ranges::count_if(v.operands, is_zero_outside) < 2) return;
  std::vector<std::vector<size_t>> products;
  for (const Scalar product : outermost_products(v.body)) {
    std::vector<size_t> factors = factors_of(v.body, product);
    if (factors.size() > 1) products.push_back(std::move(factors));
  }
  if (products.empty()) return;
  std::vector<int> uses(v.operands.size(), 0);  // a load that is read elsewhere too must stay as it is
  for (const ScalarNode& n : v.body.nodes())
    for (int k = 0; k < arity(n.op); ++k) {
      const ScalarNode& from = v.body[n.operands[static_cast<size_t>(k)]];
      if (from.op == ScalarOp::Input) ++uses[from.payload];
    }
  for (const std::vector<size_t>& factors : products)
    for (const size_t dropped : factors) {
      Operand& o = v.operands[dropped];
      if (!is_zero_outside(o) || uses[dropped] != 1 || !always_in_buffer(o, parts)) continue;
      const AxisSet predicate = axes_of(o.masks[0].predicate);
      // The load that depends on more of the predicate's axes keeps it.
      const auto weight = [&](size_t k) {
        const Operand& other = v.operands[k];
        return std::tuple(!always_in_buffer(other, parts), axis_count(axes_of(other.index) & predicate),
                          axis_count(axes_of(other.index)), other.index.hash());
      };
      const bool kept_elsewhere = std::ranges::any_of(factors, [&](size_t k) {
        return k != dropped && is_zero_outside(v.operands[k]) &&
               v.operands[k].masks[0].predicate == o.masks[0].predicate && weight(k) > weight(dropped);
      });
      if (kept_elsewhere) o.masks.erase(o.masks.begin());
    }
}

}  // namespace luminal::kernel
