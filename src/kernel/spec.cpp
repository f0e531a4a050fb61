#include "kernel/spec.h"

#include <algorithm>
#include <set>

#include "base/fail.h"
#include "base/hash.h"
#include "kernel/axes.h"
#include "symbolic/node.h"

namespace luminal::kernel {
namespace {

uint64_t hash_of(const Operand& o) {
  uint64_t h = combine(static_cast<uint64_t>(o.kind) << 8 | static_cast<uint64_t>(o.dtype), o.index.hash());
  h = combine(h, static_cast<uint64_t>(o.slot) << 32 | static_cast<uint32_t>(o.value));
  for (const Mask& m : o.masks) h = combine(combine(h, m.predicate.hash()), m.fill.hash());
  return h;
}

/// Checks one value against the promises in spec.h.
class ValueCheck {
 public:
  ValueCheck(const SpecParts& parts, size_t at) : parts_(parts), v_(parts.values[at]), at_(at) {}

  void run() const {
    check_axes(v_.axes, "axes");
    check_axes(v_.reduced, "reduced axes");
    LUMINAL_CHECK((axes_of(v_.axes) & axes_of(v_.reduced)) == 0, "value {}: an axis is free and reduced",
                  at_);
    LUMINAL_CHECK(v_.reduced.empty() == !v_.monoid, "value {}: {} reduced axes with {}", at_,
                  v_.reduced.size(), v_.monoid ? name(*v_.monoid) : "no monoid");
    LUMINAL_CHECK(v_.body.outputs().size() == 1, "value {}: a body with {} outputs", at_,
                  v_.body.outputs().size());
    LUMINAL_CHECK(!v_.monoid || folds(*v_.monoid, v_.dtype()), "value {}: {} of {}", at_, name(*v_.monoid),
                  name(v_.dtype()));
    for (const ScalarNode& n : v_.body.nodes()) {
      LUMINAL_CHECK(n.op != ScalarOp::Coordinate, "value {}: coordinates are index operands", at_);
      if (n.op != ScalarOp::Input) continue;
      LUMINAL_CHECK(n.payload < v_.operands.size(), "value {}: input {} of {} operands", at_, n.payload,
                    v_.operands.size());
      LUMINAL_CHECK(v_.operands[n.payload].dtype == n.dtype, "value {}: operand {} is {}, the body reads {}",
                    at_, n.payload, name(v_.operands[n.payload].dtype), name(n.dtype));
    }
    for (const Operand& o : v_.operands) check(o);
  }

 private:
  void check_axes(std::span<const int> axes, std::string_view what) const {
    for (size_t k = 0; k < axes.size(); ++k)
      LUMINAL_CHECK(axes[k] >= 0 && axes[k] < static_cast<int>(parts_.extents.size()) &&
                        (k == 0 || axes[k - 1] < axes[k]),
                    "value {}: {} [{}] are not ascending numbers of {} axes", at_, what,
                    fmt::join(axes, ", "), parts_.extents.size());
  }
  void check(const Operand& o) const {
    if (o.kind == Operand::Kind::Value)
      LUMINAL_CHECK(o.value >= 0 && o.value < static_cast<int>(at_), "value {} reads value {}", at_, o.value);
    const AxisSet unbound = axes_of(o, parts_.values) & ~all_axes(v_);
    LUMINAL_CHECK(unbound == 0, "value {}: an operand depends on axis {}, which it does not bind", at_,
                  first_axis(unbound));
    if (o.kind == Operand::Kind::Index)
      LUMINAL_CHECK(o.dtype == Dtype::I64, "value {}: an index is i64", at_);
    if (o.kind == Operand::Kind::Value)
      LUMINAL_CHECK(o.dtype == parts_.values[static_cast<size_t>(o.value)].dtype(),
                    "value {}: reads value {} as {}", at_, o.value, name(o.dtype));
    if (o.kind != Operand::Kind::Load) return;
    LUMINAL_CHECK(o.slot >= 0 && o.slot < static_cast<int>(parts_.slots.size()), "value {}: slot {} of {}",
                  at_, o.slot, parts_.slots.size());
    const Dtype stored = parts_.slots[static_cast<size_t>(o.slot)].dtype;
    LUMINAL_CHECK(o.dtype == (is_quantized(stored) ? Dtype::F32 : stored),
                  "value {}: loads {} from slot {} of {}", at_, name(o.dtype), o.slot, name(stored));
  }

