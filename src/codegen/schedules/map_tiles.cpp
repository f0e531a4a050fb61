#include <algorithm>
#include <map>
#include <set>

#include "codegen/schedules/cost.h"
#include "codegen/schedules/map.h"
#include "codegen/schedules/specialise.h"

/// Transposes: see lower_tiles in map.h.
namespace luminal::codegen::map {
namespace {

using kernel::KernelSpec;
using kernel::Operand;

/// The spec with each turned load as a value of its own, so that a tile can say what it is.
struct Split {
  KernelSpec spec;
  std::vector<int> values;  ///< of the turned loads, in their order
};

Split split_loads(const KernelSpec& spec, const Turned& turned) {
  kernel::SpecParts parts = spec.parts();
  Split s;
  // The new values come first: operands before their readers.
  const auto count = static_cast<int>(turned.loads.size());
  for (kernel::Value& v : parts.values)
    for (Operand& o : v.operands)
      if (o.kind == Operand::Kind::Value) o.value += count;
  for (kernel::Output& o : parts.outputs) o.value += count;
  std::vector<kernel::Value> first;
  for (const auto& [value, operand] : turned.loads) {
    kernel::Value& reader = parts.values[static_cast<size_t>(value)];
    Operand& load = reader.operands[static_cast<size_t>(operand)];
    ScalarBuilder b;
    const ScalarFunction same = b.finish(b.input(0, load.dtype));
    const std::set<int> used = load.index.to_indices();
    first.push_back({.axes = {used.begin(), used.end()}, .body = same, .operands = {load}});
    load = {.kind = Operand::Kind::Value, .dtype = load.dtype, .value = static_cast<int>(first.size()) - 1};
    s.values.push_back(load.value);
  }
  parts.values.insert(parts.values.begin(), first.begin(), first.end());
  s.spec = KernelSpec(std::move(parts));
  return s;
}

/// Transposed in registers: in step d rows d apart swap the lanes whose number has bit d.
std::vector<Id> transposed(StageBuilder& b, std::vector<Id> rows) {
  const int n = static_cast<int>(rows.size());
  for (int d = 1; d < n; d *= 2) {
    std::vector<int> low, high;
    for (int l = 0; l < n; ++l) {
      low.push_back((l & d) == 0 ? l : n + l - d);
      high.push_back((l & d) == 0 ? l + d : n + l);
    }
    for (int r = 0; r < n; ++r) {
      if ((r & d) != 0) continue;
      const auto a = static_cast<size_t>(r), c = static_cast<size_t>(r + d);
      const Id first = b.shuffle(rows[a], rows[c], low), second = b.shuffle(rows[a], rows[c], high);
      rows[a] = first, rows[c] = second;
    }
  }
  return rows;
}

}  // namespace

Turned turned_loads(const KernelSpec& spec) {
  const std::vector<int> order = memory_order(spec, spec.outputs()[0]);
  std::map<int, Turned> by_axis;
  for (size_t v = 0; v < spec.values().size(); ++v) {
    const std::vector<Operand>& operands = spec.values()[v].operands;
    for (size_t k = 0; k < operands.size(); ++k) {
      const Operand& o = operands[k];
      if (o.kind != Operand::Kind::Load || !o.masks.empty()) continue;
      const auto stride = [&](int axis) {
        const int axes[] = {axis};
        if (!depends_on(o.index, axes)) return int64_t{0};
        const auto even = evenly(o.index, group_of(spec.extents(), {axis}));
        return even ? even->stride : int64_t{2};
      };
      if (std::abs(stride(order.back())) <= 1) continue;
      for (const int axis : order)
        if (axis != order.back() && stride(axis) == 1) {
          by_axis[axis].axis = axis;
          by_axis[axis].loads.emplace_back(static_cast<int>(v), static_cast<int>(k));
        }
    }
  }
  Turned best;
  for (const auto& [axis, turned] : by_axis)
    if (turned.loads.size() > best.loads.size()) best = turned;
  return best;
}

Program lower_tiles(const KernelSpec& given, const Parameters& parameters, const DimMap& top,
                    const Target& target) {
  const auto lanes = static_cast<int>(parameters.at("lanes"));
  const Turned turned = turned_loads(given);
  const Split split = split_loads(given, turned);
  const KernelSpec& spec = split.spec;
  const std::vector<int> order = memory_order(spec, spec.outputs()[0]);
  const int across = turned.axis, along = order.back();
  const Expression rows = spec.extents()[static_cast<size_t>(across)],
                   columns = spec.extents()[static_cast<size_t>(along)];

  // A block is `block` by `block` tiles, so that a row gives and takes whole stretches of memory while the
  // block stays in the first cache. Large tensors pass the caches by, the next block fetched meanwhile.
  const int64_t block = parameter_or(parameters, "block", 1), side = block * lanes;
  const bool large = parameters.at("stream") != 0;
  TaskGrid grid{.outer = group_of(spec.extents(), {order.begin(), order.end() - 1}),
                .inner = group_of(spec.extents(), {along}),
                .width = side};
  for (size_t k = 0; k < grid.outer.axes.size(); ++k)
    if (grid.outer.axes[k] == across) grid.outer.extents[k] = rows.ceil_div(side);
  cut_into_tasks(grid, static_cast<double>(side * block) * (8 + body_cycles(spec, kernel::axes_of(order))),
                 top, target);
  const AxisGroup down = group_of(spec.extents(), {across});

  const auto tile = [&](StageBuilder& b, const Coordinates& corner, const Expression& row,
                        const Expression& start, bool whole) {
    std::vector<std::map<int, Id>> known(static_cast<size_t>(lanes));
    for (size_t t = 0; t < turned.loads.size(); ++t) {
      const int v = split.values[t];
      const Operand& load = spec.values()[static_cast<size_t>(v)].operands[0];
      std::vector<Id> loaded;
      for (int s = 0; s < lanes; ++s) {
        Coordinates at = corner;
        at[static_cast<size_t>(along)] = start + s;
        // All lanes of a column that is not there are off.
        Ramp ramp(b, down, row, lanes, whole ? row + lanes : rows * (start + s).lt(columns));
        ramp.prepare(load);
        loaded.push_back(ramp.widen(ramp.load(load, at)));
        if (!large) continue;
        at[static_cast<size_t>(along)] = start + side + s;
        at[static_cast<size_t>(across)] = row;
        b.prefetch(load.slot, load.index.substitute_indices(at));
      }
      loaded = transposed(b, std::move(loaded));
      for (size_t r = 0; r < loaded.size(); ++r) known[r][v] = loaded[r];
    }
    for (int r = 0; r < lanes; ++r) {
      Coordinates at = corner;
      at[static_cast<size_t>(across)] = row + r;
      const auto write = [&] {
        Ramp ramp(b, grid.inner, start, lanes, whole ? start + lanes : columns);
        prepare(spec, ramp);
        store_outputs(spec, ramp, at, known[static_cast<size_t>(r)], large && whole);
      };
      if (whole)
        write();
      else  // nothing of a row that is not there may be read
        b.if_true(b.compute(ScalarOp::Lt, {b.index(row + r), b.index(rows)}), write);
    }
  };

  Program program = program_for(spec, "map");
  StageBuilder b(program, grid.tasks());
  grid.visit(
      b, spec.extents().size(), [](const Coordinates&) {},
      [&](const Coordinates& at, const Expression& start) {
        const Expression corner = at[static_cast<size_t>(across)] * side;
        const auto one = [&](const Expression& row, const Expression& column) {
          const Expression inside = (row + (lanes - 1)).lt(rows) & (column + (lanes - 1)).lt(columns);
          guarded(b, inside, [&](bool whole) { tile(b, at, row, column, whole); });
        };
        b.loop((columns - start).ceil_div(lanes).min(block), LoopKind::Serial, [&](const Expression& j) {
          b.loop((rows - corner).ceil_div(lanes).min(block), LoopKind::Serial,
                 [&](const Expression& i) { one(corner + i * lanes, start + j * lanes); });
        });
      });
  b.finish();
  return program;
}

}  // namespace luminal::codegen::map
