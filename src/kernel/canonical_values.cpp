#include <algorithm>
#include <optional>

#include "base/fail.h"
#include "kernel/canonical_steps.h"
#include "symbolic/node.h"

namespace luminal::kernel {
namespace {

using Kind = Operand::Kind;

/// The operand a body hands on unchanged, if that is all it does.
std::optional<size_t> sole_input(const Value& v) {
  const ScalarNode& root = v.body[v.body.outputs()[0]];
  if (root.op != ScalarOp::Input) return std::nullopt;
  return root.payload;
}

class Simplifier {
 public:
  explicit Simplifier(SpecParts& parts) : parts_(parts) {}

  void run() {
    drop_unit_axes();
    mark_live();
    place_.assign(parts_.values.size(), -1);
    for (size_t k = 0; k < parts_.values.size(); ++k)
      if (live_[k]) simplify(k);
    parts_.values = std::move(done_);
    for (Output& o : parts_.outputs) o.value = place_[static_cast<size_t>(o.value)];
    merge_reductions();
    widen_outputs();
    drop_dead();
    // A copy that is no output any more goes into its readers.
    if (redirected_) Simplifier(parts_).run();
  }

 private:
  void drop_unit_axes() {
    unit_ = 0;
    for (size_t k = 0; k < parts_.extents.size(); ++k)
      if (symbolic::is_constant(parts_.extents[k], 1)) unit_ |= axis_bit(static_cast<int>(k));
    if (unit_ == 0) return;
    const auto gone = [this](int axis) { return (unit_ & axis_bit(axis)) != 0; };
    for (Value& v : parts_.values) {
      std::erase_if(v.axes, gone);
      std::erase_if(v.reduced, gone);
      if (v.reduced.empty()) v.monoid = std::nullopt;
    }
  }

  void mark_live() {
    live_.assign(parts_.values.size(), false);
    stored_.assign(parts_.values.size(), false);
    for (const Output& o : parts_.outputs)
      live_[static_cast<size_t>(o.value)] = stored_[static_cast<size_t>(o.value)] = true;
    for (size_t k = parts_.values.size(); k-- > 0;) {
      if (!live_[k]) continue;
      for (const Operand& o : parts_.values[k].operands)
        if (o.kind == Kind::Value) live_[static_cast<size_t>(o.value)] = true;
    }
  }

  /// What nothing reads any more would bind axes that others could share or merge.
  void drop_dead() {
    mark_live();
    if (std::ranges::count(live_, false) == 0) return;
    std::vector<Value> kept;
    std::vector<int> place(parts_.values.size(), -1);
    for (size_t k = 0; k < parts_.values.size(); ++k) {
      if (!live_[k]) continue;
      for (Operand& o : parts_.values[k].operands)
        if (o.kind == Kind::Value) o.value = place[static_cast<size_t>(o.value)];
      place[k] = static_cast<int>(kept.size());
      kept.push_back(std::move(parts_.values[k]));
    }
    parts_.values = std::move(kept);
    for (Output& o : parts_.outputs) o.value = place[static_cast<size_t>(o.value)];
  }

  [[nodiscard]] bool is_inlined(int value) const {
    return !parts_.values[static_cast<size_t>(value)].monoid && !stored_[static_cast<size_t>(value)];
  }

  /// What an operand always is: a constant index, or the fill of a first mask that never lets the load read.
  static std::optional<Number> constant_of(const Operand& o) {
    if (o.kind == Kind::Index)
      if (const auto index = o.index.constant()) return Number(*index);
    if (o.kind == Kind::Load && !o.masks.empty() && symbolic::is_constant(o.masks[0].predicate, 0))
      return o.masks[0].fill;
    return std::nullopt;
  }

  static void clean_masks(Operand& o) {
    const auto trivial = [](const Mask& m) { return m.predicate.constant().has_value(); };
    for (Mask& m : o.masks) m.fill = plain_number(m.fill);
    bool clean = std::ranges::none_of(o.masks, trivial);
    for (size_t k = 1; k < o.masks.size(); ++k) clean &= !(o.masks[k].fill == o.masks[k - 1].fill);
    if (clean) return;
    std::vector<Mask> masks;
    for (const Mask& m : o.masks) append_mask(masks, m.predicate, m.fill);
    o.masks = std::move(masks);
  }