  const SpecParts& parts_;
  const Value& v_;
  size_t at_;
};

void check(const SpecParts& parts) {
  LUMINAL_CHECK(parts.extents.size() <= kMaxAxes, "{} axes of at most {}", parts.extents.size(), kMaxAxes);
  for (const Expression& e : parts.extents)
    LUMINAL_CHECK(axes_of(e) == 0, "the extent {} depends on an axis", e.to_string());
  for (size_t k = 0; k < parts.values.size(); ++k) ValueCheck(parts, k).run();
  LUMINAL_CHECK(!parts.outputs.empty(), "a spec of {} values without outputs", parts.values.size());
  for (const Output& o : parts.outputs) {
    LUMINAL_CHECK(o.value >= 0 && o.value < static_cast<int>(parts.values.size()), "output of value {} of {}",
                  o.value, parts.values.size());
    const AxisSet free = axes_of(parts.values[static_cast<size_t>(o.value)].axes);
    LUMINAL_CHECK((axes_of(o.index) & ~free) == 0, "an output index {} depends on more than its value",
                  o.index.to_string());
  }
}

}  // namespace

uint64_t SpecParts::hash() const {
  uint64_t h = combine(extents.size(), values.size());
  for (const Expression& e : extents) h = combine(h, e.hash());
  for (const Slot& s : slots) {
    h = combine(combine(h, static_cast<uint64_t>(s.dtype)), s.elements.hash());
    if (s.is_frozen) h = combine(h, 3);
  }
  for (const Value& v : values) {
    h = combine(combine(h, axes_of(v.axes)), axes_of(v.reduced));
    h = combine(combine(h, v.monoid ? 1 + static_cast<uint64_t>(*v.monoid) : 0), v.body.hash());
    if (v.online) h = combine(h, 1);
    if (v.masked_terms_vanish) h = combine(h, 2);
    for (const Operand& o : v.operands) h = combine(h, hash_of(o));
  }
  for (const Output& o : outputs)
    h = combine(combine(combine(h, static_cast<uint64_t>(o.value)), o.index.hash()), o.elements.hash());
  return h;
}

KernelSpec::KernelSpec(SpecParts parts) {
  check(parts);
  hash_ = parts.hash();
  parts_ = std::make_shared<const SpecParts>(std::move(parts));
}

std::vector<int> KernelSpec::parallel_axes() const {
  AxisSet set = 0;
  for (const Output& o : outputs()) set |= axes_of(values()[static_cast<size_t>(o.value)].axes);
  return list_of(set);
}

std::vector<std::string> KernelSpec::symbols() const {
  std::set<std::string> names;
  const auto add = [&names](const Expression& e) {
    if (e.node().uses_dim) names.merge(e.to_symbols());
  };
  for (const Expression& e : extents()) add(e);
  for (const Slot& s : slots()) add(s.elements);
  for (const Value& v : values())
    for (const Operand& o : v.operands) {
      add(o.index);
      for (const Mask& m : o.masks) add(m.predicate);
    }
  for (const Output& o : outputs()) {
    add(o.index);
    add(o.elements);
  }
  return {names.begin(), names.end()};
}

KernelSpec with_frozen(const KernelSpec& spec, const std::vector<bool>& is_frozen) {
  const std::span<const Slot> slots = spec.slots();
  LUMINAL_CHECK(is_frozen.size() == slots.size(), "{} marks for {} slots", is_frozen.size(), slots.size());
  if (std::ranges::equal(slots, is_frozen, {}, &Slot::is_frozen)) return spec;
  SpecParts parts = spec.parts();
  for (size_t s = 0; s < is_frozen.size(); ++s) parts.slots[s].is_frozen = is_frozen[s];
  return KernelSpec(std::move(parts));
}

KernelSpec without_frozen(const KernelSpec& spec) {
  return with_frozen(spec, std::vector<bool>(spec.slots().size(), false));
}

}  // namespace luminal::kernel
