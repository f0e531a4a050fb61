#include "kernel/compose.h"

#include <algorithm>

#include "base/fail.h"
#include "kernel/canonical_steps.h"
#include "kernel/inliner.h"
#include "symbolic/node.h"
#include "symbolic/polynomial.h"

namespace luminal::kernel {
namespace {

using Kind = Operand::Kind;

/// Two specs' slots side by side and the tensors behind them.
struct Joint {
  SpecParts parts;
  std::vector<uint32_t> arguments;  ///< empty if not known
};

Joint joint_slots(const KernelSpec& a, const KernelSpec& b, std::span<const uint32_t> a_arguments,
                  std::span<const uint32_t> b_arguments) {
  Joint joint;
  joint.parts.slots.assign(a.slots().begin(), a.slots().end());
  joint.parts.slots.insert(joint.parts.slots.end(), b.slots().begin(), b.slots().end());
  joint.parts.extents.assign(a.extents().begin(), a.extents().end());
  const bool named = a_arguments.size() == a.slots().size() && b_arguments.size() == b.slots().size();
  if (named) {
    joint.arguments.assign(a_arguments.begin(), a_arguments.end());
    joint.arguments.insert(joint.arguments.end(), b_arguments.begin(), b_arguments.end());
  }
  return joint;
}

/// Whether the kernel has an output or an axis without elements. Such a kernel stays by itself: an axis that
/// nobody walks says nothing of where it could be computed.
bool holds_nothing(const KernelSpec& spec) {
  const auto nothing = [](const Expression& e) { return e.constant() == 0; };
  return std::ranges::any_of(spec.extents(), nothing) ||
         std::ranges::any_of(spec.slots(), nothing, &Slot::elements) ||
         std::ranges::any_of(spec.outputs(), nothing, &Output::elements);
}

/// How long the spec's formulas are. Chains of padded reads grow masks faster than they save memory traffic,
/// and composing them takes time that grows with a power of their length.
int64_t formula_length(const KernelSpec& spec) {
  int64_t length = 0;
  for (const Value& value : spec.values())
    for (const Operand& operand : value.operands) {
      length += operand.index.node().size;
      for (const Mask& mask : operand.masks) length += mask.predicate.node().size;
    }
  return length;
}

int operation_count(const KernelSpec& spec) {
  int operations = 0;
  for (const Value& v : spec.values())
    for (const ScalarNode& n : v.body.nodes()) operations += arity(n.op) > 0;
  return operations;
}

/// Places at which the slot is read, counted for each value: the producer stands in each of them at first.
int places_read(const KernelSpec& consumer, int slot) {
  int places = 0;
  for (const Value& v : consumer.values())
    for (const Operand& o : v.operands) places += o.kind == Kind::Load && o.slot == slot;
  return places;
}

bool may_repeat(const KernelSpec& consumer, int slot, const KernelSpec& producer,
                const ComposeLimits& limits) {
  const int64_t places = places_read(consumer, slot);
  return operation_count(consumer) + places * operation_count(producer) <=
             int64_t{limits.repeats} * limits.operations &&
         formula_length(consumer) + places * formula_length(producer) <= limits.repeats * limits.formulas;
}

bool may_grow(const KernelSpec& a, const KernelSpec& b, const ComposeLimits& limits) {
  return !holds_nothing(a) && !holds_nothing(b) && formula_length(a) + formula_length(b) <= limits.formulas;
}

std::optional<Composed> finish(Joint joint, size_t first_slots, const ComposeLimits& limits) {
  if (joint.parts.outputs.size() > static_cast<size_t>(limits.exports) + 1) return std::nullopt;
  Canonical c = canonical(std::move(joint.parts), joint.arguments, limits.mode);
  if (c.slots.size() > static_cast<size_t>(limits.slots) || operation_count(c.spec) > limits.operations)
    return std::nullopt;
  Composed result{.spec = std::move(c.spec), .slots = {}};
  for (const int s : c.slots) {
    const bool second = s >= static_cast<int>(first_slots);
    result.slots.push_back({second, second ? s - static_cast<int>(first_slots) : s});
  }
  return result;
}

/// The consumer's values over a target in which loads of `slot` are replaced.
class Composition {
 public:
  /// `slots`: by output of the producer.
  Composition(const KernelSpec& consumer, std::span<const int> slots, const KernelSpec& producer,
              SpecParts& target)
      : consumer_(consumer),
        slots_(slots),
        target_(target),
        inliner_(target, producer, static_cast<int>(consumer.slots().size())) {}

  /// Loads of the slots at `index` read the exported values.
  bool export_at(const Expression& index, const Expression& elements) {
    for (size_t output = 0; output < slots_.size(); ++output) {
      const auto value = inliner_.instantiate_output(output, index);
      if (!value) return false;
      exports_.push_back({.value = *value, .index = index, .elements = elements});
    }
    return true;
  }

