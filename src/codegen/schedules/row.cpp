#include "codegen/schedules/row.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/fail.h"
#include "codegen/schedules/cost.h"
#include "codegen/schedules/families.h"
#include "codegen/schedules/specialise.h"
#include "codegen/schedules/vector_loops.h"
#include "scalar/typing.h"

// Rows: several values over the same axes, computed row by row in as few passes as their order allows. A row
// stays in the cache from one pass to the next.
namespace luminal::codegen {
namespace {

using kernel::KernelSpec;
using kernel::Operand;
using kernel::Value;

/// The parameters: `along` 1 puts lanes along the row, 0 across rows; `unroll` vectors side by side; `keep` 1
/// stores what later passes would compute again; `task` rows (vectors of rows) in a task; `far` 1 for
/// tensors that come from beyond the caches: while a row is computed the next one is fetched, and results go
/// past the caches.
struct RowForm {
  int64_t along = 1, unroll = 2, keep = 0, task = 1, far = 0;
};
constexpr int kWorthKeeping = 6;

class RowLowering {
 public:
  RowLowering(const KernelSpec& spec, Rows rows, RowForm form, const Target& target)
      : spec_(spec), r_(std::move(rows)), form_(form), program_(program_for(spec, "row")) {
    int widest = 1;
    for (size_t v = 0; v < spec.values().size(); ++v) {
      const Value& value = spec.values()[v];
      if (r_.is_fold(spec, static_cast<int>(v)))
        ops_.emplace(static_cast<int>(v), fold_op(*value.monoid, value.dtype()));
      const Dtype computed = is_half(value.dtype()) ? Dtype::F32 : value.dtype();
      widest = std::max(widest, static_cast<int>(element_bytes(computed)));
    }
    lanes_ = target.lanes(std::max(widest, 4));
    parallel_ = group_of(spec.extents(), r_.parallel);
    along_ = group_of(spec.extents(), r_.along);
    if (form.keep == 0) return;
    kept_ = kept_parts(spec, r_, kWorthKeeping);
    for (const int v : kept_.parts) kept_buffers_.push_back(add_kept(v));
    const KeptValues values = kept_values(spec, r_, kWorthKeeping);
    for (const int v : values.values)
      kept_values_[v] = {add_kept(v), *values.readers[static_cast<size_t>(v)].begin()};
  }

  Program lower() {
    const Expression count = parallel_.size();
    const Expression groups = form_.along != 0 ? count : count.ceil_div(lanes_);
    StageBuilder b(program_, groups.ceil_div(form_.task));
    b.loop((groups - b.task() * form_.task).min(form_.task), LoopKind::Serial, [&](const Expression& g) {
      const Expression group = b.task() * form_.task + g;
      Coordinates at(spec_.extents().size(), 0);
      if (form_.along != 0) {
        parallel_.place(group, at);
        next_row_ = at;
        parallel_.place(group + 1, next_row_);
        one_row(b, at);
      } else {
        many_rows(b, group * lanes_, at);
      }
    });
    b.finish();
    return std::move(program_);
  }

 private:
  using Known = std::map<int, Id>;
  struct Kept {
    int buffer;
    size_t from;  ///< the pass that computes it
  };

  /// A place for one value of each position of a row, of each row that lies across the lanes.
  int add_kept(int v) {
    const Expression length = along_.size();
    return add_buffer(program_,
                      {.name = fmt::format("kept{}", v),
                       .space = Space::Local,
                       .dtype = value(v).dtype(),
                       .elements = form_.along != 0 ? length.ceil_div(lanes_) * lanes_ : length * lanes_});
  }

  [[nodiscard]] const Value& value(int v) const { return spec_.values()[static_cast<size_t>(v)]; }
  [[nodiscard]] bool varies_along(int v) const {
    return value(v).axes.size() > 0 && std::ranges::find(value(v).axes, r_.along[0]) != value(v).axes.end();
  }
  /// Passes done before the body of a value can be computed.
  [[nodiscard]] size_t pass_of(int v) const {
    return static_cast<size_t>(r_.level[static_cast<size_t>(v)] - (r_.is_fold(spec_, v) ? 1 : 0));
  }

