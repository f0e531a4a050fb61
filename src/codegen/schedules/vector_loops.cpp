#include "codegen/schedules/vector_loops.h"

#include <algorithm>

#include "base/fail.h"
#include "scalar/monoid.h"

namespace luminal::codegen {

FoldOp fold_op(Monoid monoid, Dtype dtype) {
  const Dtype in = accumulation_dtype(monoid, dtype);
  return {info(monoid).op, in, neutral_bits(monoid, in)};
}

Id fold_in(StageBuilder& b, const FoldOp& op, Id total, Id x) {
  return op.op == ScalarOp::Add ? b.add_term(total, x) : b.compute(op.op, {total, x});
}

size_t vector_axes_of(const AxisGroup& group, std::span<const Expression> formulas, int64_t least) {
  const size_t inner = even_axes(formulas, group);
  Expression size = 1;
  for (size_t k = 0; k < inner; ++k) size *= group.extents[group.axes.size() - 1 - k];
  return size.range().max < least ? group.axes.size() : inner;
}

std::vector<Id> vector_loops(StageBuilder& b, const AxisGroup& group, size_t vector_axes, int lanes,
                             int unroll, Coordinates at, std::vector<Id> carried,
                             const std::function<void(Ramp&)>& prepare, const VectorBody& body) {
  const size_t outer = group.axes.size() - vector_axes;
  const AxisGroup vector = part_of(group, outer, group.axes.size());
  const Expression size = vector.size(), full = size / (int64_t{lanes} * unroll);
  const Expression done = full * (int64_t{lanes} * unroll);
  const auto vectors = [&](std::vector<Id> values) {
    values =
        b.loop(full, LoopKind::Serial, std::move(values), [&](const Expression& i, std::span<const Id> c) {
          std::vector<Ramp> ramps;
          for (int u = 0; u < unroll; ++u) {
            const Expression start = (i * unroll + u) * lanes;
            prepare(ramps.emplace_back(b, vector, start, lanes, start + lanes));
          }
          return body(ramps, at, c);
        });
    if (size - done == Expression(0)) return values;
    return b.loop((size - done).ceil_div(lanes), LoopKind::Serial, std::move(values),
                  [&](const Expression& i, std::span<const Id> c) {
                    Ramp ramp(b, vector, done + i * lanes, lanes, size);
                    prepare(ramp);
                    return body(std::span(&ramp, 1), at, c);
                  });
  };
  const auto nest = [&](const auto& self, size_t k, std::vector<Id> values) -> std::vector<Id> {
    if (k == outer) return vectors(std::move(values));
    return b.loop(group.extents[k], LoopKind::Serial, std::move(values),
                  [&](const Expression& i, std::span<const Id> c) {
                    at[static_cast<size_t>(group.axes[k])] = group.first[k] + i;
                    return self(self, k + 1, {c.begin(), c.end()});
                  });
  };
  return nest(nest, 0, std::move(carried));
}

Id guarded(StageBuilder& b, const Ramp& ramp, const FoldOp& op, Id x) {
  x = ramp.widen(x);
  if (ramp.inside() == kNone) return x;
  return b.compute(ScalarOp::Select,
                   {ramp.inside(), x, b.constant_bits({op.dtype, ramp.lanes()}, op.neutral)});
}

std::vector<Id> fold_lanes(StageBuilder& b, const AxisGroup& group, size_t vector_axes, int lanes, int unroll,
                           const Coordinates& at, std::span<const Fold> folds,
                           const std::function<void(Ramp&)>& prepare) {
  // Side by side as many as hide the latency of one; registers hold no more.
  constexpr size_t kMostTotals = 16;
  const size_t sets = std::clamp<size_t>(kMostTotals / folds.size(), 1, static_cast<size_t>(unroll));
  std::vector<Id> totals;
  for (size_t u = 0; u < sets; ++u)
    for (const Fold& f : folds) totals.push_back(b.constant_bits({f.op.dtype, lanes}, f.op.neutral));
  totals =
      vector_loops(b, group, vector_axes, lanes, unroll, at, std::move(totals), prepare,
                   [&](std::span<const Ramp> ramps, const Coordinates& here, std::span<const Id> carried) {
                     std::vector<Id> next(carried.begin(), carried.end());
                     for (size_t u = 0; u < ramps.size(); ++u)
                       for (size_t f = 0; f < folds.size(); ++f) {
                         Id& total = next[u % sets * folds.size() + f];
                         const Id x = guarded(b, ramps[u], folds[f].op, folds[f].element(ramps[u], here));
                         total = fold_in(b, folds[f].op, total, x);
                       }
                     return next;
                   });
  std::vector<Id> results;
  for (size_t f = 0; f < folds.size(); ++f) {
    Id all = totals[f];
    for (size_t u = 1; u < sets; ++u) all = b.compute(folds[f].op.op, {all, totals[u * folds.size() + f]});
    results.push_back(b.reduce(folds[f].op.op, all));
  }
  return results;
}

}  // namespace luminal::codegen
