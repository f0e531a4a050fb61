#include "codegen/schedules/reduce.h"

#include <algorithm>
#include <functional>

#include "base/fail.h"
#include "codegen/schedules/families.h"
#include "codegen/schedules/interior.h"
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

class ReduceLowering {
 public:
  ReduceLowering(const KernelSpec& spec, Reduction reduction, ReduceForm form, const DimMap& top,
                 const Target& target)
      : spec_(spec),
        r_(std::move(reduction)),
        form_(form),
        top_(top),
        program_(program_for(spec, "reduce")),
        ops_(fold_ops(spec, r_)) {
    int widest = 1;
    for (const FoldOp& op : ops_) widest = std::max(widest, static_cast<int>(element_bytes(op.dtype)));
    lanes_ = target.lanes(widest);
    r_.reduced = reduced_by_stride(spec, r_, top);
    if (form.splits > 1 && spec.extents()[static_cast<size_t>(r_.reduced[0])].exec(top) < form.splits)
      std::ranges::rotate(r_.reduced, std::ranges::max_element(r_.reduced, {}, [&](int a) {
                            return spec.extents()[static_cast<size_t>(a)].exec(top);
                          }));
    results_ = group_of(spec.extents(), r_.axes);
    const std::vector<int> shared = form_.across > 1 ? shared_axes(spec, r_, top) : std::vector<int>{};
    LUMINAL_CHECK(form_.across == 1 || !shared.empty(), "no axes of results share an operand: {}",
                  spec.to_string());
    shared_ = group_of(spec.extents(), shared);
    std::vector<int> others;
    std::ranges::copy_if(r_.axes, std::back_inserter(others),
                         [&](int a) { return std::ranges::find(shared, a) == shared.end(); });
    columns_ = group_of(spec.extents(), others);
    reduced_ = group_of(spec.extents(), r_.reduced);
  }

  Program lower() {
    count_ = results_.size();
    if (form_.splits > 1) parts_ = add_parts(program_, ops_, count_ * form_.splits);
    if (form_.along != 0)
      form_.inner != 0 ? along_window() : along_reduced();
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
    return folded_element(b, *folded_, r_.values[f], ops_[f], ramp, at);
  }

  void write(StageBuilder& b, const Ramp& ramp, const Coordinates& at, std::span<const Id> totals) const {
    write_results(b, spec_, r_, ramp, at, totals);
  }

  void prepare_write(Ramp& ramp) const {
    for (const Value& value : spec_.values())
      if (!value.monoid)
        for (const Operand& o : value.operands) ramp.prepare(o);
    for (const kernel::Output& o : spec_.outputs()) ramp.prepare(o.index);
  }

  /// The vectors of a group from lane `start` on, those lanes below `end`, ready for what is folded and written.
  [[nodiscard]] std::vector<Ramp> vectors(StageBuilder& b, const AxisGroup& group, const Expression& start,
                                          int lanes, const Expression& end) const {
    std::vector<Ramp> ramps;
    for (int64_t v = 0; v < form_.unroll; ++v) {
      Ramp& ramp = ramps.emplace_back(b, group, start + v * lanes, lanes, end);
      prepare_fold(ramp);
      prepare_write(ramp);
    }
    return ramps;
  }
  /// What `groups` totals of each fold begin with.
  [[nodiscard]] std::vector<Id> neutrals(StageBuilder& b, int lanes, size_t groups) const {
    std::vector<Id> totals;
    for (size_t i = 0; i < groups; ++i)
      for (const FoldOp& op : ops_) totals.push_back(b.constant_bits({op.dtype, lanes}, op.neutral));
    return totals;
  }

  void along_reduced() {
    // Tiles that read the same columns follow one another.
    const Expression across = shared_.size().ceil_div(form_.across);
    const Expression groups = columns_.size().ceil_div(form_.rows) * across,
                     tasks = groups.ceil_div(form_.task);
    StageBuilder b(program_, tasks * form_.splits);
    const Expression split = b.task() % form_.splits, task = b.task() / form_.splits;
    const AxisGroup range = share(split);
    b.loop((groups - task * form_.task).min(form_.task), LoopKind::Serial, [&](const Expression& g) {
      const Expression tile = task * form_.task + g;
      fold_tile(b, tile / across * form_.rows, tile % across * form_.across, range, split);
    });
    b.finish();
  }

