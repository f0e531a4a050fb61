#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <iterator>
#include <set>

#include "codegen/schedules/outputs.h"
#include "codegen/schedules/reduce.h"
#include "codegen/schedules/vector_loops.h"
#include "kernel/axes.h"
#include "kernel/cost.h"

namespace luminal::codegen {

using kernel::KernelSpec;
using kernel::Operand;
using kernel::Value;

bool reads_fold(const KernelSpec& spec, int v) {
  return std::ranges::any_of(spec.values()[static_cast<size_t>(v)].operands, [&](const Operand& o) {
    return o.kind == Operand::Kind::Value &&
           (spec.values()[static_cast<size_t>(o.value)].monoid || reads_fold(spec, o.value));
  });
}

std::optional<Reduction> analyse_reduction(const KernelSpec& spec) {
  Reduction r;
  for (size_t v = 0; v < spec.values().size(); ++v) {
    const Value& value = spec.values()[v];
    if (!value.monoid) continue;
    if (r.values.empty()) r.axes = value.axes, r.reduced = value.reduced;
    if (value.axes != r.axes || value.reduced != r.reduced || reads_fold(spec, static_cast<int>(v)))
      return {};
    r.values.push_back(static_cast<int>(v));
  }
  if (r.values.empty() || !stores_from(spec, kernel::axes_of(r.axes))) return {};
  return r;
}

std::vector<FoldOp> fold_ops(const KernelSpec& spec, const Reduction& r) {
  std::vector<FoldOp> ops;
  for (const int v : r.values) {
    const Value& value = spec.values()[static_cast<size_t>(v)];
    ops.push_back(fold_op(*value.monoid, value.dtype()));
  }
  return ops;
}

std::vector<int> add_parts(Program& program, std::span<const FoldOp> ops, const Expression& elements) {
  std::vector<int> parts;
  for (const FoldOp& op : ops)
    parts.push_back(add_buffer(program, {.name = fmt::format("part{}", parts.size()),
                                         .space = Space::Shared,
                                         .dtype = op.dtype,
                                         .elements = elements}));
  return parts;
}

Id folded_element(StageBuilder& b, const KernelSpec& spec, int v, const FoldOp& op, const Ramp& ramp,
                  std::span<const Expression> at) {
  const Value& value = spec.values()[static_cast<size_t>(v)];
  std::map<int, Id> known;
  return b.convert(ramp.evaluate(spec, value.body, value.operands, at, known), op.dtype);
}

void write_results(StageBuilder& b, const KernelSpec& spec, const Reduction& r, const Ramp& ramp,
                   std::span<const Expression> at, std::span<const Id> totals) {
  std::map<int, Id> known;
  for (size_t f = 0; f < r.values.size(); ++f) {
    const int v = r.values[f];
    known[v] = b.convert(totals[f], spec.values()[static_cast<size_t>(v)].dtype());
  }
  store_outputs_from(b, spec, kernel::axes_of(r.axes), ramp, at, known);
}

namespace {

/// Elements from one step of the axis to the next, in the load that moves farthest.
int64_t stride_of(const KernelSpec& spec, const Reduction& r, int axis, const DimMap& top) {
  int64_t stride = 0;
  for (const int v : r.values)
    for (const Operand& o : spec.values()[static_cast<size_t>(v)].operands) {
      if (o.kind != Operand::Kind::Load || !depends_on(o.index, std::array{axis})) continue;
      std::vector<int64_t> at(spec.extents().size(), 0);
      const int64_t from = o.index.exec(top, at);
      at[static_cast<size_t>(axis)] = 1;
      stride = std::max(stride, std::abs(o.index.exec(top, at) - from));
    }
  return stride;
}

}  // namespace

std::vector<int> reduced_by_stride(const KernelSpec& spec, const Reduction& r, const DimMap& top) {
  std::vector<int> axes = r.reduced;
  std::ranges::stable_sort(axes, std::greater{}, [&](int a) { return stride_of(spec, r, a, top); });
  return axes;
}

std::vector<int> shared_axes(const KernelSpec& spec, const Reduction& r, const DimMap& top) {
  const kernel::AxisSet results = kernel::axes_of(r.axes);
  const auto bytes = [&](const Operand& o) {
    const kernel::Slot& slot = spec.slots()[static_cast<size_t>(o.slot)];
    return kernel::mean_element_bytes(slot.dtype) * static_cast<double>(slot.elements.exec(top));
  };
  const Operand* largest = nullptr;
  kernel::AxisSet moved = 0;  // by any operand
  for (const int v : r.values)
    for (const Operand& o : spec.values()[static_cast<size_t>(v)].operands) {
      if (o.kind != Operand::Kind::Load || !depends_on(o.index, r.reduced)) continue;
      moved |= kernel::axes_of(o, spec.values());
      if (!largest || bytes(o) > bytes(*largest)) largest = &o;
    }
  if (!largest) return {};
  const kernel::AxisSet still = results & moved & ~kernel::axes_of(*largest, spec.values());
  if (still == results) return {};
  std::vector<int> axes;
  std::ranges::copy_if(r.axes, std::back_inserter(axes),
                       [&](int a) { return (still & kernel::axis_bit(a)) != 0; });
  return axes;
}

size_t axes_of_lanes(const KernelSpec& spec, const Reduction& r, const AxisGroup& reduced, int lanes) {
  std::vector<Expression> loads;
  for (const int v : r.values)
    for (const Operand& o : spec.values()[static_cast<size_t>(v)].operands)
      if (o.kind == Operand::Kind::Load) loads.push_back(o.index);
  return vector_axes_of(reduced, loads, int64_t{2} * lanes);
}

int tile_lanes(int64_t columns, int most) {
  constexpr int64_t kLeast = 4;
  return static_cast<int>(std::min<int64_t>(
      most, std::max<int64_t>(kLeast, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(columns))))));
}