  void prepare(Ramp& ramp) const {
    for (const Value& v : spec_.values())
      for (const Operand& o : v.operands) ramp.prepare(o);
    for (const kernel::Output& o : spec_.outputs()) ramp.prepare(o.index);
  }

  /// The body of `v`: what earlier passes kept is read at kept_at.
  Id body(StageBuilder& b, int v, const Ramp& ramp, const Coordinates& at, Known& known,
          const Expression& kept_at) const {
    const auto cut = kept_.bodies.find(v);
    const ScalarFunction& f = cut == kept_.bodies.end() ? value(v).body : cut->second.function;
    const std::vector<Operand>& operands = value(v).operands;
    std::vector<Id> inputs(operands.size() + (cut == kept_.bodies.end() ? 0 : cut->second.kept.size()),
                           kNone);
    Id any = kNone;
    for (const ScalarNode& n : f.nodes()) {
      if (n.op != ScalarOp::Input) continue;
      Id& input = inputs[n.payload];
      if (n.payload >= operands.size())
        input = b.load(kept_buffers_[static_cast<size_t>(cut->second.kept[n.payload - operands.size()])],
                       kept_at, lanes_);
      else if (const Operand& o = operands[n.payload]; o.kind == Operand::Kind::Value)
        input = read(b, o.value, ramp, at, known, kept_at);
      else
        input = ramp.load(o, at);
      any = input;
    }
    if (any != kNone) std::ranges::replace(inputs, kNone, any);
    return b.inline_function(f, inputs);
  }

  Id read(StageBuilder& b, int v, const Ramp& ramp, const Coordinates& at, Known& known,
          const Expression& kept_at) const {
    if (const auto have = known.find(v); have != known.end()) return have->second;
    if (const auto pick = r_.picks.find(v); pick != r_.picks.end())
      return known[v] = picked(b, spec_, v, pick->second, ramp, at, known);
    LUMINAL_CHECK(!value(v).monoid, "value {} is needed before its pass", v);
    const auto kept = kept_values_.find(v);
    if (kept != kept_values_.end() && kept->second.from < pass_)
      return known[v] = b.load(kept->second.buffer, kept_at, lanes_);
    const Id x = known[v] = body(b, v, ramp, at, known, kept_at);
    if (kept != kept_values_.end()) b.store(kept->second.buffer, kept_at, ramp.widen(x));
    return x;
  }

  /// Elementwise values of whole rows that can be computed after `done` passes.
  void statistics(StageBuilder& b, size_t done, const Ramp& ramp, const Coordinates& at, Known& known) const {
    for (int v = 0; v < static_cast<int>(spec_.values().size()); ++v)
      if (!r_.is_fold(spec_, v) && !varies_along(v) && pass_of(v) <= done && !known.contains(v))
        read(b, v, ramp, at, known, 0);
  }

  void keep(StageBuilder& b, int v, Id element, const Expression& kept_at) const {
    const auto part = std::ranges::find(kept_.parts, v);
    if (part != kept_.parts.end())
      b.store(kept_buffers_[static_cast<size_t>(part - kept_.parts.begin())], kept_at, element);
  }

  void write(StageBuilder& b, const Ramp& ramp, const Coordinates& at, Known& known, bool along,
             const Expression& kept_at) const {
    for (size_t o = 0; o < spec_.outputs().size(); ++o) {
      const kernel::Output& output = spec_.outputs()[o];
      if (varies_along(output.value) != along) continue;
      const Id x = read(b, output.value, ramp, at, known, kept_at);
      ramp.store(static_cast<int>(spec_.slots().size() + o), output.index, x, at, along && form_.far != 0);
    }
  }

