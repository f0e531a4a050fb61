#include <algorithm>
#include <numeric>

#include "base/fail.h"
#include "codegen/schedules/contract.h"
#include "codegen/schedules/outputs.h"
#include "kernel/axes.h"
#include "kernel/copies.h"

// What makes a spec a contraction, and how one is laid out for a tiling.
namespace luminal::codegen::contract {
namespace {

using kernel::KernelSpec;
using kernel::Operand;
using kernel::Value;

bool sums(Dtype d) { return d == Dtype::F32 || d == Dtype::F64 || d == Dtype::I32 || d == Dtype::I64; }

/// The one sum of a spec whose other values are elementwise, or -1.
int only_sum(const KernelSpec& spec) {
  int sum = -1;
  for (size_t v = 0; v < spec.values().size(); ++v) {
    const Value& value = spec.values()[v];
    if (!value.monoid) continue;
    if (value.monoid != Monoid::Add || sum >= 0) return -1;
    sum = static_cast<int>(v);
  }
  return sum;
}

/// How many positions of the group lie one behind the other in memory, in every load that moves along it; 0
/// if not even the innermost axis does. `widest`: the greatest stride that counts, for so many fewer positions.
int64_t neighbours(const Factor& f, const AxisGroup& group, const DimMap& top, int64_t widest = 1) {
  int64_t least = 0;
  for (const Operand* o : read_by(f)) {
    if (o->kind != Operand::Kind::Load || !depends_on(o->index, group.axes)) continue;
    const auto even = evenly(o->index, group);
    if (!even || even->stride < 1 || even->stride > widest) return 0;
    const int64_t size = even->size.exec(top) / even->stride;
    least = least == 0 ? size : std::min(least, size);
  }
  return least;
}

/// Elements from one step of `axis` to the next in the side's widest load, at these sizes; 0 if unknown.
int64_t stride_of(const Factor& f, int axis, const KernelSpec& spec, const DimMap& top) {
  int64_t stride = 0;
  for (const Operand* o : read_by(f)) {
    if (o->kind != Operand::Kind::Load || !depends_on(o->index, std::array{axis})) continue;
    // Non-affine formulas are compared at two points.
    std::vector<int64_t> at(spec.extents().size(), 0);
    const int64_t from = o->index.exec(top, at);
    at[static_cast<size_t>(axis)] = 1;
    stride = std::max(stride, std::abs(o->index.exec(top, at) - from));
  }
  return stride;
}

/// Summed axes from the outermost. Where lanes run along K they follow the side's memory; otherwise axes that
/// masks look at come first, so that masks are computed outside the loops over the others. If K is cut into
/// blocks, the longest axis is cut and must be the first.
std::vector<int> summed_order(const KernelSpec& spec, const Contraction& c, const Tiling& t, bool along_k,
                              const Factor& leading, const DimMap& top) {
  std::vector<int> order = c.summed;
  const auto stride = [&](int a) { return stride_of(leading, a, spec, top); };
  if (along_k) {
    std::ranges::stable_sort(order, [&](int a, int b) { return stride(a) > stride(b); });
  } else {
    std::ranges::stable_sort(order, [&](int a, int b) {
      const bool ma = masked_along(c.right, a), mb = masked_along(c.right, b);
      return ma != mb ? ma : stride(a) > stride(b);
    });
  }
  if (t.depth > 0 || t.splits > 1) {
    const auto size = [&](int a) { return spec.extents()[static_cast<size_t>(a)].exec(top); };
    const auto longest = std::ranges::max_element(order, {}, size);
    // The first one does as well if it is long enough.
    if (size(order[0]) * 4 < *std::ranges::max_element(order, {}, size) || size(order[0]) < t.splits * 2)
      std::rotate(order.begin(), longest, longest + 1);
  }
  return order;
}

}  // namespace

std::vector<const Operand*> read_by(const Factor& f) {
  std::vector<const Operand*> read;
  for (const ScalarNode& n : f.body.nodes())
    if (n.op == ScalarOp::Input) read.push_back(&f.operands[n.payload]);
  return read;
}

bool is_frozen(const KernelSpec& spec, const Factor& f) {
  const std::vector<const Operand*> read = read_by(f);
  const auto is_load = [](const Operand* o) { return o->kind == Operand::Kind::Load; };
  return std::ranges::any_of(read, is_load) && std::ranges::all_of(read, [&](const Operand* o) {
           if (o->kind == Operand::Kind::Index) return true;
           if (!is_load(o)) return false;
           const kernel::Slot& slot = spec.slots()[static_cast<size_t>(o->slot)];
           return slot.is_frozen && !is_quantized(slot.dtype);  // a copy of blocks is larger than they are
         });
}

bool masked_along(const Factor& f, int axis) {
  for (const Operand* o : read_by(f))
    for (const kernel::Mask& m : o->masks)
      if (depends_on(m.predicate, std::array{axis})) return true;
  return false;
}

std::optional<Contraction> analyse(const KernelSpec& spec) {
  Contraction c{.sum = only_sum(spec)};
  if (c.sum < 0) return std::nullopt;
  const Value& sum = spec.values()[static_cast<size_t>(c.sum)];
  c.dtype = sum.dtype();
  if (!stores_from(spec, kernel::axes_of(sum.axes))) return std::nullopt;
  const ScalarNode& root = sum.body[sum.body.outputs()[0]];
  if (!sums(c.dtype) || root.op != ScalarOp::Mul) return std::nullopt;
  const std::vector<kernel::AxisSet> axes = kernel::node_axes(sum, spec.values());
  for (const int a : sum.axes) {
    const bool left = (axes[root.operands[0].index] & kernel::axis_bit(a)) != 0;
    const bool right = (axes[root.operands[1].index] & kernel::axis_bit(a)) != 0;
    if (!left && !right) return std::nullopt;
    (left && right ? c.batch : left ? c.rows : c.columns).push_back(a);
  }
  c.summed = sum.reduced;
  if (c.rows.empty() && c.columns.empty()) return std::nullopt;
  c.left = {kernel::part_of(sum.body, root.operands[0]), sum.operands};
  c.right = {kernel::part_of(sum.body, root.operands[1]), sum.operands};
  return c;
}

Tiling tiling_of(const Parameters& p) {
  const auto get = [&](std::string_view name) {
    const auto at = p.find(name);
    LUMINAL_CHECK(at != p.end(), "contract wants {}", name);
    return at->second;
  };
  return {.swap_operands = get("swap_operands") != 0,
          .tile_m = get("tile_m"),
          .tile_n = get("tile_n"),
          .task_m = get("task_m"),
          .task_n = get("task_n"),
          .depth = get("depth"),
          .splits = get("splits"),
          .ahead = parameter_or(p, "ahead", 0),
          .pack_m = Packing{get("pack_m")},
          .pack_n = Packing{get("pack_n")}};
}

Parameters parameters_of(const Tiling& t) {
  return {{"swap_operands", t.swap_operands ? 1 : 0},
          {"tile_m", t.tile_m},
          {"tile_n", t.tile_n},
          {"task_m", t.task_m},
          {"task_n", t.task_n},
          {"depth", t.depth},
          {"splits", t.splits},
          {"ahead", t.ahead},
          {"pack_m", static_cast<int64_t>(t.pack_m)},
          {"pack_n", static_cast<int64_t>(t.pack_n)}};
}

Layout lay_out(const KernelSpec& spec, const Contraction& contraction, const Tiling& tiling,
               const DimMap& top, int lanes) {
  Layout l{.spec = &spec, .c = contraction, .t = tiling, .lanes = lanes};
  if (tiling.swap_operands) {
    std::swap(l.c.left, l.c.right);
    std::swap(l.c.rows, l.c.columns);
  }
  const auto group = [&](const std::vector<int>& axes) { return group_of(spec.extents(), axes); };
  const auto along_k = [&](const Factor& f) {
    std::vector<int> order = l.c.summed;
    std::ranges::stable_sort(
        order, [&](int a, int b) { return stride_of(f, a, spec, top) > stride_of(f, b, spec, top); });
    return neighbours(f, group(order), top);
  };
  l.batch = group(l.c.batch), l.rows = group(l.c.rows), l.columns = group(l.c.columns);
  // Lanes run where memory is contiguous for longest. Every second element is read nearly as fast, and without a square
  // to transpose.
  constexpr int64_t kEverySecond = 2;
  l.left_line = along_k(l.c.left), l.right_line = along_k(l.c.right);
  l.turned =
      tiling.pack_n != Packing::Direct && l.right_line > neighbours(l.c.right, l.columns, top, kEverySecond);
  l.lines = l.left_line >= neighbours(l.c.left, l.rows, top);
  const bool lines_packed = tiling.pack_m != Packing::Direct && l.lines && l.left_line > 0;
  l.c.summed =
      summed_order(spec, l.c, tiling, l.turned || lines_packed, l.turned ? l.c.right : l.c.left, top);
  l.summed = group(l.c.summed);
  l.m = l.rows.size(), l.n = l.columns.size(), l.k = l.summed.size();
  l.tiles = l.m.ceil_div(tiling.tile_m);
  l.panels = l.n.ceil_div(l.tile_columns());
  const Expression steps = l.summed.extents[0];
  l.inner = element_count(std::span(l.summed.extents).subspan(1));
  l.depth = tiling.depth > 0 ? Expression(tiling.depth) : steps.ceil_div(tiling.splits);
  l.blocks = steps.ceil_div(l.depth);
  if (tiling.depth == 0 && tiling.splits == 1) l.blocks = 1;
  l.task_blocks = l.blocks.ceil_div(tiling.splits);
  if (tiling.depth == 0) l.task_blocks = 1;
  const Expression& out = spec.outputs()[0].index;
  const auto contiguous_out = [&](const AxisGroup& g) {
    const auto even = evenly(out, g);
    return even && even->stride == 1;
  };
  l.columns_out = contiguous_out(l.columns) || !contiguous_out(l.rows);
  return l;
}

AxisGroup Layout::block(const Expression& from, const Expression& count) const {
  AxisGroup g = summed;
  g.first[0] = from;
  g.extents[0] = count;
  return g;
}

Expression Layout::line(const Expression& steps) const {
  // An odd number of vectors.
  return ((steps * inner).ceil_div(lanes) / 2 * 2 + 1) * lanes;
}
Expression Layout::row_tile_elements(const Expression& steps) const {
  return lines ? line(steps) * t.tile_m : steps * inner * t.tile_m;
}
Expression Layout::panel_elements(const Expression& steps) const {
  return (steps * inner).ceil_div(lanes) * lanes * tile_columns();
}

}  // namespace luminal::codegen::contract