  /// All results of a window (its weights' gradients) together, with lanes along the innermost reduced axis and
  /// `rows` positions of the next one unrolled: what results read of neighbouring rows is loaded once.
  void along_window() {
    const size_t outer = r_.axes.size() - static_cast<size_t>(form_.inner);
    const AxisGroup others = part_of(results_, 0, outer), window = part_of(results_, outer, r_.axes.size());
    const size_t last = reduced_.axes.size() - 1;
    const int row_axis = reduced_.axes[last - 1];
    const AxisGroup columns = part_of(reduced_, last, last + 1);
    const int lanes = tile_lanes(*columns.size().constant(), lanes_);
    const int64_t positions = *window.size().constant();
    LUMINAL_CHECK(reduced_.extents[last - 1] % form_.rows == Expression(0),
                  "{} rows do not come in groups of {}", reduced_.extents[last - 1].to_string(), form_.rows);
    const std::vector<WindowStep> steps = window_steps(spec_, r_, window, row_axis, form_.rows, top_);
    StageBuilder b(program_, others.size().ceil_div(form_.task));
    b.loop(
        (others.size() - b.task() * form_.task).min(form_.task), LoopKind::Serial, [&](const Expression& g) {
          Coordinates at(spec_.extents().size(), 0);
          others.place(b.task() * form_.task + g, at);
          std::vector<Id> totals = neutrals(b, lanes, static_cast<size_t>(positions));
          const auto nest = [&](const auto& self, size_t k, std::vector<Id> carried) -> std::vector<Id> {
            const size_t axis = static_cast<size_t>(reduced_.axes[std::min(k, last)]);
            const auto inside = [&](const Expression& i, std::span<const Id> c) {
              if (k < last) {
                at[axis] = k + 1 < last ? i : i * form_.rows;
                return self(self, k + 1, {c.begin(), c.end()});
              }
              Ramp ramp(b, columns, i * lanes, lanes, columns.size());
              prepare_fold(ramp);
              std::vector<Id> next(c.begin(), c.end());
              for (const WindowStep& step : steps) {
                Coordinates here = at;
                here[static_cast<size_t>(row_axis)] = at[static_cast<size_t>(row_axis)] + step.row;
                window.place(step.position, here);
                for (size_t f = 0; f < ops_.size(); ++f) {
                  Id& total = next[static_cast<size_t>(step.position) * ops_.size() + f];
                  total = fold_in(b, ops_[f], total, guarded(b, ramp, ops_[f], element(b, f, ramp, here)));
                }
              }
              return next;
            };
            const Expression extent = k == last       ? columns.size().ceil_div(lanes)
                                      : k + 1 == last ? reduced_.extents[k] / form_.rows
                                                      : reduced_.extents[k];
            return b.loop(extent, LoopKind::Serial, std::move(carried), inside);
          };
          totals = nest(nest, 0, std::move(totals));
          for (int64_t position = 0; position < positions; ++position) {
            window.place(position, at);
            std::vector<Id> mine;
            for (size_t f = 0; f < ops_.size(); ++f)
              mine.push_back(b.reduce(ops_[f].op, totals[static_cast<size_t>(position) * ops_.size() + f]));
            write(b, Ramp(b), at, mine);
          }
        });
    b.finish();
  }

