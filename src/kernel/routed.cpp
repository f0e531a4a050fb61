#include "kernel/routed.h"

#include <algorithm>

#include "kernel/axes.h"
#include "kernel/copies.h"

namespace luminal::kernel {
namespace {

AxisSet axes_of_name(const KernelSpec& spec, const Value& sum, const OneTerm& term) {
  AxisSet axes = 0;
  const ScalarFunction name = part_of(term.place, term.place.outputs()[0]);
  for (const ScalarNode& n : name.nodes())
    if (n.op == ScalarOp::Input) axes |= axes_of(sum.operands[n.payload], spec.values());
  return axes;
}

/// Whether all folds beside the sum are parts of its terms, one at least, and differ from place to place.
bool folds_are_terms(const KernelSpec& spec, const Routed& routed) {
  const AxisSet wanted = axis_bit(routed.term.axis) | axes_of(routed.places);
  int folds = 0;
  for (int v = 0; v < std::ssize(spec.values()); ++v) {
    const Value& value = spec.values()[static_cast<size_t>(v)];
    if (!value.monoid || v == routed.sum) continue;
    if ((wanted & ~axes_of(value.axes)) != 0) return false;
    ++folds;
  }
  return folds > 0;
}

bool outputs_differ_by_place(const KernelSpec& spec, const Routed& routed) {
  const AxisSet places = axes_of(routed.places);
  return std::ranges::all_of(spec.outputs(), [&](const Output& o) {
    const AxisSet axes = axes_of(spec.values()[static_cast<size_t>(o.value)].axes);
    return (places & ~axes) == 0 && (axes & axis_bit(routed.term.axis)) == 0;
  });
}

}  // namespace

std::optional<Routed> routed_of(const KernelSpec& spec) {
  for (size_t v = 0; v < spec.values().size(); ++v) {
    auto term = named_term_of(spec.values(), v);
    if (!term || !term->is_certain) continue;
    const AxisSet places = axes_of_name(spec, spec.values()[v], *term);
    Routed routed{.sum = static_cast<int>(v), .term = std::move(*term), .places = list_of(places)};
    if (folds_are_terms(spec, routed) && outputs_differ_by_place(spec, routed)) return routed;
  }
  return std::nullopt;
}

SpecParts each_term(const KernelSpec& spec, const Routed& routed) {
  SpecParts parts = spec.parts();
  Value& sum = parts.values[static_cast<size_t>(routed.sum)];
  sum.body = part_of(sum.body, routed.term.term);
  return parts;
}

}  // namespace luminal::kernel
