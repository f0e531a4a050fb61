#include <algorithm>

#include "base/fail.h"
#include "codegen/schedules/block_shape.h"
#include "codegen/schedules/cost.h"
#include "codegen/schedules/families.h"
#include "codegen/schedules/row.h"
#include "codegen/schedules/specialise.h"
#include "kernel/axes.h"

// Rows by blocks of threads: as `row`, with the threads of a row in place of lanes. Each thread passes over every so
// many-th position, and what a pass folds the threads fold as a tree in memory of the block, from which all of them read
// it for the next pass.
namespace luminal::codegen {
namespace {

using kernel::KernelSpec;
using kernel::Value;

BlockShape row_shape_of(const Parameters& p) {
  return {static_cast<int>(p.at("threads")), static_cast<int>(p.at("results")), p.at("along") != 0};
}

class BlockRowLowering {
 public:
  BlockRowLowering(const KernelSpec& spec, Rows rows, const BlockShape& shape)
      : spec_(spec),
        r_(std::move(rows)),
        shape_(shape),
        program_(program_for(spec, "block_row")),
        parallel_(group_of(spec.extents(), r_.parallel)),
        along_(group_of(spec.extents(), r_.along)) {}

  Program lower() {
    const Expression count = parallel_.size();
    StageBuilder b(program_, count.ceil_div(shape_.results), shape_.threads);
    const Expression row = b.task() * shape_.results + shape_.result(b.thread());
    is_there_ = row.lt(count);
    share_ = shape_.share(b.thread());
    Coordinates at(spec_.extents().size(), 0);
    parallel_.place(row, at);
    Known known;
    for (const std::vector<int>& pass : r_.passes) fold(b, pass, at, known);
    b.if_holds(share_.lt(1) & is_there_, [&] { write(b, at, known, false); });
    (void)positions(b, at, {}, [&](const Coordinates& here, std::vector<Id> none) {
      write(b, here, known, true);
      return none;
    });
    b.finish();
    return std::move(program_);
  }

 private:
  using Known = std::map<int, Id>;

  [[nodiscard]] const Value& value(int v) const { return spec_.values()[static_cast<size_t>(v)]; }

  [[nodiscard]] bool is_along(int v) const {
    return (kernel::axes_of(value(v).axes) & kernel::axes_of(r_.along)) != 0;
  }

  /// The positions of a row that are one sharer's; none beyond the last row, whose elements may be overwritten by then.
  std::vector<Id> positions(
      StageBuilder& b, Coordinates at, std::vector<Id> carried,
      const std::function<std::vector<Id>(const Coordinates&, std::vector<Id>)>& body) const {
    const int64_t sharers = shape_.sharers();
    const Expression mine = is_there_ * (along_.size() - share_);
    return b.loop(mine.ceil_div(sharers), LoopKind::Serial, std::move(carried),
                  [&](const Expression& i, std::span<const Id> c) {
                    along_.place(share_ + i * sharers, at);
                    return body(at, {c.begin(), c.end()});
                  });
  }

  /// What all sharers of a row then know.
  void fold(StageBuilder& b, const std::vector<int>& pass, const Coordinates& at, Known& known) {
    std::vector<FoldOp> ops;
    std::vector<Id> totals;
    for (const int v : pass) {
      ops.push_back(fold_op(*value(v).monoid, value(v).dtype()));
      totals.push_back(b.constant_bits({ops.back().dtype, 1}, ops.back().neutral));
    }
    totals = positions(b, at, std::move(totals), [&](const Coordinates& here, std::vector<Id> carried) {
      for (size_t f = 0; f < pass.size(); ++f) {
        Known mine = known;
        const Value& v = value(pass[f]);
        const Id x = Ramp(b).evaluate(spec_, v.body, v.operands, here, mine);
        carried[f] = fold_in(b, ops[f], carried[f], b.convert(x, ops[f].dtype));
      }
      return carried;
    });
    totals = fold_threads(b, program_, shape_, ops, std::move(totals));
    for (size_t f = 0; f < pass.size(); ++f) known[pass[f]] = b.convert(totals[f], value(pass[f]).dtype());
  }