  /// The results from `column` on, each at the shared positions from `shared` on, together: what they all read is
  /// loaded once.
  void fold_tile(StageBuilder& b, const Expression& column, const Expression& shared, const AxisGroup& range,
                 const Expression& split) {
    std::vector<Fold> folds;
    std::vector<Coordinates> tile;
    // Beyond the end the last one is made again, and not written.
    const auto place = [](const AxisGroup& group, const Expression& at, int64_t step, Coordinates& into) {
      const Expression size = group.size();
      group.place(size % step == Expression(0) ? at : at.min(size - 1), into);
    };
    for (int64_t s = 0; s < form_.across; ++s)
      for (int64_t row = 0; row < form_.rows; ++row) {
        Coordinates at(spec_.extents().size(), 0);
        place(columns_, column + row, form_.rows, at);
        place(shared_, shared + s, form_.across, at);
        for (size_t f = 0; f < ops_.size(); ++f)
          folds.push_back({ops_[f], [this, &b, f, at](const Ramp& ramp, const Coordinates& here) {
                             Coordinates c = here;
                             for (const int a : r_.axes)
                               c[static_cast<size_t>(a)] = at[static_cast<size_t>(a)];
                             return element(b, f, ramp, c);
                           }});
        tile.push_back(std::move(at));
      }
    const std::vector<Id> totals =
        fold_lanes(b, range, axes_of_lanes(spec_, r_, range, lanes_), lanes_, static_cast<int>(form_.unroll),
                   tile[0], folds, [&](Ramp& ramp) { prepare_fold(ramp); });
    const auto within = [&](const AxisGroup& group, const Expression& at, int64_t step, int64_t number,
                            const std::function<void()>& body) {
      if (number == 0 || group.size() % step == Expression(0)) return body();
      b.if_true(b.compute(ScalarOp::Lt, {b.index(at + number), b.index(group.size())}), body);
    };
    for (size_t i = 0; i < tile.size(); ++i) {
      const int64_t row = static_cast<int64_t>(i) % form_.rows, s = static_cast<int64_t>(i) / form_.rows;
      const std::span mine = std::span(totals).subspan(i * ops_.size(), ops_.size());
      within(shared_, shared, form_.across, s, [&] {
        within(columns_, column, form_.rows, row, [&] {
          if (form_.splits == 1) return write(b, Ramp(b), tile[i], mine);
          const Expression part = split * count_ + results_.position(tile[i]);
          for (size_t f = 0; f < mine.size(); ++f) b.store(parts_[f], part, mine[f]);
        });
      });
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
      const std::vector<Ramp> ramps = vectors(b, results_, first, lanes_, count_);
      const std::vector<Id> totals = fold_nest(b, range, ramps, neutrals(b, lanes_, ramps.size()),
                                               Coordinates(spec_.extents().size(), 0));
      for (size_t v = 0; v < ramps.size(); ++v) {
        finish_group(b, ramps[v], split, std::span(totals).subspan(v * ops_.size(), ops_.size()));
      }
    });
    b.finish();
  }

  /// Vectors along the innermost axes of the results, row by row: what the others alone index is one element.
  void along_inner() {
    if (form_.rows > 1) return along_tiles();
    const size_t outer = r_.axes.size() - static_cast<size_t>(form_.inner);
    TaskGrid grid{.outer = part_of(results_, 0, outer),
                  .inner = part_of(results_, outer, r_.axes.size()),
                  .width = lanes_ * form_.unroll,
                  .blocks_per_task = form_.task};
    StageBuilder b(program_, grid.tasks());
    grid.visit(
        b, spec_.extents().size(), [](const Coordinates&) {},
        [&](const Coordinates& at, const Expression& start) {
          const std::vector<Ramp> ramps = vectors(b, grid.inner, start, lanes_, grid.inner.size());
          const std::vector<Id> totals = fold_nest(b, reduced_, ramps, neutrals(b, lanes_, ramps.size()), at);
          for (size_t v = 0; v < ramps.size(); ++v)
            write(b, ramps[v], at, std::span(totals).subspan(v * ops_.size(), ops_.size()));
        });
    b.finish();
  }

  /// The same for several rows together, all positions of a small window unrolled: what windows of neighbours
  /// share is loaded once.
  void along_tiles() {
    const size_t outer = r_.axes.size() - static_cast<size_t>(form_.inner);
    const auto row_axis = static_cast<size_t>(r_.axes[outer - 1]);
    const int lanes = tile_lanes(*part_of(results_, outer, r_.axes.size()).size().constant(), lanes_);
    TaskGrid grid{.outer = part_of(results_, 0, outer),
                  .inner = part_of(results_, outer, r_.axes.size()),
                  .width = lanes * form_.unroll,
                  .rows_per_task = form_.task};
    LUMINAL_CHECK(grid.outer.extents.back() % form_.rows == Expression(0),
                  "{} rows do not come in groups of {}", grid.outer.extents.back().to_string(), form_.rows);
    grid.outer.extents.back() = grid.outer.extents.back() / form_.rows;
    grid.blocks_per_task = *grid.blocks().constant();
    const std::vector<WindowStep> steps =
        window_steps(spec_, r_, reduced_, static_cast<int>(row_axis), form_.rows, top_);
    const Interior interior = interior_of(spec_, grid.inner, kernel::axes_of(r_.reduced));
    StageBuilder b(program_, grid.tasks());
    grid.visit(
        b, spec_.extents().size(), [](const Coordinates&) {},
        [&](const Coordinates& first, const Expression& start) {
          const auto row = [&](int64_t number) {
            Coordinates at = first;
            at[row_axis] = first[row_axis] * form_.rows + number;
            return at;
          };
          const Expression size = grid.inner.size();
          if (interior.conditions.empty()) return tile(b, grid, lanes, row, start, size, steps);
          // The masks are affine in the row: what holds for the first and the last holds for those between.
          Expression inside = (start + (grid.width - 1)).lt(size);
          for (const int64_t number : {int64_t{0}, form_.rows - 1})
            inside = inside & interior.holds(grid.inner, row(number), start, grid.width);
          guarded(b, inside, [&](bool is_inside) {
            folded_ = is_inside ? &interior.spec : &spec_;
            tile(b, grid, lanes, row, start, is_inside ? start + grid.width : size, steps);
            folded_ = &spec_;
          });
        });
    b.finish();
  }

  /// Rows of vectors from lane `start` on; lanes below `count` are on. `row`: the coordinates of each row.
  void tile(StageBuilder& b, const TaskGrid& grid, int lanes, const std::function<Coordinates(int64_t)>& row,
            const Expression& start, const Expression& count, std::span<const WindowStep> steps) {
    const std::vector<Ramp> ramps = vectors(b, grid.inner, start, lanes, count);
    const size_t each = ramps.size() * ops_.size();
    std::vector<Id> totals = neutrals(b, lanes, static_cast<size_t>(form_.rows) * ramps.size());
    for (const WindowStep& step : steps) {
      Coordinates at = row(step.row);
      reduced_.place(step.position, at);
      add_step(b, ramps, at, std::span(totals).subspan(static_cast<size_t>(step.row) * each, each));
    }
    for (int64_t number = 0; number < form_.rows; ++number)
      for (size_t v = 0; v < ramps.size(); ++v)
        write(b, ramps[v], row(number),
              std::span(totals).subspan(static_cast<size_t>(number) * each + v * ops_.size(), ops_.size()));
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
              total = fold_in(b, ops_[f], total, ramp.widen(element(b, f, ramp, at)));
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
      add_step(b, ramps, at, carried);
      return carried;
    };
    return nest(nest, 0, std::move(totals));
  }

  /// The elements at one reduced position folded into the totals of every ramp.
  void add_step(StageBuilder& b, std::span<const Ramp> ramps, const Coordinates& at,
                std::span<Id> totals) const {
    for (size_t v = 0; v < ramps.size(); ++v)
      for (size_t f = 0; f < ops_.size(); ++f) {
        Id& total = totals[v * ops_.size() + f];
        total = fold_in(b, ops_[f], total, ramps[v].widen(element(b, f, ramps[v], at)));
      }
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
  const KernelSpec* folded_ = &spec_;  ///< without masks where they are known to hold
  Reduction r_;
  ReduceForm form_;
  const DimMap& top_;
  Program program_;
  std::vector<FoldOp> ops_;
  int lanes_ = 8;
  AxisGroup results_, reduced_;
  AxisGroup shared_,
      columns_;  ///< the results' axes: those taken `across` together (or none), and the others
  Expression count_ = 1;
  std::vector<int> parts_;
};

Program reduce_lower(const KernelSpec& original, const Parameters& p, const Bucket& bucket,
                     const Target& target) {
  const KernelSpec spec = specialised(original, bucket);
  const auto r = analyse_reduction(spec);
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
                                     "read the same data are folded together (matrix times vector, rows of "
                                     "a window), totals "
                                     "wait in memory while rows stream by, and few "
                                     "results are shared by several tasks.",
                                 .candidates = reduce_candidates,
                                 .lower = reduce_lower};
  return schedule;
}

}  // namespace luminal::codegen