  bool run(double most_evaluations) {
    std::vector<int> place;
    for (const Value& v : consumer_.values()) {
      auto copy = rebuilt(v, place);
      if (!copy) return false;
      place.push_back(static_cast<int>(target_.values.size()));
      target_.values.push_back(std::move(*copy));
    }
    for (Output o : consumer_.outputs()) {
      o.value = place[static_cast<size_t>(o.value)];
      target_.outputs.push_back(std::move(o));
    }
    target_.outputs.insert(target_.outputs.end(), exports_.begin(), exports_.end());
    return inliner_.evaluations() <= most_evaluations;
  }

 private:
  [[nodiscard]] bool is_replaced(const Operand& o) const {
    return o.kind == Kind::Load && std::ranges::find(slots_, o.slot) != slots_.end();
  }

  [[nodiscard]] std::optional<Value> rebuilt(const Value& v, std::span<const int> place) {
    Value copy{.axes = v.axes, .reduced = v.reduced, .monoid = v.monoid, .body = {}, .operands = {}};
    const auto kept = [&](Operand o) {
      if (o.kind == Kind::Value) o.value = place[static_cast<size_t>(o.value)];
      return o;
    };
    if (std::ranges::none_of(v.operands, [&](const Operand& o) { return is_replaced(o); })) {
      copy.body = v.body;
      for (const Operand& o : v.operands) copy.operands.push_back(kept(o));
      return copy;
    }
    ScalarBuilder b;
    std::vector<Scalar> inputs;
    for (const Operand& o : v.operands) {
      if (!is_replaced(o)) {
        inputs.push_back(b.input(add_operand(copy.operands, kept(o)), o.dtype));
      } else if (!exports_.empty()) {
        const auto output = static_cast<size_t>(std::ranges::find(slots_, o.slot) - slots_.begin());
        Operand stored{.kind = Kind::Value, .dtype = o.dtype, .value = exports_[output].value, .masks = {}};
        inputs.push_back(b.input(add_operand(copy.operands, std::move(stored)), o.dtype));
      } else if (const auto value = inliner_.inline_load(b, copy.operands, o)) {
        inputs.push_back(*value);
      } else {
        return std::nullopt;
      }
    }
    copy.body = b.finish(b.inline_function(v.body, inputs)[0]);
    return copy;
  }

