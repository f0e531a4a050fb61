#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "codegen/schedules/map.h"
#include "kernel/canonical_steps.h"
#include "scalar/typing.h"
#include "symbolic/node.h"

/// Parts side by side along an axis, each read only where it lies: a sum of padded parts, joined tensors. Where
/// the axis is cut at their ends, a piece of it reads what it shows and nothing else.
namespace luminal::codegen::map {
namespace {

using kernel::KernelSpec;
using kernel::Operand;
using kernel::Value;
using Places = std::map<int, std::set<int64_t>>;  ///< by axis

constexpr size_t kMostPieces = 16;

/// Adds the places where parts of the predicate change that are affine in one axis and in nothing else.
void add_places(const KernelSpec& spec, const Expression& predicate, Places& places) {
  const symbolic::Node& n = predicate.node();
  if (n.kind != symbolic::Kind::Negative) {
    for (const Expression& part : n.args) add_places(spec, part, places);
    for (const symbolic::Term& part : n.terms) add_places(spec, part.monomial, places);
    return;
  }
  const kernel::AxisSet axes = kernel::axes_of(n.args[0]);
  if (kernel::axis_count(axes) != 1) return;
  const int axis = kernel::first_axis(axes);
  const auto even = evenly(n.args[0], AxisGroup{{axis}, {INT64_MAX}, {0}});
  std::vector<Expression> origin = kernel::axis_variables(spec.extents());
  origin[static_cast<size_t>(axis)] = 0;
  const auto first = n.args[0].substitute_indices(origin).constant();
  if (!even || even->stride == 0 || !first) return;
  // stride * i + first < 0 up to its place, or from there on.
  const int64_t stride = std::abs(even->stride), reach = even->stride > 0 ? -*first : *first;
  const int64_t below = reach / stride - (reach % stride < 0 ? 1 : 0), rest = reach - below * stride;
  const int64_t place = even->stride > 0 ? below + (rest > 0 ? 1 : 0) : below + 1;
  const auto extent = spec.extents()[static_cast<size_t>(axis)].constant();
  if (extent && place > 0 && place < *extent) places[axis].insert(place);
}

/// What a comparison of a coordinate with a number says, as a formula.
std::optional<Expression> comparison(const Value& v, const ScalarNode& n) {
  if (n.op != ScalarOp::Lt && n.op != ScalarOp::Le) return std::nullopt;
  const ScalarNode &a = v.body[n.operands[0]], &b = v.body[n.operands[1]];
  const auto coordinate = [&](const ScalarNode& x) {
    return x.op == ScalarOp::Input && v.operands[x.payload].kind == Operand::Kind::Index;
  };
  const auto number = [](const ScalarNode& x) { return x.op == ScalarOp::Constant && x.dtype == Dtype::I64; };
  const auto formula = [&](const ScalarNode& x) {
    return number(x) ? Expression(static_cast<int64_t>(x.payload)) : v.operands[x.payload].index;
  };
  if (!(coordinate(a) && number(b)) && !(number(a) && coordinate(b))) return std::nullopt;
  return n.op == ScalarOp::Lt ? formula(a).lt(formula(b)) : 1 - formula(b).lt(formula(a));
}

/// What the operand always is, if that is known.
std::optional<Scalar> constant_of(ScalarBuilder& b, const Operand& o) {
  if (o.kind == Operand::Kind::Index)
    if (const auto value = o.index.constant()) return b.constant(Dtype::I64, *value);
  if (o.kind == Operand::Kind::Load && !o.masks.empty() && o.masks[0].predicate == Expression(0))
    return kernel::number_constant(b, o.dtype, o.masks[0].fill);
  return std::nullopt;
}

/// Leaves out what is known: masks that always hold, loads of which nothing shows, choices that are made.
void settle(Value& v) {
  for (Operand& o : v.operands) {
    std::vector<kernel::Mask> masks;
    for (const kernel::Mask& m : o.masks) kernel::append_mask(masks, m.predicate, m.fill);
    o.masks = std::move(masks);
  }
  ScalarBuilder b;
  std::vector<Scalar> place;
  for (ScalarNode n : v.body.nodes()) {
    if (n.op == ScalarOp::Input) {
      const auto constant = constant_of(b, v.operands[n.payload]);
      place.push_back(constant ? *constant : b.input(static_cast<int>(n.payload), n.dtype));
      continue;
    }
    const auto compared = comparison(v, n);
    if (const auto known = compared ? compared->constant() : std::nullopt) {
      place.push_back(b.constant(Dtype::Bool, *known));
      continue;
    }
    for (int k = 0; k < arity(n.op); ++k)
      n.operands[static_cast<size_t>(k)] = place[n.operands[static_cast<size_t>(k)].index];
    place.push_back(b.make(n));
  }
  v.body = b.finish(place[v.body.outputs()[0].index]);
  std::vector<bool> read(v.operands.size(), false);
  for (const ScalarNode& n : v.body.nodes())
    if (n.op == ScalarOp::Input) read[n.payload] = true;
  for (size_t k = 0; k < read.size(); ++k)
    if (!read[k]) v.operands[k] = {.kind = Operand::Kind::Index, .dtype = Dtype::I64, .masks = {}};
}

}  // namespace

std::vector<Cuts> cuts_of(const KernelSpec& spec) {
  std::map<int, int> partial;  // loads that are there in a part of an axis
  Places places;
  for (const Value& v : spec.values()) {
    for (const Operand& o : v.operands) {
      Places own;
      for (const kernel::Mask& m : o.masks) add_places(spec, m.predicate, own);
      for (const auto& [axis, at] : own) {
        ++partial[axis];
        places[axis].insert(at.begin(), at.end());
      }
    }
    if (partial.empty()) continue;
    for (const Operand& o : v.operands)
      if (o.kind == Operand::Kind::Index) add_places(spec, o.index, places);
    for (const ScalarNode& n : v.body.nodes())
      if (const auto compared = comparison(v, n)) add_places(spec, *compared, places);
  }
  std::vector<Cuts> cuts;
  for (const auto& [axis, at] : places) {
    if (partial[axis] < 2 || at.size() >= kMostPieces ||
        std::ranges::find(spec.result().axes, axis) == spec.result().axes.end())
      continue;
    Cuts c{.axis = axis, .places = {0}};
    c.places.insert(c.places.end(), at.begin(), at.end());
    c.places.push_back(*spec.extents()[static_cast<size_t>(axis)].constant());
    cuts.push_back(std::move(c));
  }
  return cuts;
}

KernelSpec piece_of(const KernelSpec& spec, const Cuts& cuts, size_t number) {
  const int64_t first = cuts.places[number], length = cuts.places[number + 1] - first;
  kernel::SpecParts parts = spec.parts();
  std::vector<Expression> replacement = kernel::axis_variables(spec.extents());
  replacement[static_cast<size_t>(cuts.axis)] = first + Expression::index(cuts.axis, length);
  kernel::substitute_axes(parts, replacement);
  parts.extents[static_cast<size_t>(cuts.axis)] = length;
  for (Value& v : parts.values) settle(v);
  return KernelSpec(std::move(parts));
}

}  // namespace luminal::codegen::map
