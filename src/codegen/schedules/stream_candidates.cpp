#include <algorithm>
#include <cmath>
#include <set>

#include "codegen/schedules/cost.h"
#include "codegen/schedules/own_axes.h"
#include "codegen/schedules/specialise.h"
#include "codegen/schedules/stream.h"
#include "kernel/axes.h"

// Which forms are worth trying, and what they should cost.
namespace luminal::codegen::stream {
namespace {

using kernel::KernelSpec;
using kernel::Operand;

double volume(const KernelSpec& spec, std::span<const int> axes, const DimMap& top) {
  double n = 1;
  for (const int a : axes)
    n *= static_cast<double>(std::max<int64_t>(1, spec.extents()[static_cast<size_t>(a)].exec(top)));
  return n;
}

/// Of the nodes of a side of value `v`: whether they change along the `walked` axes. Others are computed once.
std::vector<bool> changing(const KernelSpec& spec, const std::vector<int>& walked, int v,
                           const ScalarFunction& side) {
  const std::vector<Operand>& operands = spec.values()[static_cast<size_t>(v)].operands;
  const kernel::AxisSet axes = kernel::axes_of(walked);
  std::vector<bool> changes;
  for (const ScalarNode& n : side.nodes()) {
    bool any = n.op == ScalarOp::Input && (n.payload >= operands.size() ||
                                           (kernel::axes_of(operands[n.payload], spec.values()) & axes) != 0);
    for (int k = 0; k < arity(n.op); ++k) any = any || changes[n.operands[static_cast<size_t>(k)].index];
    changes.push_back(any);
  }
  return changes;
}

/// What a side reads and computes at each position, in cycles: an element for all rows, or one for each. What lies
/// apart from row to row but side by side along the `walked` axes is in the first cache when the next position asks
/// for it.
double side_cycles(const KernelSpec& spec, const Stream& s, const std::vector<int>& walked, int v,
                   const ScalarFunction& side, int lanes) {
  const AxisGroup rows = group_of(spec.extents(), s.rows), along = group_of(spec.extents(), walked);
  const std::vector<Operand>& operands = spec.values()[static_cast<size_t>(v)].operands;
  const std::vector<bool> changes = changing(spec, walked, v, side);
  double cycles = 0;
  for (size_t i = 0; i < changes.size(); ++i) {
    const ScalarNode& n = side.nodes()[i];
    if (!changes[i]) continue;
    cycles += node_cycles(n.op);
    if (n.op != ScalarOp::Input) continue;
    if (n.payload >= operands.size()) {
      cycles += 0.5;
      continue;
    }
    const Operand& o = operands[n.payload];
    const auto even = evenly(o.index, along);
    const double most = o.kind == Operand::Kind::Load && even && even->stride == 1 ? lanes : 4.0 * lanes;
    cycles += std::min(load_cycles(spec, o, rows, lanes), most + 2.0 * static_cast<double>(o.masks.size()));
  }
  return cycles;
}

/// Cycles of one task.
double task_cycles(const KernelSpec& spec, const Stream& s, const StreamForm& form, int lanes,
                   const DimMap& top) {
  const double length = volume(spec, s.streamed, top), vectors = static_cast<double>(form.vectors);
  // Two vectors of products are added a cycle, but for what is read and stored with them. A side that all rows
  // share is read beside the additions, one that varies takes its time in each vector.
  constexpr double kShare = 0.8;
  const double tile = static_cast<double>(form.tile);
  const double step = std::max(vectors / 2, 0.62 * (tile + vectors) / tile) / kShare;
  const auto products = [&](double times, int v, const ScalarFunction& side, bool varies) {
    const double read = side_cycles(spec, s, s.streamed, v, side, lanes);
    return times * (step + (varies ? vectors * read : std::max(0.0, read - 0.5)));
  };
  double cycles = 0, each = 0;
  for (const Inner& i : s.inner) {
    cycles += products(length * volume(spec, i.summed, top), i.value, i.read, i.read_varies);
    cycles += volume(spec, i.summed, top) * vectors *
              (1 + side_cycles(spec, s, i.summed, i.value, i.packed, lanes));
  }
  for (const Fold& f : s.folds) each += 1 + side_cycles(spec, s, s.streamed, f.value, f.terms, lanes);
  // A weight is mostly what a fold has computed.
  if (s.folds.empty() || !s.folds.back().online)
    for (const Columns& c : s.columns) each += 1 + side_cycles(spec, s, s.streamed, c.value, c.weight, lanes);
  cycles += length * vectors * each;
  for (const Columns& c : s.columns) {
    const double size = volume(spec, c.axes, top);
    cycles += products(length * size, c.value, c.read, c.read_varies);
    cycles += size * vectors * lanes;  // an element of each row
  }
  return cycles * static_cast<double>(form.panels);
}

/// Vectors along the axes.
double vectors_along(const KernelSpec& spec, const std::vector<int>& axes, int lanes, const DimMap& top) {
  return std::ceil(volume(spec, axes, top) / lanes);
}

/// Cycles of loading and computing a vector of a side with lanes along the `axes`.
double vector_cycles(const KernelSpec& spec, int v, const ScalarFunction& side, const std::vector<int>& axes,
                     int lanes) {
  const AxisGroup group = group_of(spec.extents(), axes);
  const std::vector<Operand>& operands = spec.values()[static_cast<size_t>(v)].operands;
  double cycles = body_cycles(side);
  for (const ScalarNode& n : side.nodes())
    if (n.op == ScalarOp::Input && n.payload < operands.size())
      cycles += load_cycles(spec, operands[n.payload], group, lanes);
  return cycles;
}

/// Of all rows of a task's batch over the whole stream, in cycles.
double few_rows_cycles(const KernelSpec& spec, const Stream& s, int lanes, const DimMap& top) {
  // A multiplication and addition takes half a cycle, what feeds it nearly as long; a sum across lanes is two
  // shuffles and an addition for each.
  constexpr double kEach = 0.55, kAcross = 2.5;
  const double length = volume(spec, s.streamed, top);
  double each = 0;
  for (const Inner& i : s.inner) {
    const double read = vector_cycles(spec, i.value, i.read, i.summed, lanes);
    each += vectors_along(spec, i.summed, lanes, top) * (kEach + std::max(0.0, read - 0.5)) + kAcross;
  }
  double folded = 0;
  for (const Fold& f : s.folds) folded += 1 + vector_cycles(spec, f.value, f.terms, s.streamed, lanes);
  for (const Columns& c : s.columns) {
    folded += 1 + vector_cycles(spec, c.value, c.weight, s.streamed, lanes);
    const double read = vector_cycles(spec, c.value, c.read, c.axes, lanes);
    each += vectors_along(spec, c.axes, lanes, top) * (kEach + std::max(0.0, read - 0.5));
  }
  return length * volume(spec, s.rows, top) * (each + folded / lanes);
}

void add_few_rows(const KernelSpec& spec, const Bucket& bucket, const Target& target,
                  std::vector<Candidate>& found) {
  const auto s = stream_of(spec, Lanes::Columns);
  if (!s || !takes_few_rows(spec, *s)) return;
  const DimMap top = bucket.top();
  const int lanes = target.lanes(static_cast<int>(element_bytes(s->dtype)));
  const double batch = volume(spec, s->batch, top), length = volume(spec, s->streamed, top);
  const double cycles = batch * few_rows_cycles(spec, *s, lanes, top);
  const std::set<int64_t> parts{1, target.threads, 4 * int64_t{target.threads}};
  for (const int64_t splits : parts) {
    if (splits > 1 && length < 64.0 * static_cast<double>(splits)) continue;
    const double tasks = batch * static_cast<double>(splits);
    const double merging = tasks * volume(spec, s->rows, top) * 100;
    const double us =
        roofline_of(spec, top, target).us(cycles * unevenness(tasks, target.threads) + merging, 2);
    found.push_back({{{"splits", splits}, {"block", 256}}, us});
  }
}

}  // namespace

std::vector<Candidate> stream_candidates(const KernelSpec& original, const Bucket& bucket,
                                         const Target& target) {
  const KernelSpec spec = with_own_axes(specialised(original, bucket));
  const auto s = stream_of(spec);
  if (!s || target.lanes(8) < 2) return {};
  const DimMap top = bucket.top();
  const int lanes = target.lanes(static_cast<int>(element_bytes(s->dtype)));
  const bool many_registers = target.vector_registers >= 32;
  const double rows = volume(spec, s->rows, top), batch = volume(spec, s->batch, top);
  const Roofline roofline = roofline_of(spec, top, target);
  std::vector<Candidate> found;
  for (const int64_t vectors : {2, 1})
    for (const int64_t panels : {4, 2, 1}) {
      const int64_t width = vectors * lanes;
      if (panels > 1 && static_cast<double>((panels - 1) * width) >= rows) continue;
      const int64_t tile = (many_registers ? 16 : 12) / 2;
      const StreamForm form{vectors, tile, panels, many_registers ? 256 : 64};
      const double tasks = batch * std::ceil(rows / static_cast<double>(panels * width));
      const double cycles =
          tasks * task_cycles(spec, *s, form, lanes, top) * unevenness(tasks, target.threads);
      found.push_back({{{"vectors", vectors}, {"tile", tile}, {"panels", panels}, {"block", form.block}},
                       roofline.us(cycles, 1)});
    }
  add_few_rows(spec, bucket, target, found);
  std::ranges::stable_sort(found, {}, &Candidate::predicted_us);
  return found;
}

}  // namespace luminal::codegen::stream