  [[nodiscard]] bool writes_along() const {
    return std::ranges::any_of(spec_.outputs(),
                               [&](const kernel::Output& o) { return varies_along(o.value); });
  }

  // --- lanes along one row

  /// Prefetches what this ramp's loads will read one row further on. The first pass waits for memory in any
  /// case; the second has time.
  void fetch_next_row(StageBuilder& b, const Ramp& ramp) const {
    if (form_.far == 0) return;
    std::set<std::pair<int, std::string>> asked;
    for (const Value& v : spec_.values())
      for (const Operand& o : v.operands) {
        if (o.kind != Operand::Kind::Load || !depends_on(o.index, r_.parallel)) continue;
        const auto even = evenly(o.index, along_);
        if (!even || even->stride != 1 || even->inner != along_.axes.size()) continue;
        const Expression place = o.index.substitute_indices(next_row_) + ramp.start();
        if (asked.emplace(o.slot, place.to_string()).second) b.prefetch(o.slot, place);
      }
  }

  void one_row(StageBuilder& b, const Coordinates& at) {
    const Ramp single(b);
    const auto unroll = static_cast<int>(form_.unroll);
    const size_t axes = along_.axes.size();
    const auto ready = [&](Ramp& ramp) { prepare(ramp); };
    Known known;
    for (size_t pass = 0; pass < r_.passes.size(); ++pass) {
      pass_ = pass;
      statistics(b, pass, single, at, known);
      std::vector<Fold> folds;
      for (const int v : r_.passes[pass])
        folds.push_back({ops_.at(v), [&, v](const Ramp& ramp, const Coordinates& here) {
                           if (pass_ == kFetching && v == r_.passes[pass_][0]) fetch_next_row(b, ramp);
                           Known mine = known;
                           const Id x = ramp.widen(body(b, v, ramp, here, mine, ramp.start()));
                           keep(b, v, x, ramp.start());
                           return b.convert(x, ops_.at(v).dtype);
                         }});
      const std::vector<Id> totals = fold_lanes(b, along_, axes, lanes_, unroll, at, folds, ready);
      for (size_t f = 0; f < folds.size(); ++f) {
        const int v = r_.passes[pass][f];
        known[v] = b.convert(totals[f], value(v).dtype());
      }
    }
    pass_ = r_.passes.size();
    statistics(b, pass_, single, at, known);
    write(b, single, at, known, false, 0);
    if (!writes_along()) return;
    vector_loops(b, along_, axes, lanes_, unroll, at, {}, ready,
                 [&](std::span<const Ramp> ramps, const Coordinates& here, std::span<const Id>) {
                   for (const Ramp& ramp : ramps) {
                     if (pass_ == kFetching) fetch_next_row(b, ramp);
                     Known mine = known;
                     write(b, ramp, here, mine, true, ramp.start());
                   }
                   return std::vector<Id>{};
                 });
  }

  // --- lanes across rows

  void many_rows(StageBuilder& b, const Expression& first, const Coordinates& at) {
    Ramp ramp(b, parallel_, first, lanes_, parallel_.size());
    prepare(ramp);
    Known known;
    for (size_t pass = 0; pass < r_.passes.size(); ++pass) {
      pass_ = pass;
      statistics(b, pass, ramp, at, known);
      std::vector<Id> totals;
      for (const int v : r_.passes[pass]) {
        const FoldOp& op = ops_.at(v);
        totals.push_back(b.constant_bits({op.dtype, lanes_}, op.neutral));
      }
      totals = fold_across(b, pass, ramp, at, known, std::move(totals));
      for (size_t f = 0; f < totals.size(); ++f) {
        const int v = r_.passes[pass][f];
        known[v] = b.convert(totals[f], value(v).dtype());
      }
    }
    pass_ = r_.passes.size();
    statistics(b, pass_, ramp, at, known);
    write(b, ramp, at, known, false, 0);
    if (!writes_along()) return;
    (void)nest(b, at, {}, [&](const Coordinates& here, const Expression& position, std::vector<Id> none) {
      Known mine = known;
      write(b, ramp, here, mine, true, position * lanes_);
      return none;
    });
  }

