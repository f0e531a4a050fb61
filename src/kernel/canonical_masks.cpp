#include <algorithm>
#include <bit>
#include <functional>
#include <optional>
#include <tuple>

#include "kernel/canonical_steps.h"
#include "kernel/one_term.h"
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
      std::vector<Operand> unknown;  // inputs, which decide against unless nothing depends on them
      const Scalar there = inside(constants, place, s, [&](const Operand& o) -> Scalar {
        if (!reads_under(o, predicate_) || (fill && o.dtype != dtype))
          return constants.input(add_operand(unknown, o), o.dtype);
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

/// The operands that a product has as direct factors, each once.
std::vector<size_t> factors_of(const ScalarFunction& body, Scalar product) {
  std::vector<size_t> inputs;
  for (const Scalar factor : multiplied(body, product))
    if (body[factor].op == ScalarOp::Input) inputs.push_back(body[factor].payload);
  return inputs;
}

bool is_in_buffer(const Expression& index, const Expression& elements) {
  const Range r = index.range();
  if (r.min < 0) return false;
  if (const auto size = elements.constant()) return r.max < *size;
  return Expression::known_less(index, elements);
}

/// The conditions that a predicate joins.
std::vector<Expression> conditions_of(const Expression& predicate) {
  if (symbolic::kind_of(predicate) != symbolic::Kind::And) return {predicate};
  return predicate.node().args;
}

/// Calls `visit` with the coordinates of `axes` set to each of their places, `places` of every axis, until it says
/// false; what it said last. More than some places at once are none of its business: false.
bool at_all_places(const std::vector<int>& axes, const std::vector<std::vector<int64_t>>& places,
                   std::vector<Expression> at,
                   const std::function<bool(std::span<const Expression>)>& visit) {
  constexpr size_t kMost = 1024;
  size_t count = 1;
  for (const auto& each : places) count *= each.size();
  if (count > kMost) return false;
  for (size_t k = 0; k < count; ++k) {
    size_t rest = k;
    for (size_t a = 0; a < axes.size(); ++a) {
      at[static_cast<size_t>(axes[a])] = places[a][rest % places[a].size()];
      rest /= places[a].size();
    }
    if (!visit(at)) return false;
  }
  return true;
}

/// Whether a load need not ask for conditions that a factor of the same product asks for.
class MaskProof {
 public:
  MaskProof(const Operand& o, const SpecParts& parts)
      : o_(o), elements_(parts.slots[static_cast<size_t>(o.slot)].elements), extents_(parts.extents) {}

  /// Whether the load stays in its buffer where it asks for `left` and no longer for `dropped`.
  [[nodiscard]] bool is_in_buffer_without(const std::vector<Expression>& dropped,
                                          const std::vector<Expression>& left) const {
    return stays_inside(left) || says_nothing_of_index(dropped);
  }

 private:
  static bool is_true(const Expression& condition, std::span<const Expression> at) {
    return symbolic::is_constant(condition.substitute_indices(at), 1);
  }
  static AxisSet axes_of_all(const std::vector<Expression>& conditions) {
    AxisSet set = 0;
    for (const Expression& each : conditions) set |= axes_of(each);
    return set;
  }
  /// All places of each axis; empty if one has too many, or a size that is not known.
  [[nodiscard]] std::optional<std::vector<std::vector<int64_t>>> all_places(
      const std::vector<int>& axes) const {
    constexpr int64_t kShort = 16;
    std::vector<std::vector<int64_t>> places;
    for (const int a : axes) {
      const auto extent = extents_[static_cast<size_t>(a)].constant();
      if (!extent || *extent > kShort) return std::nullopt;
      auto& each = places.emplace_back();
      for (int64_t place = 0; place < *extent; ++place) each.push_back(place);
    }
    return places;
  }
  /// By the range of its index, at each place of the axes that the conditions speak of.
  [[nodiscard]] bool stays_inside(const std::vector<Expression>& conditions) const {
    const std::vector<int> axes = list_of(axes_of_all(conditions));
    const auto places = all_places(axes);
    return places && at_all_places(axes, *places, axis_variables(extents_), [&](auto at) {
             const bool is_outside = std::ranges::any_of(conditions, [&](const Expression& each) {
               return symbolic::is_constant(each.substitute_indices(at), 0);
             });
             return is_outside || is_in_buffer(o_.index.substitute_indices(at), elements_);
           });
  }
  /// Wherever the load is, some place of the axes that its index does not depend on fulfils the conditions: so they
  /// never kept it in its buffer.
  [[nodiscard]] bool says_nothing_of_index(const std::vector<Expression>& conditions) const {
    const AxisSet set = axes_of_all(conditions), own = axes_of(o_.index);
    const std::vector<int> inner = list_of(set & own), outer = list_of(set & ~own);
    const auto places = all_places(inner);
    constexpr size_t kMostOuter = 6;  // three places of each are tried
    if (!places || outer.empty() || outer.size() > kMostOuter) return false;
    std::vector<std::vector<int64_t>> tried;
    for (const int a : outer) {
      const auto extent = extents_[static_cast<size_t>(a)].constant();
      if (!extent || *extent < 1) return false;
      auto& each = tried.emplace_back(std::vector<int64_t>{0, *extent / 2, *extent - 1});
      each.erase(std::ranges::unique(each).begin(), each.end());
    }
    return at_all_places(inner, *places, axis_variables(extents_), [&](std::span<const Expression> at) {
      // None of the places tried may do: then it is not at all of them that one condition fails.
      return !at_all_places(outer, tried, {at.begin(), at.end()}, [&](auto there) {
        return !std::ranges::all_of(conditions, [&](const Expression& each) { return is_true(each, there); });
      });
    });
  }

  const Operand& o_;
  const Expression& elements_;
  std::span<const Expression> extents_;
};

bool is_zero_outside(const Operand& o) {
  return o.kind == Kind::Load && !o.masks.empty() && o.masks[0].fill == Number(0);
}

/// The masked factors of one product, and which of them asks for which condition.
class SharedMasks {
 public:
  SharedMasks(Value& v, const std::vector<size_t>& factors, const SpecParts& parts) : v_(v), parts_(parts) {
    for (const size_t k : factors) {
      conditions_.push_back(conditions_of(v.operands[k].masks[0].predicate));
      for (const Expression& each : conditions_.back())
        if (std::ranges::find(all_, each) == all_.end()) {
          all_.push_back(each);
          axes_ |= axes_of(each);
        }
    }
    factors_ = factors;
  }

  /// Each condition goes to one of the factors whose index depends on all that it speaks of: to the one that depends
  /// on most. So what places a load has is asked of that load alone, and the others do not depend on its axes.
  void share_out() {
    for (size_t f = 0; f < factors_.size(); ++f) {
      Operand& o = v_.operands[factors_[f]];
      std::vector<Expression> left = still_asked(f);
      for (const Expression& each : all_)
        if (owner_of(each) == f && std::ranges::find(left, each) == left.end()) left.push_back(each);
      set_conditions(o, left);
    }
  }

 private:
  /// Of the conditions of a factor those that it keeps: its own, and what keeps it in its buffer.
  [[nodiscard]] std::vector<Expression> still_asked(size_t f) const {
    const Operand& o = v_.operands[factors_[f]];
    const AxisSet index = axes_of(o.index);
    for (const bool only_foreign : {false, true}) {
      std::vector<Expression> left, dropped;
      for (const Expression& each : conditions_[f]) {
        const auto owner = owner_of(each);
        const bool is_foreign = (axes_of(each) & ~index) != 0;
        (owner && *owner != f && (is_foreign || !only_foreign) ? dropped : left).push_back(each);
      }
      if (dropped.empty() || MaskProof(o, parts_).is_in_buffer_without(dropped, left)) return left;
    }
    return conditions_[f];
  }
  [[nodiscard]] std::optional<size_t> owner_of(const Expression& condition) const {
    std::optional<size_t> owner;
    for (size_t f = 0; f < factors_.size(); ++f) {
      const AxisSet index = axes_of(v_.operands[factors_[f]].index);
      if ((axes_of(condition) & ~index) == 0 && (!owner || weight(f) > weight(*owner))) owner = f;
    }
    return owner;
  }
  [[nodiscard]] std::tuple<int, int, uint64_t> weight(size_t f) const {
    const Expression& index = v_.operands[factors_[f]].index;
    return {axis_count(axes_of(index) & axes_), axis_count(axes_of(index)), index.hash()};
  }
  static void set_conditions(Operand& o, const std::vector<Expression>& conditions) {
    if (conditions.empty()) {
      o.masks.erase(o.masks.begin());
      return;
    }
    Expression predicate = conditions[0];
    for (size_t k = 1; k < conditions.size(); ++k) predicate = predicate & conditions[k];
    o.masks[0].predicate = predicate;
  }

  Value& v_;
  const SpecParts& parts_;
  std::vector<size_t> factors_;
  std::vector<std::vector<Expression>> conditions_;  ///< by factor
  std::vector<Expression> all_;
  AxisSet axes_ = 0;  ///< that they speak of
};

}  // namespace

bool has_masked_factor(const Value& v) {
  const Scalar term = v.body.outputs()[0];
  return v.body[term].op == ScalarOp::Mul && std::ranges::any_of(factors_of(v.body, term), [&](size_t k) {
           return is_zero_outside(v.operands[k]);
         });
}

void drop_repeated_masks(Value& v, const SpecParts& parts) {
  if (std::ranges::count_if(v.operands, is_zero_outside) < 2) return;
  std::vector<int> uses(v.operands.size(), 0);  // a load that is read elsewhere too must stay as it is
  for (const ScalarNode& n : v.body.nodes())
    for (int k = 0; k < arity(n.op); ++k) {
      const ScalarNode& from = v.body[n.operands[static_cast<size_t>(k)]];
      if (from.op == ScalarOp::Input) ++uses[from.payload];
    }
  for (const Scalar product : outermost_products(v.body)) {
    std::vector<size_t> factors = factors_of(v.body, product);
    std::erase_if(factors, [&](size_t k) { return !is_zero_outside(v.operands[k]) || uses[k] != 1; });
    if (factors.size() > 1) SharedMasks(v, factors, parts).share_out();
  }
}

}  // namespace luminal::kernel