  const KernelSpec& consumer_;
  std::span<const int> slots_;
  SpecParts& target_;
  Inliner inliner_;
  std::vector<Output> exports_;
};

void check_slot(const KernelSpec& consumer, int slot, const KernelSpec& producer, size_t output = 0) {
  LUMINAL_CHECK(slot >= 0 && slot < static_cast<int>(consumer.slots().size()), "slot {} of {}", slot,
                consumer.slots().size());
  const Value& value = producer.values()[static_cast<size_t>(producer.outputs()[output].value)];
  const Dtype reads = consumer.slots()[static_cast<size_t>(slot)].dtype, gives = value.dtype();
  LUMINAL_CHECK(reads == gives, "slot {} reads {}, the producer gives {}", slot, name(reads), name(gives));
}

}  // namespace

std::optional<Composed> compose(const KernelSpec& consumer, int slot, const KernelSpec& producer,
                                std::span<const uint32_t> consumer_arguments,
                                std::span<const uint32_t> producer_arguments, const ComposeLimits& limits) {
  check_slot(consumer, slot, producer);
  if (producer.outputs().size() != 1 || !may_grow(consumer, producer, limits) ||
      !may_repeat(consumer, slot, producer, limits))
    return std::nullopt;
  Joint joint = joint_slots(consumer, producer, consumer_arguments, producer_arguments);
  if (!Composition(consumer, std::span(&slot, 1), producer, joint.parts).run(limits.evaluations))
    return std::nullopt;
  return finish(std::move(joint), consumer.slots().size(), limits);
}

namespace {

/// Whether all outputs have the elements and the order of the first.
bool have_one_order(std::span<const Output> outputs) {
  return std::ranges::all_of(outputs, [&](const Output& o) {
    return o.index == outputs[0].index && o.elements == outputs[0].elements;
  });
}

}  // namespace

std::optional<Composed> compose_exporting(const KernelSpec& consumer, std::span<const int> slots,
                                          const KernelSpec& producer,
                                          std::span<const uint32_t> consumer_arguments,
                                          std::span<const uint32_t> producer_arguments,
                                          const ComposeLimits& limits) {
  LUMINAL_CHECK(slots.size() == producer.outputs().size(), "{} slots for {} outputs", slots.size(),
                producer.outputs().size());
  for (size_t k = 0; k < slots.size(); ++k)
    if (slots[k] >= 0) check_slot(consumer, slots[k], producer, k);
  if (!have_one_order(producer.outputs()) || !may_grow(consumer, producer, limits)) return std::nullopt;
  std::optional<Expression> index;
  for (const Value& v : consumer.values())
    for (const Operand& o : v.operands) {
      if (o.kind != Kind::Load || std::ranges::find(slots, o.slot) == slots.end()) continue;
      if (!o.masks.empty() || (index && !(*index == o.index))) return std::nullopt;
      index = o.index;
    }
  if (!index) return std::nullopt;
  // The load visits each element of the producer exactly once if its index is row-major over some axes.
  const Expression& elements = producer.outputs()[0].elements;
  const auto order = dense_order(*index, consumer.extents());
  if (axis_count(axes_of(*index)) != static_cast<int>(order.size())) return std::nullopt;
  Expression visited = 1;
  AxisSet parallel = axes_of(consumer.parallel_axes());
  for (const DenseAxis& a : order) {
    visited *= consumer.extents()[static_cast<size_t>(a.axis)];
    if ((parallel & axis_bit(a.axis)) == 0) return std::nullopt;
  }
  if (!(visited == elements)) return std::nullopt;
  Joint joint = joint_slots(consumer, producer, consumer_arguments, producer_arguments);
  Composition composition(consumer, slots, producer, joint.parts);
  if (!composition.export_at(*index, elements) || !composition.run(limits.evaluations)) return std::nullopt;
  return finish(std::move(joint), consumer.slots().size(), limits);
}

namespace {

/// Extents so fine that both lists are made of runs of them; empty if there are none.
std::optional<std::vector<Expression>> common_extents(std::vector<Expression> a, std::vector<Expression> b) {
  std::vector<Expression> common;  // innermost first
  while (!a.empty() && !b.empty()) {
    Expression &x = a.back(), &y = b.back();
    if (x == y) {
      common.push_back(x);
      a.pop_back();
      b.pop_back();
    } else if (const auto q = symbolic::divide_exact(x, y)) {
      common.push_back(y);
      x = *q;
      b.pop_back();
    } else if (const auto r = symbolic::divide_exact(y, x)) {
      common.push_back(x);
      y = *r;
      a.pop_back();
    } else {
      return std::nullopt;
    }
  }
  if (!a.empty() || !b.empty()) return std::nullopt;
  return std::vector(common.rbegin(), common.rend());
}

/// `spec` appended to `target` with its parallel axes made of the target's first axes, whose extents are
/// `common`.
bool append_spec(SpecParts& target, const KernelSpec& spec, std::span<const Expression> common,
                 int first_slot) {
  std::vector<Expression> coordinates(spec.extents().size());
  std::vector<AxisSet> made_of(spec.extents().size(), 0);
  size_t next = common.size();
  std::vector<int> parallel = spec.parallel_axes();
  for (size_t k = parallel.size(); k-- > 0;) {
    const auto axis = static_cast<size_t>(parallel[k]);
    Expression inner = 1;
    while (!(inner == spec.extents()[axis])) {
      if (next == 0) return false;
      --next;
      coordinates[axis] += Expression::index(static_cast<int>(next), common[next]) * inner;
      made_of[axis] |= axis_bit(static_cast<int>(next));
      inner *= common[next];
    }
  }
  for (size_t a = 0; a < spec.extents().size(); ++a) {
    if (std::ranges::count(parallel, static_cast<int>(a)) > 0) continue;
    const int fresh = static_cast<int>(target.extents.size());
    if (fresh >= kMaxAxes) return false;
    target.extents.push_back(spec.extents()[a]);
    coordinates[a] = Expression::index(fresh, spec.extents()[a]);
    made_of[a] = axis_bit(fresh);
  }
  SpecParts moved = spec.parts();
  substitute_axes(moved, coordinates);
  const auto rename = [&](std::vector<int>& axes) {
    AxisSet set = 0;
    for (const int a : axes) set |= made_of[static_cast<size_t>(a)];
    axes = list_of(set);
  };
  const int first_value = static_cast<int>(target.values.size());
  for (Value& v : moved.values) {
    rename(v.axes);
    rename(v.reduced);
    for (Operand& o : v.operands) {
      if (o.kind == Kind::Value) o.value += first_value;
      if (o.kind == Kind::Load) o.slot += first_slot;
    }
    target.values.push_back(std::move(v));
  }
  for (Output& o : moved.outputs) {
    o.value += first_value;
    target.outputs.push_back(std::move(o));
  }
  return true;
}

}  // namespace

std::optional<Composed> merge_siblings(const KernelSpec& a, const KernelSpec& b,
                                       std::span<const uint32_t> a_arguments,
                                       std::span<const uint32_t> b_arguments, const ComposeLimits& limits) {
  if (!may_grow(a, b, limits)) return std::nullopt;
  const auto parallel = [](const KernelSpec& s) {
    std::vector<Expression> extents;
    for (const int axis : s.parallel_axes()) extents.push_back(s.extents()[static_cast<size_t>(axis)]);
    return extents;
  };
  const auto common = common_extents(parallel(a), parallel(b));
  if (!common) return std::nullopt;
  Joint joint = joint_slots(a, b, a_arguments, b_arguments);
  joint.parts.extents = *common;
  if (!append_spec(joint.parts, a, *common, 0) ||
      !append_spec(joint.parts, b, *common, static_cast<int>(a.slots().size())))
    return std::nullopt;
  return finish(std::move(joint), a.slots().size(), limits);
}

}  // namespace luminal::kernel