  /// Outputs along the row, or those of the row as a whole.
  void write(StageBuilder& b, const Coordinates& at, const Known& known, bool along) const {
    const Ramp ramp(b);
    Known mine = known;
    std::vector<size_t> outputs;
    for (size_t o = 0; o < spec_.outputs().size(); ++o)
      if (is_along(spec_.outputs()[o].value) == along) outputs.push_back(o);
    // All values before all stores: an output may be the memory of a slot.
    for (const size_t o : outputs) (void)ramp.value(spec_, spec_.outputs()[o].value, at, mine);
    for (const size_t o : outputs)
      ramp.store(static_cast<int>(spec_.slots().size() + o), spec_.outputs()[o].index,
                 mine.at(spec_.outputs()[o].value), at);
  }

  const KernelSpec& spec_;
  Rows r_;
  BlockShape shape_;
  Program program_;
  AxisGroup parallel_, along_;
  Expression is_there_ = 1,
             share_ = 0;  ///< of a thread: whether its row is one, and which of the row's sharers it is
};

// --- candidates ---

/// Rows whose sums all need a pass.
std::optional<Rows> plain_rows_of(const KernelSpec& spec) {
  std::optional<Rows> rows = rows_of(spec);
  return rows && rows->picks.empty() ? rows : std::nullopt;
}

/// Of a position by one thread in all passes, its neighbours along `group`.
double row_position_cycles(const KernelSpec& spec, const Rows& rows, const AxisGroup& group) {
  constexpr int kAny = 1;
  const KeptValues values = kept_values(spec, rows, kAny);
  double cycles = 0;
  for (size_t v = 0; v < spec.values().size(); ++v) {
    const Value& value = spec.values()[v];
    if ((kernel::all_axes(value) & kernel::axes_of(rows.along)) == 0) continue;
    const double each = 2 + body_cycles(value.body) + thread_load_cycles(spec, value.operands, group);
    cycles += each * static_cast<double>(std::max<size_t>(1, values.readers[v].size()));
  }
  return cycles;
}

std::vector<Candidate> block_row_candidates(const KernelSpec& given, const Bucket& bucket,
                                            const Target& target) {
  const std::vector<int> sizes = block_sizes(target);
  if (sizes.empty()) return {};
  const KernelSpec spec = specialised(given, bucket);
  const auto rows = plain_rows_of(spec);
  if (!rows) return {};
  const DimMap top = bucket.top();
  const AxisGroup parallel = group_of(spec.extents(), rows->parallel),
                  along = group_of(spec.extents(), rows->along);
  const int64_t count = parallel.size().exec(top), length = along.size().exec(top);
  std::vector<FoldOp> ops;
  for (const std::vector<int>& pass : rows->passes)
    for (const int v : pass) {
      const Value& value = spec.values()[static_cast<size_t>(v)];
      ops.push_back(fold_op(*value.monoid, value.dtype()));
    }
  std::vector<Candidate> found;
  const auto add = [&](const BlockShape& shape) {
    if (fold_bytes(shape, ops) > target.block_bytes) return;
    const auto up = [](int64_t a, int64_t b) { return static_cast<double>((a + b - 1) / b); };
    const double blocks = up(count, shape.results);
    const double each = up(length, shape.sharers()) *
                        row_position_cycles(spec, *rows, accessed_along(shape, parallel, along, target));
    const double barriers = static_cast<double>(rows->passes.size()) * fold_barriers(shape);
    const double cycles = block_cycles(target, blocks, shape.threads, each, barriers);
    found.push_back({{{"threads", shape.threads}, {"results", shape.results}, {"along", shape.along ? 1 : 0}},
                     block_us(spec, top, target, cycles, blocks)});
  };
  for (const int threads : sizes) {
    for (const int sharers : {32, threads}) add({threads, threads / sharers, true});
    for (const int sharers : {1, 8}) add({threads, threads / sharers, false});
  }
  std::ranges::stable_sort(found, {}, &Candidate::predicted_us);
  constexpr size_t kMost = 8;
  if (found.size() > kMost) found.resize(kMost);
  return found;
}

Program block_row_lower(const KernelSpec& given, const Parameters& p, const Bucket& bucket, const Target&) {
  const KernelSpec spec = specialised(given, bucket);
  const auto rows = plain_rows_of(spec);
  LUMINAL_CHECK(rows, "no rows: {}", spec.to_string());
  return BlockRowLowering(spec, *rows, row_shape_of(p)).lower();
}

}  // namespace

const Schedule& block_row_schedule() {
  static const Schedule schedule{
      .name = "block_row",
      .doc =
          "Several values over one row by blocks of threads: some threads a row, whose "
          "folds meet in memory that the block shares, pass by pass.",
      .candidates = block_row_candidates,
      .lower = block_row_lower,
      .for_blocks = true};
  return schedule;
}

}  // namespace luminal::codegen
