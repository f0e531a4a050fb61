#include "search/verification/repetition.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernel/axes.h"
#include "kernel/canonical_steps.h"
#include "search/verification/test_inputs.h"

namespace luminal::search {
namespace {

using kernel::KernelSpec;

constexpr int64_t kTimes = 4;  // as many positions as distinct ones, at least: fewer are not much less to do

/// The most distinct positions that leave little to do; 0 where there are none.
int64_t distinct_of(int64_t length) {
  constexpr std::array<int64_t, 2> kPrimes{257, 67};
  const auto found = std::ranges::find_if(kPrimes, [&](int64_t prime) { return length >= kTimes * prime; });
  return found == kPrimes.end() ? 0 : *found;
}

bool has(const Expression& e, int axis) { return (kernel::axes_of(e) & kernel::axis_bit(axis)) != 0; }

/// By slot, the elements from one position of the axis to the next. Nothing where what a value makes does not follow from
/// what it reads, or is not read so.
std::optional<std::map<int, Expression>> strides_along(const KernelSpec& spec, int axis) {
  std::map<int, Expression> strides;
  for (const kernel::Value& value : spec.values()) {
    if (std::ranges::find(value.reduced, axis) != value.reduced.end()) return std::nullopt;
    for (const kernel::Operand& operand : value.operands) {
      if (std::ranges::any_of(operand.masks, [&](const auto& mask) { return has(mask.predicate, axis); }))
        return std::nullopt;
      if (operand.kind == kernel::Operand::Kind::Value || !has(operand.index, axis)) continue;
      const auto affine = operand.index.as_affine();
      if (operand.kind != kernel::Operand::Kind::Load || !affine) return std::nullopt;
      if (is_quantized(spec.slots()[static_cast<size_t>(operand.slot)].dtype)) return std::nullopt;
      const Expression& stride = affine->coefficients.at(axis);
      if (strides.emplace(operand.slot, stride).first->second != stride) return std::nullopt;
    }
  }
  if (strides.empty()) return std::nullopt;
  return strides;
}

/// The outputs of the first positions, dense again.
bool cut_outputs(const KernelSpec& whole, int axis, kernel::SpecParts& parts,
                 std::vector<Repetition::Output>& outputs) {
  const std::vector<Expression> variables = kernel::axis_variables(parts.extents);
  for (size_t o = 0; o < parts.outputs.size(); ++o) {
    Repetition::Output& output = outputs.emplace_back();
    if (!has(whole.outputs()[o].index, axis)) continue;
    const std::vector<kernel::DenseAxis> order =
        kernel::dense_order(whole.outputs()[o].index, whole.extents());
    if (order.empty()) return false;
    Expression index = 0, elements = 1;
    for (const kernel::DenseAxis& dense : order) {
      const auto a = static_cast<size_t>(dense.axis);
      (output.has_axis ? output.outside : output.inside) *=
          dense.axis == axis ? Expression(1) : whole.extents()[a];
      output.has_axis |= dense.axis == axis;
      index += variables[a] * elements;
      elements *= parts.extents[a];
    }
    parts.outputs[o].index = index;
    parts.outputs[o].elements = elements;
  }
  return true;
}

std::optional<Repetition> along(const KernelSpec& spec, int axis, const DimMap& sizes) {
  constexpr int64_t kShortest = 257;  // elements: what is shifted by less than that is something else
  const Expression& length = spec.extents()[static_cast<size_t>(axis)];
  Repetition made{.spec = {}, .distinct = distinct_of(length.exec(sizes)), .length = length};
  if (made.distinct == 0) return std::nullopt;
  const auto strides = strides_along(spec, axis);
  if (!strides) return std::nullopt;
  for (const auto& [slot, stride] : *strides) {
    const Expression& period = made.periods.emplace(slot, stride * made.distinct).first->second;
    if (period.exec(sizes) < kShortest) return std::nullopt;
  }
  kernel::SpecParts parts = spec.parts();
  std::vector<Expression> first = kernel::axis_variables(spec.extents());
  first[static_cast<size_t>(axis)] = Expression::index(axis, made.distinct);
  kernel::substitute_axes(parts, first);
  parts.extents[static_cast<size_t>(axis)] = made.distinct;
  if (!cut_outputs(spec, axis, parts, made.outputs)) return std::nullopt;
  made.spec = KernelSpec(std::move(parts));
  return made;
}

}  // namespace

double times(const Repetition& repetition, const DimMap& sizes) {
  return static_cast<double>(repetition.length.exec(sizes)) / static_cast<double>(repetition.distinct);
}

std::optional<Repetition> repetition_of(const KernelSpec& spec, const DimMap& sizes) {
  std::optional<Repetition> best;
  for (const int axis : spec.parallel_axes())
    if (auto made = along(spec, axis, sizes); made && (!best || times(*made, sizes) > times(*best, sizes)))
      best = std::move(made);
  return best;
}

std::map<size_t, int64_t> periods_at(const Repetition& repetition, const Unit& unit, const DimMap& dims) {
  std::map<size_t, int64_t> periods;
  if (times(repetition, dims) < kTimes) return periods;
  for (const auto& [slot, period] : repetition.periods)
    periods.emplace(unit.kernels[0].inputs[static_cast<size_t>(slot)], period.exec(dims));
  return periods;
}

VerificationSuite of_first_positions(const Repetition& repetition, const VerificationSuite& suite) {
  VerificationSuite first{
      .unit = suite.unit, .dims = suite.dims, .seed = suite.seed, .cases = {}, .graph = suite.graph};
  Unit::Kernel& kernel = first.unit.kernels[0];
  kernel.spec = repetition.spec;
  kernel.in_place = -1;  // the output is shorter than the input
  for (size_t o = 0; o < kernel.outputs.size(); ++o)
    first.unit.tensors[static_cast<size_t>(kernel.outputs[o])].type.dims = {
        repetition.spec.outputs()[o].elements};
  return first;
}

std::vector<TensorData> repeated(const Repetition& repetition, const VerificationSuite& suite,
                                 const std::vector<TensorData>& made) {
  std::vector<TensorData> all(made.size());
  const Unit::Kernel& kernel = suite.unit.kernels[0];
  const int64_t length = repetition.length.exec(suite.dims);
  for (size_t o = 0; o < kernel.outputs.size(); ++o) {
    const auto t = static_cast<size_t>(kernel.outputs[o]);
    const TensorType& type = suite.unit.tensors[t].type;
    const Repetition::Output& output = repetition.outputs[o];
    const std::vector<int64_t> dims = exec(type.dims, suite.dims);
    const int64_t outside = output.outside.exec(suite.dims);
    if (!output.has_axis || outside == 1) {
      all[t] = repeating(type.dtype, dims, made[t].bytes);
      continue;
    }
    all[t] = TensorData(type.dtype, dims);
    const int64_t row = output.inside.exec(suite.dims) * element_bytes(type.dtype);
    for (int64_t begin = 0; begin < outside; ++begin)
      for (int64_t at = 0; at < length; at += repetition.distinct)
        std::memcpy(&all[t].bytes[static_cast<size_t>((begin * length + at) * row)],
                    &made[t].bytes[static_cast<size_t>(begin * repetition.distinct * row)],
                    static_cast<size_t>(std::min(repetition.distinct, length - at) * row));
  }
  return all;
}

}  // namespace luminal::search