double distinct_share(const Operand& o, const AxisGroup& window, size_t axes, int row_axis, int64_t rows,
                      const DimMap& top) {
  std::set<int64_t> elements;
  const int64_t positions = *window.size().constant();
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t position = 0; position < positions; ++position)
      elements.insert(element_at(o, window, axes, row_axis, {row, position}, top));
  return static_cast<double>(elements.size()) / static_cast<double>(rows * positions);
}

int64_t element_at(const Operand& load, const AxisGroup& window, size_t axes, int row_axis,
                   const WindowStep& step, const DimMap& top) {
  std::vector<int64_t> at(axes, 0);
  at[static_cast<size_t>(row_axis)] = step.row;
  int64_t rest = step.position;
  for (size_t k = window.axes.size(); k-- > 0;) {
    const int64_t extent = *window.extents[k].constant();
    at[static_cast<size_t>(window.axes[k])] = rest % extent;
    rest /= extent;
  }
  return load.index.exec(top, at);
}

std::vector<WindowStep> window_steps(const KernelSpec& spec, const Reduction& r, const AxisGroup& window,
                                     int row_axis, int64_t rows, const DimMap& top) {
  const Operand* shared = nullptr;
  for (const int v : r.values)
    for (const Operand& o : spec.values()[static_cast<size_t>(v)].operands)
      if (!shared && o.kind == Operand::Kind::Load && depends_on(o.index, std::array{row_axis}) &&
          depends_on(o.index, window.axes))
        shared = &o;
  std::vector<std::pair<int64_t, WindowStep>> steps;
  const int64_t positions = *window.size().constant();
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t position = 0; position < positions; ++position) {
      const WindowStep step{row, position};
      steps.emplace_back(
          shared ? element_at(*shared, window, spec.extents().size(), row_axis, step, top) : position, step);
    }
  std::ranges::stable_sort(steps, {}, [](const auto& s) { return s.first; });
  std::vector<WindowStep> ordered;
  for (const auto& [element, step] : steps) ordered.push_back(step);
  return ordered;
}

}  // namespace luminal::codegen