  std::vector<Id> fold_across(StageBuilder& b, size_t pass, const Ramp& ramp, const Coordinates& at,
                              const Known& known, std::vector<Id> totals) {
    return nest(b, at, std::move(totals),
                [&](const Coordinates& here, const Expression& position, std::vector<Id> carried) {
                  for (size_t f = 0; f < carried.size(); ++f) {
                    const int v = r_.passes[pass][f];
                    const FoldOp& op = ops_.at(v);
                    Known mine = known;
                    const Id x = ramp.widen(body(b, v, ramp, here, mine, position * lanes_));
                    keep(b, v, x, position * lanes_);
                    carried[f] = b.compute(op.op, {carried[f], b.convert(x, op.dtype)});
                  }
                  return carried;
                });
  }

  std::vector<Id> nest(
      StageBuilder& b, Coordinates at, std::vector<Id> carried,
      const std::function<std::vector<Id>(const Coordinates&, const Expression&, std::vector<Id>)>& inner) {
    Expression position = 0;
    const auto loops = [&](const auto& self, size_t k, std::vector<Id> values) -> std::vector<Id> {
      if (k == along_.axes.size()) return inner(at, position, std::move(values));
      const Expression outer = position;
      return b.loop(along_.extents[k], LoopKind::Serial, std::move(values),
                    [&](const Expression& i, std::span<const Id> c) {
                      at[static_cast<size_t>(along_.axes[k])] = i;
                      position = outer * along_.extents[k] + i;
                      return self(self, k + 1, {c.begin(), c.end()});
                    });
    };
    return loops(loops, 0, std::move(carried));
  }

