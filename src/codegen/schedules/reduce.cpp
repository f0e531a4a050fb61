#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/fail.h"
#include "codegen/schedules/families.h"
#include "codegen/schedules/roofline.h"
#include "codegen/schedules/specialise.h"
#include "codegen/schedules/sweep.h"

// Reductions: one or several values folded over the same axes, elementwise bodies before, elementwise values
// after them.
namespace luminal::codegen {
namespace {

using kernel::Combiner;
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
           (spec.values()[static_cast<size_t>(o.value)].combiner != Combiner::None ||
            reads_fold(spec, o.value));
  });
}

std::optional<Reduction> analyse(const KernelSpec& spec) {
  Reduction r;
  for (size_t v = 0; v < spec.values().size(); ++v) {
    const Value& value = spec.values()[v];
    if (value.combiner == Combiner::None) continue;
    if (r.values.empty()) r.axes = value.axes, r.reduced = value.reduced;
    if (value.axes != r.axes || value.reduced != r.reduced || reads_fold(spec, static_cast<int>(v)))
      return {};
    if (value.dtype() == Dtype::Bool && value.combiner != Combiner::Max) return {};
    r.values.push_back(static_cast<int>(v));
  }
  if (r.values.empty()) return {};
  for (const kernel::Output& o : spec.outputs())
    if (spec.values()[static_cast<size_t>(o.value)].axes != r.axes) return {};
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

/// The parameters: `along` 1 puts lanes along the reduced axes, 0 along the others; `unroll` accumulators (or
/// vectors of results) side by side; `rows` results together (along 1); `task` such groups in a task;
/// `splits` tasks that share a result.
struct Form {
  int64_t along = 1, unroll = 4, rows = 1, task = 1, splits = 1;
};

class Lowering {
 public:
  Lowering(const KernelSpec& spec, Reduction reduction, Form form, const DimMap& top, const Target& target)
      : spec_(spec), r_(std::move(reduction)), form_(form), program_(program_for(spec, "reduce")) {
    int widest = 1;
    for (const int v : r_.values) {
      const Value& value = spec.values()[static_cast<size_t>(v)];
      ops_.push_back(fold_op(value.combiner, value.dtype()));
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
    form_.along != 0 ? along_reduced() : along_results();
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

  void prepare_fold(Run& run) const {
    for (size_t v = 0; v < spec_.values().size(); ++v)
      if (!reads_fold(spec_, static_cast<int>(v)))
        for (const Operand& o : spec_.values()[v].operands) run.prepare(o);
  }

  Id element(StageBuilder& b, size_t f, const Run& run, const Coordinates& at) const {
    const Value& value = spec_.values()[static_cast<size_t>(r_.values[f])];
    std::map<int, Id> known;
    return b.convert(run.evaluate(spec_, value.body, value.operands, at, known), ops_[f].dtype);
  }

  void write(StageBuilder& b, const Run& run, const Coordinates& at, std::span<const Id> totals) const {
    std::map<int, Id> known;
    for (size_t f = 0; f < r_.values.size(); ++f) {
      const int v = r_.values[f];
      known[v] = b.convert(totals[f], spec_.values()[static_cast<size_t>(v)].dtype());
    }
    for (size_t o = 0; o < spec_.outputs().size(); ++o) {
      const kernel::Output& output = spec_.outputs()[o];
      run.store(static_cast<int>(spec_.slots().size() + o), output.index,
                run.value(spec_, output.value, at, known), at);
    }
  }

  void prepare_write(Run& run) const {
    for (size_t v = 0; v < spec_.values().size(); ++v)
      if (reads_fold(spec_, static_cast<int>(v)))
        for (const Operand& o : spec_.values()[v].operands) run.prepare(o);
    for (const kernel::Output& o : spec_.outputs()) run.prepare(o.index);
  }

  void along_reduced() {
    const Expression groups = count_.ceil_div(form_.rows), tasks = groups.ceil_div(form_.task);
    StageBuilder b(program_, tasks * form_.splits);
    const Expression split = b.task() % form_.splits, task = b.task() / form_.splits;
    const AxisGroup range = share(split);
    std::vector<Expression> loads;
    for (const int v : r_.values)
      for (const Operand& o : spec_.values()[static_cast<size_t>(v)].operands)
        if (o.kind == Operand::Kind::Load) loads.push_back(o.index);
    const size_t vector_axes = vector_axes_of(range, loads, 2 * lanes_);
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
        folds.push_back({ops_[f], [this, &b, f, at](const Run& run, const Coordinates& here) {
                           Coordinates c = here;
                           for (const int a : r_.axes) c[static_cast<size_t>(a)] = at[static_cast<size_t>(a)];
                           return element(b, f, run, c);
                         }});
      rows.push_back(std::move(at));
    }
    const std::vector<Id> totals = fold_lanes(b, range, vector_axes, lanes_, static_cast<int>(form_.unroll),
                                              rows[0], folds, [&](Run& run) { prepare_fold(run); });
    for (int64_t row = 0; row < form_.rows; ++row) {
      const std::span mine = std::span(totals).subspan(static_cast<size_t>(row) * ops_.size(), ops_.size());
      const auto out = [&] {
        if (form_.splits > 1)
          for (size_t f = 0; f < mine.size(); ++f) b.store(parts_[f], split * count_ + first + row, mine[f]);
        else
          write(b, Run(b), rows[static_cast<size_t>(row)], mine);
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
      std::vector<Run> runs;
      std::vector<Id> totals;
      for (int64_t v = 0; v < form_.unroll; ++v) {
        Run& run = runs.emplace_back(b, results_, first + v * lanes_, lanes_, count_);
        prepare_fold(run);
        prepare_write(run);
        for (const FoldOp& op : ops_) totals.push_back(b.constant_bits({op.dtype, lanes_}, op.neutral));
      }
      totals = fold_nest(b, range, runs, std::move(totals));
      for (size_t v = 0; v < runs.size(); ++v) {
        const std::span mine = std::span(totals).subspan(v * ops_.size(), ops_.size());
        if (form_.splits == 1) {
          write(b, runs[v], Coordinates(spec_.extents().size(), 0), mine);
          continue;
        }
        for (size_t f = 0; f < mine.size(); ++f)
          b.store(parts_[f], split * count_ + first + static_cast<int64_t>(v) * lanes_, mine[f], 1,
                  runs[v].inside());
      }
    });
    b.finish();
  }

  std::vector<Id> fold_nest(StageBuilder& b, const AxisGroup& range, std::span<const Run> runs,
                            std::vector<Id> totals) const {
    Coordinates at(spec_.extents().size(), 0);
    const auto nest = [&](const auto& self, size_t k, std::vector<Id> carried) -> std::vector<Id> {
      if (k < range.axes.size())
        return b.loop(range.extents[k], LoopKind::Serial, std::move(carried),
                      [&](const Expression& i, std::span<const Id> c) {
                        at[static_cast<size_t>(range.axes[k])] = range.first[k] + i;
                        return self(self, k + 1, {c.begin(), c.end()});
                      });
      for (size_t v = 0; v < runs.size(); ++v)
        for (size_t f = 0; f < ops_.size(); ++f) {
          Id& total = carried[v * ops_.size() + f];
          total = b.compute(ops_[f].op, {total, runs[v].widen(element(b, f, runs[v], at))});
        }
      return carried;
    };
    return nest(nest, 0, std::move(totals));
  }

  /// Folds what the splits left.
  void join() {
    const int lanes = r_.axes.empty() ? 1 : lanes_;
    StageBuilder b(program_, count_.ceil_div(lanes));
    const Expression first = b.task() * lanes;
    Run run = r_.axes.empty() ? Run(b) : Run(b, results_, first, lanes, count_);
    prepare_write(run);
    std::vector<Id> totals;
    for (const FoldOp& op : ops_) totals.push_back(b.constant_bits({op.dtype, lanes}, op.neutral));
    totals = b.loop(form_.splits, LoopKind::Serial, std::move(totals),
                    [&](const Expression& split, std::span<const Id> carried) {
                      std::vector<Id> next;
                      for (size_t f = 0; f < ops_.size(); ++f) {
                        const Id part = b.load(parts_[f], split * count_ + first, lanes, 1, run.inside());
                        next.push_back(b.compute(ops_[f].op, {carried[f], part}));
                      }
                      return next;
                    });
    write(b, run, Coordinates(spec_.extents().size(), 0), totals);
    b.finish();
  }

  const KernelSpec& spec_;
  Reduction r_;
  Form form_;
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
    cycles += 0.5 * value.body.cost().weight() + 0.5;
    for (const Operand& o : value.operands) {
      if (o.kind != Operand::Kind::Load) continue;
      cycles +=
          load_cycles(o.index, lanes_along, lanes) / (depends_on(o.index, r.axes) ? 1 : double(shared)) +
          double(o.masks.size());
    }
  }
  return cycles;
}

std::vector<Candidate> reduce_candidates(const KernelSpec& original, const Bucket& bucket,
                                         const Target& target) {
  const KernelSpec spec = specialised(original, bucket);
  const auto r = analyse(spec);
  if (!r || target.lanes(8) < 2) return {};
  const DimMap top = bucket.top();
  const auto size = [&](const std::vector<int>& axes) {
    int64_t n = 1;
    for (const int a : axes) n *= spec.extents()[static_cast<size_t>(a)].exec(top);
    return n;
  };
  const int64_t results = size(r->axes), reduced = size(r->reduced), threads = target.threads;
  const auto elements = static_cast<double>(results) * static_cast<double>(reduced);
  const int lanes = target.lanes(4);
  const Roofline roofline = roofline_of(spec, top, target);
  std::vector<Candidate> found;
  std::set<std::array<int64_t, 5>> seen;
  const auto consider = [&](Form f, double cycles) {
    const int64_t group = f.along != 0 ? f.rows : f.unroll * lanes;
    const int64_t groups = (results + group - 1) / group;
    f.task =
        std::clamp<int64_t>(groups / (8 * threads), 1,
                            std::max<int64_t>(1, 32768 / std::max<int64_t>(1, reduced * group / f.splits)));
    if (!seen.insert({f.along, f.unroll, f.rows, f.task, f.splits}).second) return;
    const auto tasks = static_cast<double>((groups + f.task - 1) / f.task * f.splits);
    const double busy = std::min(1.0, tasks / static_cast<double>(threads));
    const double us =
        roofline.us(cycles / busy, f.splits > 1 ? 2 : 1, f.along == 0 && reduced > 1 ? 1.1 : 1.0);
    found.push_back(
        {{{"along", f.along}, {"unroll", f.unroll}, {"rows", f.rows}, {"task", f.task}, {"splits", f.splits}},
         us});
  };
  const AxisGroup inner = group_of(spec.extents(), r->reduced), outer = group_of(spec.extents(), r->axes);
  for (const int64_t splits : {int64_t{1}, threads, 8 * threads}) {
    if (splits > 1 && (reduced < 64 * splits || results > 1024 * threads)) continue;
    for (const int64_t rows : {1, 4}) {
      if (rows > results) continue;
      const double per = vector_cycles(spec, *r, inner, lanes, rows);
      const double vectors =
          elements / static_cast<double>(reduced) * std::ceil(static_cast<double>(reduced) / lanes);
      for (const int64_t unroll : {1, 4})
        if (unroll == 1 || reduced >= 4 * lanes)
          consider({.along = 1, .unroll = unroll, .rows = rows, .splits = splits},
                   vectors * std::max(per, 4.0 / double(unroll * rows)) + double(results * splits) * 8);
    }
    if (r->axes.empty()) continue;
    const double per = vector_cycles(spec, *r, outer, lanes, 1);
    for (const int64_t vectors : {1, 4, 8}) {
      if (vectors > 1 && (vectors - 1) * lanes >= results) continue;
      const double count = std::ceil(static_cast<double>(results) / lanes) * static_cast<double>(reduced);
      consider({.along = 0, .unroll = vectors, .splits = splits},
               count * std::max(per, 4.0 / double(vectors)));
    }
  }
  std::ranges::stable_sort(found, {}, &Candidate::predicted_us);
  if (found.size() > 10) found.resize(10);
  return found;
}

Program reduce_lower(const KernelSpec& original, const Parameters& p, const Bucket& bucket,
                     const Target& target) {
  const KernelSpec spec = specialised(original, bucket);
  const auto r = analyse(spec);
  LUMINAL_CHECK(r, "no reduction: {}", spec.to_string());
  const Form form{p.at("along"), p.at("unroll"), p.at("rows"), p.at("task"), p.at("splits")};
  return Lowering(spec, *r, form, bucket.top(), target).lower();
}

}  // namespace

const Schedule& reduce_schedule() {
  static const Schedule schedule{.name = "reduce",
                                 .doc =
                                     "Values folded over one set of axes, with elementwise bodies and "
                                     "whatever is computed from the results. "
                                     "Lanes run along the reduced axes or along the results, several "
                                     "accumulators hide latency, results that "
                                     "read the same data are folded together (matrix times vector), and few "
                                     "results are shared by several tasks.",
                                 .candidates = reduce_candidates,
                                 .lower = reduce_lower};
  return schedule;
}

}  // namespace luminal::codegen