  /// Whether the body must be made anew: operands vanish, become constants or turn out equal.
  [[nodiscard]] bool changes(const Value& v) const {
    for (size_t k = 0; k < v.operands.size(); ++k) {
      const Operand& o = v.operands[k];
      if (o.kind == Kind::Value && is_inlined(o.value)) return true;
      if (constant_of(o)) return true;
      for (size_t j = 0; j < k; ++j)
        if (v.operands[j] == o) return true;
    }
    return !reads_all(v);
  }

  [[nodiscard]] static bool reads_all(const Value& v) {
    size_t inputs = 0;  // a node of each
    for (const ScalarNode& n : v.body.nodes()) inputs += n.op == ScalarOp::Input;
    return inputs == v.operands.size();
  }

  /// Operands that the body does not read dropped: nothing depends on their axes.
  static void drop_unread(Value& v) {
    if (reads_all(v)) return;
    std::vector<Operand> kept;
    ScalarBuilder b;
    std::vector<Scalar> inputs(v.operands.size());
    for (const ScalarNode& n : v.body.nodes()) {
      if (n.op != ScalarOp::Input) continue;
      inputs[n.payload] = b.input(static_cast<int>(kept.size()), n.dtype);
      kept.push_back(std::move(v.operands[n.payload]));
    }
    v.body = b.finish(b.inline_function(v.body, inputs)[0]);
    v.operands = std::move(kept);
  }

  void simplify(size_t at) {
    Value v = std::move(parts_.values[at]);
    for (Operand& o : v.operands) clean_masks(o);
    if (changes(v)) {
      rebuild(v);
    } else {
      for (Operand& o : v.operands)
        if (o.kind == Kind::Value) o.value = place_[static_cast<size_t>(o.value)];
    }
    if (!v.monoid && !stored_[at]) {
      parts_.values[at] = std::move(v);  // with operands that point into done_
      return;
    }
    normalise_masks(v);
    drop_unread(v);
    set_axes(v);
    place_[at] = static_cast<int>(done_.size());
    done_.push_back(std::move(v));
  }

  void rebuild(Value& v) {
    ScalarBuilder b;
    std::vector<Operand> operands;
    const auto scalar = [&](Operand o) -> Scalar {
      if (const auto number = constant_of(o)) return number_constant(b, o.dtype, *number);
      const Dtype dtype = o.dtype;
      return b.input(add_operand(operands, std::move(o)), dtype);
    };
    std::vector<Scalar> inputs;
    for (Operand& o : v.operands) {
      if (o.kind != Kind::Value) {
        inputs.push_back(scalar(std::move(o)));
      } else if (!is_inlined(o.value)) {
        o.value = place_[static_cast<size_t>(o.value)];
        inputs.push_back(scalar(std::move(o)));
      } else {
        const Value& inner = parts_.values[static_cast<size_t>(o.value)];
        std::vector<Scalar> inner_inputs;
        for (const Operand& i : inner.operands) inner_inputs.push_back(scalar(i));
        inputs.push_back(b.inline_function(inner.body, inner_inputs)[0]);
      }
    }
    v.body = b.finish(b.inline_function(v.body, inputs)[0]);
    v.operands = std::move(operands);
    drop_unread(v);
  }

  /// Free axes are what the operands depend on.
  void set_axes(Value& v) const {
    AxisSet set = 0;
    for (const Operand& o : v.operands) set |= axes_of(o, done_);
    // An axis that may be empty has no index variable to depend on, yet it says that nothing is computed.
    for (const int a : v.axes)
      if (parts_.extents[static_cast<size_t>(a)].range().max <= 1) set |= axis_bit(a);
    v.axes = list_of(set & ~axes_of(v.reduced));
  }