  const KernelSpec& spec_;
  Rows r_;
  RowForm form_;
  Program program_;
  KeptParts kept_;
  std::vector<int> kept_buffers_;
  std::map<int, Kept> kept_values_;
  Coordinates next_row_;  ///< of its first position
  static constexpr size_t kFetching = 1;
  size_t pass_ = 0;            ///< that is being written; the last one writes outputs
  std::map<int, FoldOp> ops_;  ///< by value
  int lanes_ = 8;
  AxisGroup parallel_, along_;
};

/// Cycles for one vector of each position of a row, over all passes. Statistics of the row cost nothing there.
double vector_cycles(const KernelSpec& spec, const Rows& rows, const AxisGroup& lanes_along, int lanes,
                     bool keep, const KeptParts& kept, const KeptValues& values) {
  double cycles = 0;
  const kernel::AxisSet along = kernel::axes_of(rows.along);
  for (size_t v = 0; v < spec.values().size(); ++v) {
    const Value& value = spec.values()[v];
    if ((kernel::all_axes(value) & along) == 0 || rows.picks.contains(static_cast<int>(v))) continue;
    const auto cut = kept.bodies.find(static_cast<int>(v));
    const bool read_back = keep && cut != kept.bodies.end();
    const double cycles_each =
        (read_back ? 1 + body_cycles(cut->second.function) : body_cycles(spec, value, along)) +
        load_cycles(spec, value.operands, lanes_along, lanes);
    const auto times = static_cast<double>(std::max<size_t>(1, values.readers[v].size()));
    const bool stays = keep && std::ranges::find(values.values, static_cast<int>(v)) != values.values.end();
    cycles += stays ? cycles_each + times : cycles_each * times;
  }
  for (const kernel::Output& o : spec.outputs()) {
    const auto even = evenly(o.index, lanes_along);
    cycles += even && even->stride == 1 ? 1 : 1.0 * lanes;
  }
  return cycles;
}

std::vector<Candidate> row_candidates(const KernelSpec& original, const Bucket& bucket,
                                      const Target& target) {
  const KernelSpec spec = specialised(original, bucket);
  const auto rows = rows_of(spec);
  if (!rows || target.lanes(8) < 2) return {};
  const DimMap top = bucket.top();
  const auto size = [&](const std::vector<int>& axes) {
    double n = 1;
    for (const int a : axes) n *= static_cast<double>(spec.extents()[static_cast<size_t>(a)].exec(top));
    return n;
  };
  const double count = size(rows->parallel), length = size(rows->along);
  const int lanes = target.lanes(4);
  const KeptParts kept = kept_parts(spec, *rows, kWorthKeeping);
  const KeptValues values = kept_values(spec, *rows, kWorthKeeping);
  const Roofline roofline = roofline_of(spec, top, target);
  std::vector<Candidate> found;
  for (const int64_t along : {1, 0}) {
    if (along == 0 && rows->parallel.empty()) continue;
    const AxisGroup group = group_of(spec.extents(), along != 0 ? rows->along : rows->parallel);
    for (const int64_t keep : {0, 1}) {
      if (keep == 1 && kept.parts.empty() && values.values.empty()) continue;
      const double groups = along != 0 ? count : std::ceil(count / lanes);
      const double steps = along != 0 ? std::ceil(length / lanes) : length;
      const double overhead = along != 0 ? 20 * static_cast<double>(rows->passes.size()) : 4;
      // Of candidates that memory makes equal the first is preferred: there may be more of it than the model says.
      for (const int64_t unroll : {4, 1}) {
        if (unroll > 1 && (along == 0 || length < 4 * lanes)) continue;
        // A row across lanes is as long, and wider: it leaves the cache sooner.
        const double row_bytes = length * 4 * (along != 0 ? 1 : lanes);
        const double slow = row_bytes > static_cast<double>(target.l2_bytes)
                                ? static_cast<double>(rows->passes.size() + 1)
                                : 1;
        const double cycles =
            groups * (steps * vector_cycles(spec, *rows, group, lanes, keep != 0, kept, values) *
                          (unroll == 1 && along != 0 ? 1.2 : 1) +
                      overhead);
        const auto task = static_cast<int64_t>(std::clamp(std::floor(groups / (8.0 * target.threads)), 1.0,
                                                          std::max(1.0, 16384 / std::max(1.0, length))));
        const double busy = std::min(1.0, groups / target.threads);
        const bool large =
            along != 0 && roofline.bytes > static_cast<double>(target.l2_bytes) * target.threads;
        for (const int64_t far : {0, 1}) {
          if (far != 0 && !large) continue;
          // Waiting for a row and computing it take turns unless the next one is fetched meanwhile; results
          // that stay in the cache are read into it before they are written.
          double us = roofline.us(cycles / busy, 1, slow);
          if (large && far == 0)
            us += 0.5 * std::min(roofline.us(cycles / busy, 0, 0), roofline.us(0, 0, slow));
          found.push_back(
              {{{"along", along}, {"unroll", unroll}, {"keep", keep}, {"task", task}, {"far", far}}, us});
        }
      }
    }
  }
  std::ranges::stable_sort(found, {}, &Candidate::predicted_us);
  return found;
}

Program row_lower(const KernelSpec& original, const Parameters& p, const Bucket& bucket,
                  const Target& target) {
  const KernelSpec spec = specialised(original, bucket);
  const auto rows = rows_of(spec);
  LUMINAL_CHECK(rows, "no rows: {}", spec.to_string());
  return RowLowering(spec, *rows,
                     {p.at("along"), p.at("unroll"), p.at("keep"), p.at("task"), parameter_or(p, "far", 0)},
                     target)
      .lower();
}

}  // namespace

const Schedule& row_schedule() {
  static const Schedule schedule{
      .name = "row",
      .doc =
          "Several values over one row (statistics that later values use, and their "
          "gradients): as many passes over the "
          "row as its folds need of one another, the row in cache between them. "
          "What a later pass would compute again "
          "may be kept instead; short rows lie across the lanes.",
      .candidates = row_candidates,
      .lower = row_lower};
  return schedule;
}

}  // namespace luminal::codegen
