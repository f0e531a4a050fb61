#include <algorithm>

#include "base/fail.h"
#include "codegen/schedules/block_shape.h"
#include "codegen/schedules/cost.h"
#include "codegen/schedules/families.h"
#include "codegen/schedules/reduce.h"
#include "codegen/schedules/specialise.h"

// Reductions by blocks of threads: each thread folds every so many-th position of its result, then the threads of a
// result fold their totals as a tree in memory of the block. Of few results each is split among several blocks, and
// a second stage folds what these have left.
namespace luminal::codegen {
namespace {

using kernel::KernelSpec;

struct BlockReduceForm {
  BlockShape shape;
  int64_t splits = 1;

  static BlockReduceForm of(const Parameters& p) {
    return {{static_cast<int>(p.at("threads")), static_cast<int>(p.at("results")), p.at("along") != 0},
            p.at("splits")};
  }
  [[nodiscard]] Parameters parameters() const {
    return {{"threads", shape.threads},
            {"results", shape.results},
            {"along", shape.along ? 1 : 0},
            {"splits", splits}};
  }
};

class BlockReduceLowering {
 public:
  BlockReduceLowering(const KernelSpec& spec, Reduction reduction, const BlockReduceForm& form,
                      const DimMap& top)
      : spec_(spec),
        r_(std::move(reduction)),
        form_(form),
        program_(program_for(spec, "block_reduce")),
        ops_(fold_ops(spec, r_)),
        results_(group_of(spec.extents(), r_.axes)),
        reduced_(group_of(spec.extents(), reduced_by_stride(spec, r_, top))),
        count_(results_.size()) {}

  Program lower() {
    if (form_.splits > 1) parts_ = add_parts(program_, ops_, count_ * form_.splits);
    fold();
    if (form_.splits > 1) join();
    return std::move(program_);
  }

 private:
  void fold() {
    const BlockShape& shape = form_.shape;
    StageBuilder b(program_, count_.ceil_div(shape.results) * form_.splits, shape.threads);
    const Expression split = b.task() % form_.splits;
    const Expression result = b.task() / form_.splits * shape.results + shape.result(b.thread());
    const Expression share = shape.share(b.thread());
    Coordinates at(spec_.extents().size(), 0);
    results_.place(result, at);
    const std::vector<Id> totals =
        fold_threads(b, program_, shape, ops_, totals_of_thread(b, at, split, share, result.lt(count_)));
    b.if_holds(share.lt(1) & result.lt(count_), [&] {
      if (form_.splits == 1) return write_results(b, spec_, r_, Ramp(b), at, totals);
      for (size_t f = 0; f < ops_.size(); ++f) b.store(parts_[f], split * count_ + result, totals[f]);
    });
    b.finish();
  }

  [[nodiscard]] std::vector<Id> neutrals(StageBuilder& b) const {
    std::vector<Id> totals;
    for (const FoldOp& op : ops_) totals.push_back(b.constant_bits({op.dtype, 1}, op.neutral));
    return totals;
  }

  /// The positions of a split that are one sharer's; none beyond the last result, whose elements may be overwritten by
  /// then.
  std::vector<Id> totals_of_thread(StageBuilder& b, Coordinates at, const Expression& split,
                                   const Expression& share, const Expression& is_there) const {
    const Expression length = reduced_.size(), chunk = length.ceil_div(form_.splits), first = split * chunk;
    const Expression mine = is_there * (chunk.min(length - first) - share);
    const int64_t sharers = form_.shape.sharers();
    return b.loop(mine.ceil_div(sharers), LoopKind::Serial, neutrals(b),
                  [&](const Expression& i, std::span<const Id> carried) {
                    reduced_.place(first + share + i * sharers, at);
                    std::vector<Id> next;
                    for (size_t f = 0; f < ops_.size(); ++f)
                      next.push_back(fold_in(b, ops_[f], carried[f],
                                             folded_element(b, spec_, r_.values[f], ops_[f], Ramp(b), at)));
                    return next;
                  });
  }

