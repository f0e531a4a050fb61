#include <algorithm>
#include <optional>

#include "codegen/schedules/phases.h"
#include "codegen/schedules/specialise.h"
#include "kernel/axes.h"
#include "scalar/monoid.h"

// Which axes tell phases apart, and what is left of a spec in one phase.
namespace luminal::codegen {
namespace {

using kernel::AxisSet;
using kernel::KernelSpec;
using kernel::Operand;
using kernel::SpecParts;
using kernel::Value;

constexpr int64_t kLongestAxis = 4;  ///< strides of convolutions
constexpr int64_t kMostPhases = 16;

/// Short axes of the outputs that decide, with reduced axes in one mask, which terms are there. No value folds over
/// them: it would need all their places.
AxisSet phase_axes(const KernelSpec& spec) {
  AxisSet parallel = kernel::axes_of(spec.parallel_axes()), found = 0;
  for (const Value& v : spec.values()) parallel &= ~kernel::axes_of(v.reduced);
  for (const Value& v : spec.values()) {
    if (!v.monoid) continue;
    const AxisSet reduced = kernel::axes_of(v.reduced);
    for (const Operand& o : v.operands)
      for (const kernel::Mask& m : o.masks) {
        const AxisSet axes = kernel::axes_of(m.predicate);
        if ((axes & reduced) != 0) found |= axes & parallel;
      }
  }
  AxisSet axes = 0;
  int64_t phases = 1;
  kernel::for_each_axis(found, [&](int a) {
    const auto extent = spec.extents()[static_cast<size_t>(a)].constant();
    if (!extent || *extent < 2 || *extent > kLongestAxis || phases * *extent > kMostPhases) return;
    phases *= *extent;
    axes |= kernel::axis_bit(a);
  });
  return axes;
}

/// The fill of an operand where these conditions fold to what they are there; empty if it is read or not known.
std::optional<Number> fill_of(const Operand& o, std::span<const Expression> there) {
  const auto off = std::ranges::find_if(
      o.masks, [&](const kernel::Mask& m) { return m.predicate.substitute_indices(there) == Expression(0); });
  if (off == o.masks.end()) return std::nullopt;
  // Masks before it may give another fill.
  const bool is_known = std::all_of(o.masks.begin(), off, [&](const auto& m) { return m.fill == off->fill; });
  return is_known ? std::optional(off->fill) : std::nullopt;
}

/// Whether a factor of the term `node` is masked to 0.
bool has_zero_factor(const Value& v, Scalar node, std::span<const Expression> there) {
  const ScalarNode& n = v.body[node];
  if (n.op == ScalarOp::Mul)
    return has_zero_factor(v, n.operands[0], there) || has_zero_factor(v, n.operands[1], there);
  return n.op == ScalarOp::Input && fill_of(v.operands[n.payload], there) == Number(0);
}

/// Whether the terms of a fold are its neutral element, bit for bit, wherever axis `axis` is at `place`: with the fills of
/// what is masked off there the body is that element, whatever its other operands are. Where masked terms vanish, one
/// factor is enough.
bool vanish(const Value& v, int axis, int64_t place, std::span<const Expression> variables) {
  std::vector<Expression> there(variables.begin(), variables.end());
  there[static_cast<size_t>(axis)] = place;
  if (v.masked_terms_vanish && v.monoid == Monoid::Add && has_zero_factor(v, v.body.outputs()[0], there))
    return true;
  ScalarBuilder b;
  std::vector<Scalar> nodes;
  for (ScalarNode n : v.body.nodes()) {
    if (n.op == ScalarOp::Input)
      if (const std::optional<Number> fill = fill_of(v.operands[n.payload], there)) {
        nodes.push_back(kernel::number_constant(b, n.dtype, *fill));
        continue;
      }
    for (int k = 0; k < arity(n.op); ++k) {
      Scalar& operand = n.operands[static_cast<size_t>(k)];
      operand = nodes[operand.index];
    }
    nodes.push_back(b.make(n));
  }
  const Scalar term = nodes[v.body.outputs()[0].index];
  return b.is_constant(term) && b[term].payload == neutral_bits(*v.monoid, v.dtype());
}

/// Cuts the reduced axes of the value down to the places between the first and the last that add something. A fold
/// over nothing becomes its neutral element.
void cut_reduced_axes(SpecParts& parts, Value& v) {
  for (const int axis : std::vector<int>(v.reduced)) {
    Expression& extent = parts.extents[static_cast<size_t>(axis)];
    const auto places = extent.constant();
    const auto users = std::ranges::count_if(parts.values, [&](const Value& other) {
      return (kernel::all_axes(other) & kernel::axis_bit(axis)) != 0;
    });
    if (!places || *places > 2 * kLongestAxis || users != 1) continue;
    std::vector<Expression> variables = kernel::axis_variables(parts.extents);
    int64_t first = 0, last = *places;
    while (first < last && vanish(v, axis, first, variables)) ++first;
    while (last > first && vanish(v, axis, last - 1, variables)) --last;
    if (first == 0 && last == *places) continue;
    if (first == last) {
      ScalarBuilder b;
      v.body = b.finish(b.constant_bits(v.dtype(), neutral_bits(*v.monoid, v.dtype())));
      v.operands.clear(), v.reduced.clear();
      v.monoid = std::nullopt;
      return;
    }
    extent = last - first;
    variables[static_cast<size_t>(axis)] = Expression::index(axis, extent) + first;
    place_axes(parts, variables);
  }
}

/// The spec where the axes of `phase` are at those places.
KernelSpec at_phase(const KernelSpec& spec, std::span<const std::pair<int, int64_t>> phase) {
  SpecParts parts = spec.parts();
  std::vector<Expression> coordinates = kernel::axis_variables(parts.extents);
  for (const auto& [axis, place] : phase) {
    parts.extents[static_cast<size_t>(axis)] = 1;
    coordinates[static_cast<size_t>(axis)] = place;
  }
  place_axes(parts, coordinates);
  for (Value& v : parts.values)
    if (v.monoid) cut_reduced_axes(parts, v);
  drop_single_axes(parts);
  return KernelSpec(std::move(parts));
}

/// Terms of all folds.
double terms_of(const KernelSpec& spec, const DimMap& top) {
  double terms = 0;
  for (const Value& v : spec.values()) {
    double own = v.monoid ? 1 : 0;
    for (const int axis : kernel::list_of(kernel::all_axes(v)))
      own *= static_cast<double>(spec.extents()[static_cast<size_t>(axis)].exec(top));
    terms += own;
  }
  return terms;
}

}  // namespace

std::vector<KernelSpec> phases_of(const KernelSpec& spec, const DimMap& top) {
  const std::vector<int> axes = kernel::list_of(phase_axes(spec));
  if (axes.empty()) return {};
  std::vector<KernelSpec> phases;
  std::vector<std::pair<int, int64_t>> phase;
  double terms = 0;
  const auto add = [&](const auto& self) -> void {
    if (phase.size() == axes.size()) {
      terms += terms_of(phases.emplace_back(at_phase(spec, phase)), top);
      return;
    }
    const int axis = axes[phase.size()];
    for (int64_t place = 0; place < *spec.extents()[static_cast<size_t>(axis)].constant(); ++place) {
      phase.emplace_back(axis, place);
      self(self);
      phase.pop_back();
    }
  };
  add(add);
  constexpr double kWorthIt = 0.8;  // of the terms
  if (terms > kWorthIt * terms_of(spec, top)) return {};
  return phases;
}

}  // namespace luminal::codegen
