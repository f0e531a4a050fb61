#include <algorithm>
#include <array>
#include <cmath>

#include "base/fail.h"
#include "codegen/schedules/cost.h"
#include "codegen/schedules/families.h"
#include "codegen/schedules/outputs.h"
#include "codegen/schedules/specialise.h"
#include "codegen/schedules/task_grid.h"
#include "codegen/schedules/vector_loops.h"

// Reductions: one or several values folded over the same axes, elementwise bodies before, elementwise values
// after them.
namespace luminal::codegen {
namespace {

using kernel::KernelSpec;
using kernel::Operand;
using kernel::Value;

struct Reduction {
  std::vector<int> values;  ///< the folded ones
  std::vector<int> axes, reduced;
};

bool reads_fold(const KernelSpec& spec, int v) {
  return std::ranges::any_of(spec.values()[static_cast<size_t>(v)].operands, [&](const Operand& o) {
    return o.kind == Operand::Kind::Value &&
           (spec.values()[static_cast<size_t>(o.value)].monoid || reads_fold(spec, o.value));
  });
}

std::optional<Reduction> analyse(const KernelSpec& spec) {
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

/// Of the reduced axes those, counted from the innermost, along which lanes run.
size_t axes_of_lanes(const KernelSpec& spec, const Reduction& r, const AxisGroup& reduced, int lanes) {
  std::vector<Expression> loads;
  for (const int v : r.values)
    for (const Operand& o : spec.values()[static_cast<size_t>(v)].operands)
      if (o.kind == Operand::Kind::Load) loads.push_back(o.index);
  return vector_axes_of(reduced, loads, int64_t{2} * lanes);
}

/// The parameters: `along` 1 puts lanes along the reduced axes, 0 along the others; `unroll` accumulators (or
/// vectors of results) side by side; `rows` results together (along 1); `task` such groups in a task;
/// `splits` tasks that share a result. `inner` (along 0) axes of results hold the vectors, 0 for all of them. `held` (along 0) reduced positions, 0 for all of them, are folded
/// into one group before the next group's turn: totals wait in memory, and a task walks through its part of
/// the tensor row by row as it lies there.
struct ReduceForm {
  int64_t along = 1, unroll = 4, rows = 1, task = 1, splits = 1, held = 0, inner = 0;

  static ReduceForm of(const Parameters& p) {
    return {p.at("along"),
            p.at("unroll"),
            p.at("rows"),
            p.at("task"),
            p.at("splits"),
            parameter_or(p, "held", 0),
            parameter_or(p, "inner", 0)};
  }
  [[nodiscard]] Parameters parameters() const {
    return {{"along", along},   {"unroll", unroll}, {"rows", rows},  {"task", task},
            {"splits", splits}, {"held", held},     {"inner", inner}};
  }
  friend bool operator==(const ReduceForm&, const ReduceForm&) = default;
};

class ReduceLowering {
 public:
  ReduceLowering(const KernelSpec& spec, Reduction reduction, ReduceForm form, const DimMap& top,
                 const Target& target)
      : spec_(spec), r_(std::move(reduction)), form_(form), program_(program_for(spec, "reduce")) {
    int widest = 1;
    for (const int v : r_.values) {
      const Value& value = spec.values()[static_cast<size_t>(v)];
      ops_.push_back(fold_op(*value.monoid, value.dtype()));
      widest = std::max(widest, static_cast<int>(element_bytes(ops_.back().dtype)));
    }
    lanes_ = target.lanes(widest);
    std::ranges::stable_sort(
        r_.reduced, [&](int a, int b) { return stride_of(spec, r_, a, top) > stride_of(spec, r_, b, top); });
    if (form.splits > 1 && spec.extents()[static_cast<size_t>(r_.reduced[0])].exec(top) < form.splits)
      std::ranges::rotate(r_.reduced, std::ranges::max_element(r_.reduced, {}, [&](int a) {
                            return spec.extents()[static_cast<size_t>(a)].exec(top);
                          }));
    results_ = group_of(spec.extents(), r_.axes);
    reduced_ = group_of(spec.extents(), r_.reduced);
  }

  Program lower() {
    count_ = results_.size();
    if (form_.splits > 1)
      for (const FoldOp& op : ops_)
        parts_.push_back(add_buffer(program_, {.name = fmt::format("part{}", parts_.size()),
                                               .space = Space::Shared,
                                               .dtype = op.dtype,
                                               .elements = count_ * form_.splits}));
    if (form_.along != 0)
      along_reduced();
    else if (form_.inner != 0)
      along_inner();
    else
      form_.held != 0 ? along_rows() : along_results();
    if (form_.splits > 1) join();
    return std::move(program_);
  }

 private:
  /// The reduced positions of one split.
  [[nodiscard]] AxisGroup share(const Expression& split) const {
    AxisGroup g = reduced_;
    if (form_.splits == 1) return g;
    const Expression chunk = reduced_.extents[0].ceil_div(form_.splits);
    g.first[0] = split * chunk;
    g.extents[0] = chunk.min(reduced_.extents[0] - g.first[0]).max(0);
    return g;
  }

  void prepare_fold(Ramp& ramp) const {
    for (size_t v = 0; v < spec_.values().size(); ++v)
      if (!reads_fold(spec_, static_cast<int>(v)))
        for (const Operand& o : spec_.values()[v].operands) ramp.prepare(o);
  }

  Id element(StageBuilder& b, size_t f, const Ramp& ramp, const Coordinates& at) const {
    const Value& value = spec_.values()[static_cast<size_t>(r_.values[f])];
    std::map<int, Id> known;
    return b.convert(ramp.evaluate(spec_, value.body, value.operands, at, known), ops_[f].dtype);
  }

  void write(StageBuilder& b, const Ramp& ramp, const Coordinates& at, std::span<const Id> totals) const {
    std::map<int, Id> known;
    for (size_t f = 0; f < r_.values.size(); ++f) {
      const int v = r_.values[f];
      known[v] = b.convert(totals[f], spec_.values()[static_cast<size_t>(v)].dtype());
    }
    store_outputs_from(b, spec_, kernel::axes_of(r_.axes), ramp, at, known);
  }

  void prepare_write(Ramp& ramp) const {
    for (const Value& value : spec_.values())
      if (!value.monoid)
        for (const Operand& o : value.operands) ramp.prepare(o);
    for (const kernel::Output& o : spec_.outputs()) ramp.prepare(o.index);
  }

  void along_reduced() {
    const Expression groups = count_.ceil_div(form_.rows), tasks = groups.ceil_div(form_.task);
    StageBuilder b(program_, tasks * form_.splits);
    const Expression split = b.task() % form_.splits, task = b.task() / form_.splits;
    const AxisGroup range = share(split);
    const size_t vector_axes = axes_of_lanes(spec_, r_, range, lanes_);
    b.loop((groups - task * form_.task).min(form_.task), LoopKind::Serial, [&](const Expression& g) {
      fold_rows(b, (task * form_.task + g) * form_.rows, range, vector_axes, split);
    });
    b.finish();
  }

  /// The results at `first` and behind it, together: what they all read is loaded once.
  void fold_rows(StageBuilder& b, const Expression& first, const AxisGroup& range, size_t vector_axes,
                 const Expression& split) {
    std::vector<Fold> folds;
    std::vector<Coordinates> rows;
    const bool whole = count_ % form_.rows == Expression(0);
    for (int64_t row = 0; row < form_.rows; ++row) {
      Coordinates at(spec_.extents().size(), 0);
      results_.place(whole ? first + row : (first + row).min(count_ - 1), at);
      for (size_t f = 0; f < ops_.size(); ++f)
        folds.push_back({ops_[f], [this, &b, f, at](const Ramp& ramp, const Coordinates& here) {
                           Coordinates c = here;
                           for (const int a : r_.axes) c[static_cast<size_t>(a)] = at[static_cast<size_t>(a)];
                           return element(b, f, ramp, c);
                         }});
      rows.push_back(std::move(at));
    }
    const std::vector<Id> totals = fold_lanes(b, range, vector_axes, lanes_, static_cast<int>(form_.unroll),
                                              rows[0], folds, [&](Ramp& ramp) { prepare_fold(ramp); });
    for (int64_t row = 0; row < form_.rows; ++row) {
      const std::span mine = std::span(totals).subspan(static_cast<size_t>(row) * ops_.size(), ops_.size());
      const auto out = [&] {
        if (form_.splits > 1)
          for (size_t f = 0; f < mine.size(); ++f) b.store(parts_[f], split * count_ + first + row, mine[f]);
        else
          write(b, Ramp(b), rows[static_cast<size_t>(row)], mine);
      };
      if (whole || row == 0)
        out();
      else
        b.if_true(b.compute(ScalarOp::Lt, {b.index(first + row), b.index(count_)}), out);
    }
  }

  /// Vectors of results; loops over the reduced positions carry their totals.
  void along_results() {
    const int64_t width = lanes_ * form_.unroll;
    const Expression groups = count_.ceil_div(width), tasks = groups.ceil_div(form_.task);
    StageBuilder b(program_, tasks * form_.splits);
    const Expression split = b.task() % form_.splits, task = b.task() / form_.splits;
    const AxisGroup range = share(split);
    b.loop((groups - task * form_.task).min(form_.task), LoopKind::Serial, [&](const Expression& g) {
      const Expression first = (task * form_.task + g) * width;
      std::vector<Ramp> ramps;
      std::vector<Id> totals;
      for (int64_t v = 0; v < form_.unroll; ++v) {
        Ramp& ramp = ramps.emplace_back(b, results_, first + v * lanes_, lanes_, count_);
        prepare_fold(ramp);
        prepare_write(ramp);
        for (const FoldOp& op : ops_) totals.push_back(b.constant_bits({op.dtype, lanes_}, op.neutral));
      }
      totals = fold_nest(b, range, ramps, std::move(totals), Coordinates(spec_.extents().size(), 0));
      for (size_t v = 0; v < ramps.size(); ++v) {
        finish_group(b, ramps[v], split, std::span(totals).subspan(v * ops_.size(), ops_.size()));
      }
    });
    b.finish();
  }

  /// Vectors along the innermost axes of the results, row by row: what the others alone index is one element.
  void along_inner() {
    const size_t outer = r_.axes.size() - static_cast<size_t>(form_.inner);
    TaskGrid grid{.outer = part_of(results_, 0, outer),
                  .inner = part_of(results_, outer, r_.axes.size()),
                  .width = lanes_ * form_.unroll,
                  .blocks_per_task = form_.task};
    StageBuilder b(program_, grid.tasks());
    grid.visit(
        b, spec_.extents().size(), [](const Coordinates&) {},
        [&](const Coordinates& at, const Expression& start) {
          std::vector<Ramp> ramps;
          std::vector<Id> totals;
          for (int64_t v = 0; v < form_.unroll; ++v) {
            Ramp& ramp = ramps.emplace_back(b, grid.inner, start + v * lanes_, lanes_, grid.inner.size());
            prepare_fold(ramp);
            prepare_write(ramp);
            for (const FoldOp& op : ops_) totals.push_back(b.constant_bits({op.dtype, lanes_}, op.neutral));
          }
          totals = fold_nest(b, reduced_, ramps, std::move(totals), at);
          for (size_t v = 0; v < ramps.size(); ++v)
            write(b, ramps[v], at, std::span(totals).subspan(v * ops_.size(), ops_.size()));
        });
    b.finish();
  }

  /// Vectors of results whose totals are in memory; `held` reduced positions at a time pass over all of them.
  void along_rows() {
    const int64_t width = lanes_ * form_.unroll;
    const Expression groups = count_.ceil_div(width), tasks = groups.ceil_div(form_.task);
    std::vector<int> totals;
    for (const FoldOp& op : ops_)
      totals.push_back(add_buffer(program_, {.name = fmt::format("total{}", totals.size()),
                                             .space = Space::Local,
                                             .dtype = op.dtype,
                                             .elements = form_.task * width}));
    StageBuilder b(program_, tasks * form_.splits);
    const Expression split = b.task() % form_.splits, task = b.task() / form_.splits;
    const Expression mine = (groups - task * form_.task).min(form_.task);
    for (size_t f = 0; f < ops_.size(); ++f) {
      const Id neutral = b.constant_bits({ops_[f].dtype, lanes_}, ops_[f].neutral);
      b.loop(mine * form_.unroll, LoopKind::Serial,
             [&](const Expression& v) { b.store(totals[f], v * lanes_, neutral); });
    }
    const AxisGroup range = share(split);
    const auto pass = [&](Coordinates at, const Expression& from, int64_t steps) {
      const auto last = static_cast<size_t>(range.axes.back());
      const Expression first = range.first.back() + from;
      b.loop(mine, LoopKind::Serial, [&](const Expression& g) {
        for (int64_t v = 0; v < form_.unroll; ++v) {
          const Expression place = g * width + v * lanes_;
          Ramp ramp(b, results_, task * form_.task * width + place, lanes_, count_);
          prepare_fold(ramp);
          for (size_t f = 0; f < ops_.size(); ++f) {
            Id total = b.load(totals[f], place, lanes_);
            for (int64_t k = 0; k < steps; ++k) {
              at[last] = first + k;
              total = b.compute(ops_[f].op, {total, ramp.widen(element(b, f, ramp, at))});
            }
            b.store(totals[f], place, total);
          }
        }
      });
    };
    walk_rows(b, range, pass);
    b.loop(mine, LoopKind::Serial, [&](const Expression& g) {
      for (int64_t v = 0; v < form_.unroll; ++v) {
        const Expression place = g * width + v * lanes_;
        Ramp ramp(b, results_, task * form_.task * width + place, lanes_, count_);
        prepare_write(ramp);
        std::vector<Id> sums;
        for (const int buffer : totals) sums.push_back(b.load(buffer, place, lanes_));
        finish_group(b, ramp, split, sums);
      }
    });
    b.finish();
  }

  /// Calls pass(at, from, steps) for `held` positions of the innermost reduced axis at a time, then for those
  /// left over one by one.
  void walk_rows(StageBuilder& b, const AxisGroup& range,
                 const std::function<void(Coordinates, const Expression&, int64_t)>& pass) const {
    Coordinates at(spec_.extents().size(), 0);
    const auto nest = [&](const auto& self, size_t k) -> void {
      if (k + 1 < range.axes.size()) {
        b.loop(range.extents[k], LoopKind::Serial, [&](const Expression& i) {
          at[static_cast<size_t>(range.axes[k])] = range.first[k] + i;
          self(self, k + 1);
        });
        return;
      }
      const Expression extent = range.extents[k], full = extent / form_.held;
      b.loop(full, LoopKind::Serial, [&](const Expression& i) { pass(at, i * form_.held, form_.held); });
      if (extent % form_.held == Expression(0)) return;
      b.loop(extent - full * form_.held, LoopKind::Serial,
             [&](const Expression& i) { pass(at, full * form_.held + i, 1); });
    };
    nest(nest, 0);
  }

  /// What becomes of a vector of totals at the end of a task.
  void finish_group(StageBuilder& b, const Ramp& ramp, const Expression& split,
                    std::span<const Id> totals) const {
    if (form_.splits == 1) return write(b, ramp, Coordinates(spec_.extents().size(), 0), totals);
    for (size_t f = 0; f < totals.size(); ++f)
      b.store(parts_[f], split * count_ + ramp.start(), totals[f], 1, ramp.inside());
  }

  std::vector<Id> fold_nest(StageBuilder& b, const AxisGroup& range, std::span<const Ramp> ramps,
                            std::vector<Id> totals, Coordinates at) const {
    const auto nest = [&](const auto& self, size_t k, std::vector<Id> carried) -> std::vector<Id> {
      if (k < range.axes.size())
        return b.loop(range.extents[k], is_window(range, k) ? LoopKind::Unrolled : LoopKind::Serial,
                      std::move(carried), [&](const Expression& i, std::span<const Id> c) {
                        at[static_cast<size_t>(range.axes[k])] = range.first[k] + i;
                        return self(self, k + 1, {c.begin(), c.end()});
                      });
      for (size_t v = 0; v < ramps.size(); ++v)
        for (size_t f = 0; f < ops_.size(); ++f) {
          Id& total = carried[v * ops_.size() + f];
          total = b.compute(ops_[f].op, {total, ramps[v].widen(element(b, f, ramps[v], at))});
        }
      return carried;
    };
    return nest(nest, 0, std::move(totals));
  }

  /// A few elements from axis `k` on, and few vectors of results to repeat them for.
  [[nodiscard]] bool is_window(const AxisGroup& range, size_t k) const {
    constexpr int64_t kMost = 16;
    const Expression size = part_of(range, k, range.axes.size()).size();
    return size.constant() && *size.constant() * form_.unroll <= kMost;
  }

  /// Folds what the splits left.
  void join() {
    const int lanes = r_.axes.empty() ? 1 : lanes_;
    StageBuilder b(program_, count_.ceil_div(lanes));
    const Expression first = b.task() * lanes;
    Ramp ramp = r_.axes.empty() ? Ramp(b) : Ramp(b, results_, first, lanes, count_);
    prepare_write(ramp);
    std::vector<Id> totals;
    for (const FoldOp& op : ops_) totals.push_back(b.constant_bits({op.dtype, lanes}, op.neutral));
    totals = b.loop(form_.splits, LoopKind::Serial, std::move(totals),
                    [&](const Expression& split, std::span<const Id> carried) {
                      std::vector<Id> next;
                      for (size_t f = 0; f < ops_.size(); ++f) {
                        const Id part = b.load(parts_[f], split * count_ + first, lanes, 1, ramp.inside());
                        next.push_back(b.compute(ops_[f].op, {carried[f], part}));
                      }
                      return next;
                    });
    write(b, ramp, Coordinates(spec_.extents().size(), 0), totals);
    b.finish();
  }

  const KernelSpec& spec_;
  Reduction r_;
  ReduceForm form_;
  Program program_;
  std::vector<FoldOp> ops_;
  int lanes_ = 8;
  AxisGroup results_, reduced_;
  Expression count_ = 1;
  std::vector<int> parts_;
};

/// Cycles for a vector of elements: operations, and loads that are dearer where lanes are apart.
double vector_cycles(const KernelSpec& spec, const Reduction& r, const AxisGroup& lanes_along, int lanes,
                     int64_t shared) {
  double cycles = 0;
  for (const int v : r.values) {
    const Value& value = spec.values()[static_cast<size_t>(v)];
    cycles += body_cycles(spec, value, kernel::axes_of(r.reduced)) + 0.5;
    for (const Operand& o : value.operands)
      cycles += load_cycles(o, lanes_along, lanes) / (depends_on(o.index, r.axes) ? 1 : double(shared));
  }
  return cycles;
}

/// Candidates with their predictions.
class ReduceCandidates {
 public:
  ReduceCandidates(const KernelSpec& spec, const Reduction& r, const DimMap& top, const Target& target)
      : spec_(spec),
        r_(r),
        target_(target),
        lanes_(target.lanes(4)),
        results_(size(r.axes, top)),
        reduced_(size(r.reduced, top)),
        roofline_(roofline_of(spec, top, target)),
        inner_(group_of(spec.extents(), r.reduced)),
        outer_(group_of(spec.extents(), r.axes)) {
    for (const int a : r.axes) extents_.push_back(spec.extents()[static_cast<size_t>(a)].exec(top));
    for (const kernel::Output& o : spec.outputs())
      if (spec.values()[static_cast<size_t>(o.value)].axes.size() > r.axes.size())
        further_ += static_cast<double>(o.elements.exec(top));
    const size_t axes = inner_.axes.size();
    inner_ = part_of(inner_, axes - axes_of_lanes(spec, r, inner_, lanes_), axes);
    for (const int v : r.values)
      for (const Operand& o : spec.values()[static_cast<size_t>(v)].operands)
        if (o.kind == Operand::Kind::Load && depends_on(o.index, r.axes) && depends_on(o.index, r.reduced))
          if (const auto even = evenly(o.index, outer_); even && even->stride == 1) {
            row_ = std::max(row_, even->size.exec(top));
            element_ = element_bytes(o.dtype);
          }
  }

  std::vector<Candidate> all() {
    for (const int64_t splits : {int64_t{1}, int64_t{target_.threads}, int64_t{8} * target_.threads}) {
      if (splits > 1 && reduced_ < 64 * splits) continue;
      if (splits == 1 || results_ <= int64_t{1024} * target_.threads) {
        along_reduced(splits);
        if (!r_.axes.empty()) along_results(splits);
      }
      if (results_ >= 2 * lanes_ && reduced_ >= 2 * kHeld * splits) along_rows(splits);
    }
    along_inner();
    constexpr size_t kMost = 10;
    std::ranges::stable_sort(found_, {}, &Predicted::us);
    if (found_.size() > kMost) found_.resize(kMost);
    std::vector<Candidate> candidates;
    for (const auto& [form, us] : found_) candidates.push_back({form.parameters(), us});
    return candidates;
  }

 private:
  static constexpr int64_t kHeld = 8;  ///< rows that share one trip of a total through memory

  [[nodiscard]] int64_t size(const std::vector<int>& axes, const DimMap& top) const {
    int64_t n = 1;
    for (const int a : axes) n *= spec_.extents()[static_cast<size_t>(a)].exec(top);
    return n;
  }
  /// Results along the `inner` innermost axes.
  [[nodiscard]] int64_t columns_of(int64_t inner) const {
    int64_t n = 1;
    for (int64_t k = 1; k <= inner; ++k) n *= extents_[extents_.size() - static_cast<size_t>(k)];
    return n;
  }
  [[nodiscard]] double groups_of(int64_t group) const {
    return std::ceil(static_cast<double>(results_) / static_cast<double>(group));
  }

  /// One row is one stream, as memory delivers it best; several rows share what they all read.
  void along_reduced(int64_t splits) {
    for (const int64_t rows : {1, 4}) {
      if (rows > results_) continue;
      const double per = vector_cycles(spec_, r_, inner_, lanes_, rows);
      const double vectors =
          static_cast<double>(results_) * std::ceil(static_cast<double>(reduced_) / lanes_);
      const bool streams = rows > 1 && roofline_.bytes > static_cast<double>(target_.l3_bytes) / 2;
      for (const int64_t unroll : {4, 1})
        if (unroll == 1 || reduced_ >= int64_t{4} * lanes_)
          consider({.along = 1, .unroll = unroll, .rows = rows, .splits = splits},
                   vectors * std::max(per, 4.0 / double(unroll * rows)) + double(results_ * splits) * 8,
                   streams ? 1.2 : 1);
    }
  }

  void along_results(int64_t splits) {
    const double per = vector_cycles(spec_, r_, outer_, lanes_, 1);
    for (const int64_t vectors : {1, 4, 8}) {
      if (vectors > 1 && (vectors - 1) * lanes_ >= results_) continue;
      consider({.along = 0, .unroll = vectors, .splits = splits},
               groups_of(lanes_) * static_cast<double>(reduced_) * std::max(per, 4.0 / double(vectors)),
               slow(vectors * lanes_));
    }
  }

  /// As `nest` does: worth it where a vector along all results would gather.
  void along_inner() {
    for (size_t inner = 1; inner < r_.axes.size(); ++inner) {
      const size_t at = r_.axes.size() - inner;
      const auto columns = static_cast<double>(columns_of(static_cast<int64_t>(inner)));
      const double per = vector_cycles(spec_, r_, part_of(outer_, at, r_.axes.size()), lanes_, 1);
      const double rows = static_cast<double>(results_) / std::max(1.0, columns);
      for (const int64_t vectors : {1, 4}) {
        if (vectors > 1 && static_cast<double>((vectors - 1) * lanes_) >= columns) continue;
        const double blocks = std::ceil(columns / static_cast<double>(lanes_));
        consider(
            {.along = 0, .unroll = vectors, .inner = static_cast<int64_t>(inner)},
            rows * (6 + blocks * (2 + static_cast<double>(reduced_) * std::max(per, 4.0 / double(vectors)))),
            1);
      }
    }
  }

  /// Totals that wait in memory take no more than half the first cache, or some of the second, from where they
  /// come more slowly but let a task read longer pieces of memory.
  void along_rows(int64_t splits) {
    constexpr int64_t kUnroll = 2;
    const int64_t width = kUnroll * lanes_, groups = static_cast<int64_t>(groups_of(width));
    const auto bytes = static_cast<int64_t>(static_cast<size_t>(width) * r_.values.size() * sizeof(float));
    const int64_t near = std::max<int64_t>(1, target_.l1_bytes / 2 / bytes);
    const double each = vector_cycles(spec_, r_, outer_, lanes_, 1);
    for (const int64_t most : {near, std::max(near, target_.l2_bytes / 8 / bytes)})
      for (const int64_t parts : {int64_t{1}, int64_t{target_.threads}, int64_t{4} * target_.threads}) {
        const int64_t task = std::min(most, (groups + parts - 1) / parts);
        const double per = each + (task > near ? 3.0 : 1.5) / kHeld;
        consider({.along = 0, .unroll = kUnroll, .task = task, .splits = splits, .held = kHeld},
                 groups_of(lanes_) * static_cast<double>(reduced_) * per, slow(task * width));
      }
  }

  /// For tasks that read `results` neighbours from each row.
  [[nodiscard]] double slow(int64_t results) const {
    if (reduced_ == 1 || results >= row_) return 1;
    const bool near = roofline_.bytes < static_cast<double>(target_.l2_bytes);
    return near ? 1.1 : scattered(static_cast<double>(results * element_));
  }

  void consider(ReduceForm f, double cycles, double slow) {
    cycles += 2 * further_ / (f.along != 0 ? 1 : lanes_);
    const int64_t group = f.along != 0 ? f.rows : f.unroll * lanes_;
    const int64_t row = f.inner == 0 ? results_ : columns_of(f.inner);
    const int64_t groups = results_ / std::max<int64_t>(1, row) * ((row + group - 1) / group);
    if (f.held == 0)
      f.task = std::clamp<int64_t>(
          groups / (8 * target_.threads), 1,
          std::max<int64_t>(1, 32768 / std::max<int64_t>(1, reduced_ * group / f.splits)));
    if (std::ranges::find(found_, f, &Predicted::form) != found_.end()) return;
    // A tensor without elements takes no task, and as long as one.
    const auto tasks = static_cast<double>(std::max<int64_t>(1, (groups + f.task - 1) / f.task) * f.splits);
    const double threads = target_.threads, busy = tasks / (std::ceil(tasks / threads) * threads);
    const double us = roofline_.us(cycles / busy, f.splits > 1 ? 2 : 1, slow / busy);
    found_.push_back({f, us});
  }

  const KernelSpec& spec_;
  const Reduction& r_;
  const Target& target_;
  int lanes_;
  int64_t results_, reduced_;
  Roofline roofline_;
  AxisGroup inner_;  ///< reduced axes along which lanes may run
  AxisGroup outer_;
  std::vector<int64_t> extents_;  ///< of the results' axes
  double further_ = 0;            ///< elements of outputs that have more axes
  int64_t row_ = 1;               ///< results that lie side by side in the tensor
  int64_t element_ = 4;           ///< bytes there
  struct Predicted {
    ReduceForm form;
    double us = 0;
  };
  std::vector<Predicted> found_;
};

std::vector<Candidate> reduce_candidates(const KernelSpec& original, const Bucket& bucket,
                                         const Target& target) {
  const KernelSpec spec = specialised(original, bucket);
  const auto r = analyse(spec);
  if (!r || target.lanes(8) < 2) return {};
  return ReduceCandidates(spec, *r, bucket.top(), target).all();
}

Program reduce_lower(const KernelSpec& original, const Parameters& p, const Bucket& bucket,
                     const Target& target) {
  const KernelSpec spec = specialised(original, bucket);
  const auto r = analyse(spec);
  LUMINAL_CHECK(r, "no reduction: {}", spec.to_string());
  return ReduceLowering(spec, *r, ReduceForm::of(p), bucket.top(), target).lower();
}

}  // namespace

const Schedule& reduce_schedule() {
  static const Schedule schedule{.name = "reduce",
                                 .doc =
                                     "Values folded over one set of axes, with elementwise bodies and "
                                     "whatever is computed from the results. "
                                     "Lanes run along the reduced axes or along the results, several "
                                     "accumulators hide latency, results that "
                                     "read the same data are folded together (matrix times vector), totals "
                                     "wait in memory while rows stream by, and few "
                                     "results are shared by several tasks.",
                                 .candidates = reduce_candidates,
                                 .lower = reduce_lower};
  return schedule;
}

}  // namespace luminal::codegen