  /// A result for each thread: what the blocks left of it.
  void join() {
    const int threads = form_.shape.threads;
    StageBuilder b(program_, count_.ceil_div(threads), threads);
    const Expression result = b.task() * threads + b.thread();
    b.if_holds(result.lt(count_), [&] {
      const std::vector<Id> totals = b.loop(
          form_.splits, LoopKind::Serial, neutrals(b),
          [&](const Expression& split, std::span<const Id> carried) {
            std::vector<Id> next;
            for (size_t f = 0; f < ops_.size(); ++f)
              next.push_back(b.compute(ops_[f].op, {carried[f], b.load(parts_[f], split * count_ + result)}));
            return next;
          });
      Coordinates at(spec_.extents().size(), 0);
      results_.place(result, at);
      write_results(b, spec_, r_, Ramp(b), at, totals);
    });
    b.finish();
  }

  const KernelSpec& spec_;
  Reduction r_;
  BlockReduceForm form_;
  Program program_;
  std::vector<FoldOp> ops_;
  AxisGroup results_, reduced_;
  Expression count_;
  std::vector<int> parts_;
};

// --- candidates ---

/// Cycles of one position by a thread whose neighbours are along `group`.
double cycles_of_position(const KernelSpec& spec, const Reduction& r, const AxisGroup& group) {
  double cycles = 2;
  for (const int v : r.values) {
    const kernel::Value& value = spec.values()[static_cast<size_t>(v)];
    cycles += body_cycles(value.body) + thread_load_cycles(spec, value.operands, group);
  }
  return cycles;
}

double block_reduce_us(const KernelSpec& spec, const Reduction& r, const BlockReduceForm& form,
                       const DimMap& top, const Target& target) {
  const BlockShape& shape = form.shape;
  const AxisGroup results = group_of(spec.extents(), r.axes),
                  reduced = group_of(spec.extents(), reduced_by_stride(spec, r, top));
  const int64_t count = results.size().exec(top), length = reduced.size().exec(top);
  const auto up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const auto blocks = static_cast<double>(up(count, shape.results) * form.splits);
  const auto passes = static_cast<double>(up(up(length, form.splits), shape.sharers()));
  const double each = passes * cycles_of_position(spec, r, accessed_along(shape, results, reduced, target));
  double cycles = block_cycles(target, blocks, shape.threads, each, fold_barriers(shape));
  if (form.splits > 1)
    cycles += block_cycles(target, static_cast<double>(up(count, shape.threads)), shape.threads,
                           4 * static_cast<double>(form.splits), 0);
  return block_us(spec, top, target, cycles, blocks, form.splits > 1 ? 2 : 1);
}

std::vector<Candidate> block_reduce_candidates(const KernelSpec& given, const Bucket& bucket,
                                               const Target& target) {
  const std::vector<int> sizes = block_sizes(target);
  if (sizes.empty()) return {};
  const KernelSpec spec = specialised(given, bucket);
  const auto r = analyse_reduction(spec);
  if (!r) return {};
  const std::vector<FoldOp> ops = fold_ops(spec, *r);
  const DimMap top = bucket.top();
  std::vector<Candidate> found;
  const auto add = [&](const BlockReduceForm& form) {
    if (fold_bytes(form.shape, ops) <= target.block_bytes)
      found.push_back({form.parameters(), block_reduce_us(spec, *r, form, top, target)});
  };
  for (const int threads : sizes)
    for (const int64_t splits : {1, 16}) {
      for (const int sharers : {8, 32, threads}) add({{threads, threads / sharers, true}, splits});
      for (const int sharers : {1, 8}) add({{threads, threads / sharers, false}, splits});
    }
  std::ranges::stable_sort(found, {}, &Candidate::predicted_us);
  constexpr size_t kMost = 8;
  if (found.size() > kMost) found.resize(kMost);
  return found;
}

Program block_reduce_lower(const KernelSpec& given, const Parameters& p, const Bucket& bucket,
                           const Target&) {
  const KernelSpec spec = specialised(given, bucket);
  const auto r = analyse_reduction(spec);
  LUMINAL_CHECK(r, "no reduction: {}", spec.to_string());
  return BlockReduceLowering(spec, *r, BlockReduceForm::of(p), bucket.top()).lower();
}

}  // namespace

const Schedule& block_reduce_schedule() {
  static const Schedule schedule{
      .name = "block_reduce",
      .doc =
          "Values folded over one set of axes by blocks of threads, which fold their "
          "totals as a tree in memory that they share. Threads of a block lie along "
          "the reduced axes or along the results, and few results are shared by "
          "several blocks.",
      .candidates = block_reduce_candidates,
      .lower = block_reduce_lower,
      .for_blocks = true};
  return schedule;
}

}  // namespace luminal::codegen