  void merge_reductions() {
    auto& values = parts_.values;
    std::vector<int> reads(values.size(), 0);
    for (const Value& v : values)
      for (const Operand& o : v.operands)
        if (o.kind == Kind::Value) ++reads[static_cast<size_t>(o.value)];
    for (const Output& o : parts_.outputs) reads[static_cast<size_t>(o.value)] += 2;
    for (Value& v : values) {
      if (!v.monoid) continue;
      const auto input = sole_input(v);
      if (!input || v.operands[*input].kind != Kind::Value) continue;
      const auto from = static_cast<size_t>(v.operands[*input].value);
      Value& w = values[from];
      const bool covered = (axes_of(v.reduced) & ~axes_of(w.axes)) == 0;  // otherwise it would be repeated
      if (w.monoid != v.monoid || reads[from] != 1 || !covered) continue;
      separate(w, all_axes(v));
      AxisSet reduced = axes_of(v.reduced) | axes_of(w.reduced);
      v.body = w.body;
      v.operands = w.operands;
      v.reduced = list_of(reduced);
    }
  }

  /// Fresh numbers for those reduced axes of `w` that are in `taken`.
  void separate(Value& w, AxisSet taken) {
    const AxisSet clash = axes_of(w.reduced) & taken;
    if (clash == 0) return;
    std::vector<Expression> replacement = axis_variables(parts_.extents);
    AxisSet reduced = axes_of(w.reduced) & ~clash;
    for_each_axis(clash, [&](int a) {
      const Expression extent = parts_.extents[static_cast<size_t>(a)];
      const int fresh = static_cast<int>(parts_.extents.size());
      parts_.extents.push_back(extent);
      replacement[static_cast<size_t>(a)] = Expression::index(fresh, extent);
      reduced |= axis_bit(fresh);
    });
    w.reduced = list_of(reduced);
    for (Operand& o : w.operands) {
      LUMINAL_CHECK(o.kind != Kind::Value || (axes_of(o, parts_.values) & clash) == 0,
                    "a value nested in a merged sum depends on a renamed axis {}", first_axis(clash));
      o.index = o.index.substitute_indices(replacement);
      for (Mask& m : o.masks) m.predicate = m.predicate.substitute_indices(replacement);
    }
  }

  [[nodiscard]] bool is_read(int value) const {
    return std::ranges::any_of(parts_.values, [&](const Value& v) {
      return std::ranges::any_of(v.operands,
                                 [&](const Operand& o) { return o.kind == Kind::Value && o.value == value; });
    });
  }

  /// A stored value has all axes of its output; what depends on fewer is copied out where it is a reduction, or
  /// where others read it.
  void widen_outputs() {
    for (Output& o : parts_.outputs) {
      const AxisSet wanted = axes_of(o.index);
      Value& v = parts_.values[static_cast<size_t>(o.value)];
      const AxisSet have = axes_of(v.axes);
      if (!v.monoid && !((wanted & ~have) != 0 && is_read(o.value))) {
        const auto input = sole_input(v);
        if (input && v.operands[*input].kind == Kind::Value) {
          const int source = v.operands[*input].value;
          if ((wanted & ~axes_of(parts_.values[static_cast<size_t>(source)].axes)) == 0) {
            o.value = source;
            redirected_ = true;
            continue;
          }
        }
        v.axes = list_of(have | wanted);
      } else if ((wanted & ~have) != 0) {
        ScalarBuilder b;
        Value copy;
        copy.axes = list_of(have | wanted);
        copy.body = b.finish(b.input(0, v.dtype()));
        copy.operands.push_back({.kind = Kind::Value, .dtype = v.dtype(), .value = o.value, .masks = {}});
        o.value = static_cast<int>(parts_.values.size());
        parts_.values.push_back(std::move(copy));
      }
    }
  }

  SpecParts& parts_;
  AxisSet unit_ = 0;
  bool redirected_ = false;
  std::vector<bool> live_, stored_;
  std::vector<Value> done_;
  std::vector<int> place_;  ///< value -> position in done_
};

}  // namespace

void simplify_values(SpecParts& parts) { Simplifier(parts).run(); }

}  // namespace luminal::kernel
