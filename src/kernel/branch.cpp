#include "kernel/branch.h"

#include <algorithm>
#include <cmath>

#include "kernel/axes.h"

namespace luminal::kernel {
namespace {

/// The value's bits where the bool operand `condition` is false, if they are known then.
std::optional<uint64_t> constant_without(const Value& v, size_t condition) {
  ScalarBuilder b;
  std::vector<Scalar> nodes;
  for (ScalarNode n : v.body.nodes()) {
    if (n.op == ScalarOp::Input && n.payload == condition) {
      nodes.push_back(b.constant(Dtype::Bool, 0));
      continue;
    }
    for (int k = 0; k < arity(n.op); ++k) {
      Scalar& operand = n.operands[static_cast<size_t>(k)];
      operand = nodes[operand.index];
    }
    nodes.push_back(b.make(n));
  }
  const Scalar result = nodes[v.body.outputs()[0].index];
  if (!b.is_constant(result)) return std::nullopt;
  return b[result].payload;
}

/// The bits of all outputs where `condition` is false, if all of them are known then.
std::optional<std::vector<uint64_t>> constants_without(const KernelSpec& spec, const Operand& condition) {
  std::vector<uint64_t> constants;
  for (const Output& output : spec.outputs()) {
    const Value& v = spec.values()[static_cast<size_t>(output.value)];
    const auto found = std::ranges::find(v.operands, condition);
    if (v.monoid || found == v.operands.end()) return std::nullopt;
    const auto bits = constant_without(v, static_cast<size_t>(found - v.operands.begin()));
    if (!bits) return std::nullopt;
    constants.push_back(*bits);
  }
  return constants;
}

/// Axes of all outputs that every fold has and none folds over, and along which some fold reads a tensor.
AxisSet branching_axes(const KernelSpec& spec) {
  AxisSet axes = ~AxisSet{0}, read = 0;
  bool folds = false;
  for (const Output& output : spec.outputs())
    axes &= axes_of(spec.values()[static_cast<size_t>(output.value)].axes);
  for (const Value& v : spec.values()) {
    axes &= ~axes_of(v.reduced);
    if (!v.monoid) continue;
    folds = true;
    axes &= axes_of(v.axes);
    for (const Operand& o : v.operands)
      if (o.kind == Operand::Kind::Load) read |= axes_of(o, spec.values());
  }
  return folds ? axes & read : 0;
}

/// Whether a place is worth a branch: its folds read much of their own, and little that other places read as well, which
/// is then read for each place anew. (Masked rows of a product would each read all of its weights.)
bool is_worth_it(const KernelSpec& spec, int axis, const DimMap& dims) {
  constexpr double kLeast = 4096, kShared = 0.25;  // elements; of those
  double own = 0, shared = 0;
  for (const Value& v : spec.values())
    for (const Operand& o : v.operands) {
      if (!v.monoid || o.kind != Operand::Kind::Load) continue;
      const AxisSet axes = axes_of(o.index);
      double elements = 1;
      for_each_axis(axes & ~axis_bit(axis), [&](int a) {
        elements *= static_cast<double>(spec.extents()[static_cast<size_t>(a)].exec(dims));
      });
      ((axes & axis_bit(axis)) != 0 ? own : shared) += elements;
    }
  return own >= kLeast && shared <= kShared * own;
}

}  // namespace

std::optional<Branch> branch_of(const KernelSpec& spec, const DimMap& dims) {
  constexpr int64_t kMostPlaces = 4096;
  const AxisSet branching = branching_axes(spec);
  if (branching == 0) return std::nullopt;
  for (const Operand& o : spec.values()[static_cast<size_t>(spec.outputs()[0].value)].operands) {
    if (o.kind != Operand::Kind::Load || o.dtype != Dtype::Bool) continue;
    const AxisSet axes = axes_of(o, spec.values());
    const std::vector<int> possible = list_of(axes & branching);
    const auto extent = [&](int a) { return spec.extents()[static_cast<size_t>(a)].constant(); };
    const auto axis = std::ranges::find_if(possible, [&](int a) {
      return extent(a) && *extent(a) > 1 && *extent(a) <= kMostPlaces && is_worth_it(spec, a, dims);
    });
    if (axis == possible.end()) continue;
    if (auto constants = constants_without(spec, o))
      return Branch{.axis = *axis,
                    .places = *extent(*axis),
                    .condition = o,
                    .others = list_of(axes & ~axis_bit(*axis)),
                    .constants = std::move(*constants)};
  }
  return std::nullopt;
}

/// Nobody knows how many places a condition leaves out. Whoever writes one that leaves whole tensors unread will have few in
/// mind; of several rows together more are on.
double expected_share(const KernelSpec& spec, const Branch& branch, const DimMap& dims) {
  constexpr double kOfOne = 0.25;
  double rows = 1;
  for (const int axis : branch.others)
    rows *= static_cast<double>(spec.extents()[static_cast<size_t>(axis)].exec(dims));
  return 1 - std::pow(1 - kOfOne, rows);
}

}  // namespace luminal::kernel
