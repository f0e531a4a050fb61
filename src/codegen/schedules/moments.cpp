#include <algorithm>
#include <cmath>
#include <set>

#include "base/fail.h"
#include "codegen/schedules/cost.h"
#include "codegen/schedules/families.h"
#include "codegen/schedules/outputs.h"
#include "codegen/schedules/reduce.h"
#include "codegen/schedules/specialise.h"
#include "kernel/deviations.h"

// Sums of rows and of their squared deviations in one walk through memory (kernel/deviations.h): each block is folded
// once for its mean and once more, from the cache, for the deviations from that. A second stage puts the blocks together.
namespace luminal::codegen {
namespace {

using kernel::KernelSpec;
using kernel::Operand;
using kernel::Value;

/// What the family takes: folds of one row, of which some are squared deviations from what the others give.
struct Moments {
  Reduction all;           ///< every fold, over the same axes
  std::vector<int> plain;  ///< those that read no other
  struct Squares {
    int value = 0;
    kernel::Deviation of;
    size_t sum = 0;  ///< of `plain`, the sum of x
  };
  std::vector<Squares> squares;
};

/// Whether a body over these operands reads one of the values, if only through others.
bool reads_any(const KernelSpec& spec, const ScalarFunction& body, std::span<const Operand> operands,
               const std::set<int>& values) {
  return std::ranges::any_of(body.nodes(), [&](const ScalarNode& n) {
    if (n.op != ScalarOp::Input || operands[n.payload].kind != Operand::Kind::Value) return false;
    const int read = operands[n.payload].value;
    const Value& v = spec.values()[static_cast<size_t>(read)];
    return values.contains(read) || reads_any(spec, v.body, v.operands, values);
  });
}

std::optional<Moments> moments_of(const KernelSpec& spec) {
  Moments m;
  std::set<int> folds, squares;
  for (int v = 0; v < std::ssize(spec.values()); ++v) {
    const Value& value = spec.values()[static_cast<size_t>(v)];
    if (!value.monoid) continue;
    if (folds.empty()) m.all.axes = value.axes, m.all.reduced = value.reduced;
    if (value.axes != m.all.axes || value.reduced != m.all.reduced) return {};
    m.all.values.push_back(v);
    folds.insert(v);
    if (auto of = value.online ? kernel::deviation_of(spec.values(), v) : std::nullopt) {
      m.squares.push_back({v, std::move(*of)});
      squares.insert(v);
    } else {
      m.plain.push_back(v);
    }
  }
  const auto value = [&](int v) -> const Value& { return spec.values()[static_cast<size_t>(v)]; };
  for (const int v : m.plain)
    if (reads_any(spec, value(v).body, value(v).operands, folds)) return {};
  for (Moments::Squares& s : m.squares) {
    const auto sum = std::ranges::find(m.plain, s.of.sum);
    if (sum == m.plain.end() || reads_any(spec, s.of.u, value(s.value).operands, squares)) return {};
    s.sum = static_cast<size_t>(sum - m.plain.begin());
  }
  if (m.squares.empty() || !stores_from(spec, kernel::axes_of(m.all.axes))) return {};
  return m;
}

/// A row in blocks of neighbours in memory: whole axes and a part of the next one.
struct RowBlocks {
  AxisGroup across;         ///< outside of the axis that is cut
  AxisGroup within;         ///< that axis first; its part begins at 0 here
  int64_t part = 1;         ///< of that axis, its last part may be shorter
  Expression parts, count;  ///< of that axis; of all blocks of a row

  /// Block `number` of a row.
  [[nodiscard]] AxisGroup at(const Expression& number, Coordinates& place) const {
    across.place(number / parts, place);
    AxisGroup block = within;
    block.first[0] = number % parts * part;
    block.extents[0] = (within.extents[0] - block.first[0]).min(part);
    return block;
  }
  [[nodiscard]] Expression elements(const Expression& number) const {
    Coordinates none(static_cast<size_t>(kernel::kMaxAxes), 0);
    return at(number, none).size();
  }
};

/// Blocks of about `most` elements. Empty where a row is one.
std::optional<RowBlocks> row_blocks(const KernelSpec& spec, const Moments& m, int64_t most,
                                    const DimMap& top) {
  const std::vector<int> axes = reduced_by_stride(spec, m.all, top);
  const auto extent = [&](size_t k) { return spec.extents()[static_cast<size_t>(axes[k])]; };
  size_t cut = axes.size();
  int64_t whole = 1;
  while (cut > 0 && whole * extent(cut - 1).exec(top) <= most)
    whole *= std::max<int64_t>(1, extent(--cut).exec(top));
  if (cut-- == 0) return {};
  const auto begin = axes.begin() + static_cast<std::ptrdiff_t>(cut);
  const int64_t length = extent(cut).exec(top), longest = std::max<int64_t>(1, most / whole);
  const int64_t parts = (length + longest - 1) / longest;
  RowBlocks blocks{.across = group_of(spec.extents(), {axes.begin(), begin}),
                   .within = group_of(spec.extents(), {begin, axes.end()}),
                   .part = (length + parts - 1) / parts,
                   .parts = 1,
                   .count = 1};
  blocks.parts = extent(cut).ceil_div(blocks.part);
  blocks.count = blocks.across.size() * blocks.parts;
  return blocks;
}

class MomentsLowering {
 public:
  /// `task`: blocks in a task.
  MomentsLowering(const KernelSpec& spec, Moments moments, RowBlocks blocks, int64_t task,
                  const Target& target)
      : spec_(spec),
        m_(std::move(moments)),
        blocks_(std::move(blocks)),
        task_(task),
        program_(program_for(spec, "moments")),
        results_(group_of(spec.extents(), m_.all.axes)) {
    int widest = 1;
    for (const FoldOp& op : fold_ops(spec, m_.all))
      widest = std::max(widest, static_cast<int>(element_bytes(op.dtype)));
    lanes_ = target.lanes(widest);
    for (const int v : m_.plain) ops_.push_back(fold_op(*value(v).monoid, value(v).dtype()));
    for (const Moments::Squares& s : m_.squares)
      ops_.insert(ops_.end(), 2, fold_op(Monoid::Add, value(s.value).dtype()));
    parts_ = add_parts(program_, ops_, results_.size() * blocks_.count);
  }

  Program lower() {
    fold_blocks();
    put_together();
    return std::move(program_);
  }

 private:
  [[nodiscard]] const Value& value(int v) const { return spec_.values()[static_cast<size_t>(v)]; }

  void fold_blocks() {
    const Expression all = results_.size() * blocks_.count;
    StageBuilder b(program_, all.ceil_div(task_));
    b.loop((all - b.task() * task_).min(task_), LoopKind::Serial, [&](const Expression& i) {
      const Expression number = b.task() * task_ + i;
      Coordinates at(spec_.extents().size(), 0);
      results_.place(number / blocks_.count, at);
      fold_block(b, blocks_.at(number % blocks_.count, at), at, number);
    });
    b.finish();
  }

  [[nodiscard]] Id element(const Ramp& ramp, const ScalarFunction& body, int v, const Coordinates& at) const {
    std::map<int, Id> known;
    return ramp.widen(ramp.evaluate(spec_, body, value(v).operands, at, known));
  }

  void fold_block(StageBuilder& b, const AxisGroup& block, const Coordinates& at,
                  const Expression& number) const {
    constexpr int kUnroll = 4;
    const size_t in_vectors = axes_of_lanes(spec_, m_.all, block, lanes_);
    const auto prepare = [&](Ramp& ramp) {
      for (const Value& v : spec_.values())
        for (const Operand& o : v.operands) ramp.prepare(o);
    };
    std::vector<Fold> folds;
    for (size_t p = 0; p < m_.plain.size(); ++p)
      folds.push_back({ops_[p], [this, p, &b](const Ramp& ramp, const Coordinates& here) {
                         return b.convert(element(ramp, value(m_.plain[p]).body, m_.plain[p], here),
                                          ops_[p].dtype);
                       }});
    std::vector<Id> totals = fold_lanes(b, block, in_vectors, lanes_, kUnroll, at, folds, prepare);
    folds.clear();
    for (size_t k = 0; k < m_.squares.size(); ++k) {
      const auto deviation = [this, k, &b, mean = mean_of(b, totals[m_.squares[k].sum], block.size())](
                                 const Ramp& ramp, const Coordinates& here) {
        const Id x = element(ramp, m_.squares[k].of.x, m_.squares[k].value, here);
        return b.compute(ScalarOp::Sub, {x, ramp.widen(mean)});
      };
      folds.push_back({ops_[square_of(k)], [deviation, &b](const Ramp& ramp, const Coordinates& here) {
                         const Id d = deviation(ramp, here);
                         return b.compute(ScalarOp::Mul, {d, d});
                       }});
      folds.push_back({ops_[square_of(k) + 1], deviation});
    }
    const std::vector<Id> squares = fold_lanes(b, block, in_vectors, lanes_, kUnroll, at, folds, prepare);
    totals.insert(totals.end(), squares.begin(), squares.end());
    for (size_t p = 0; p < parts_.size(); ++p) b.store(parts_[p], number, totals[p]);
  }

  /// `sum` / `count`, in the sum's dtype.
  static Id mean_of(StageBuilder& b, Id sum, const Expression& count) {
    return b.compute(ScalarOp::Div, {sum, b.convert(b.index(count), b.type(sum).dtype)});
  }

  void put_together() {
    StageBuilder b(program_, results_.size());
    Coordinates at(spec_.extents().size(), 0);
    results_.place(b.task(), at);
    const Ramp ramp(b);
    const Expression first = b.task() * blocks_.count;
    std::vector<Id> totals;
    for (size_t p = 0; p < m_.plain.size(); ++p)
      totals.push_back(b.constant_bits({ops_[p].dtype, 1}, ops_[p].neutral));
    totals = b.loop(blocks_.count, LoopKind::Serial, std::move(totals),
                    [&](const Expression& i, std::span<const Id> so_far) {
                      std::vector<Id> next;
                      for (size_t p = 0; p < so_far.size(); ++p)
                        next.push_back(b.compute(ops_[p].op, {so_far[p], b.load(parts_[p], first + i)}));
                      return next;
                    });
    std::map<int, Id> known;
    for (size_t p = 0; p < totals.size(); ++p)
      known[m_.plain[p]] = b.convert(totals[p], value(m_.plain[p]).dtype());
    std::vector<Id> from;
    for (const Moments::Squares& s : m_.squares)
      from.push_back(ramp.evaluate(spec_, s.of.u, value(s.value).operands, at, known));
    std::vector<Id> squares;
    for (const Moments::Squares& s : m_.squares)
      squares.push_back(b.constant({value(s.value).dtype(), 1}, 0));
    squares = b.loop(blocks_.count, LoopKind::Serial, std::move(squares),
                     [&](const Expression& i, std::span<const Id> so_far) {
                       std::vector<Id> next;
                       for (size_t k = 0; k < so_far.size(); ++k)
                         next.push_back(with_block(b, so_far[k], k, first, i, from[k]));
                       return next;
                     });
    for (size_t k = 0; k < squares.size(); ++k) known[m_.squares[k].value] = squares[k];
    store_outputs_from(b, spec_, kernel::axes_of(m_.all.axes), ramp, at, known);
    b.finish();
  }

  /// `so_far` and the deviations of block `i` from `from`.
  [[nodiscard]] Id with_block(StageBuilder& b, Id so_far, size_t k, const Expression& first,
                              const Expression& i, Id from) const {
    const Expression count = blocks_.elements(i);
    const Id mean = mean_of(b, b.load(parts_[m_.squares[k].sum], first + i), count);
    const Id further = b.compute(m_.squares[k].of.adds ? ScalarOp::Add : ScalarOp::Sub, {mean, from});
    const Id rest = b.load(parts_[square_of(k) + 1], first + i);
    const Id all = b.compute(ScalarOp::Mul, {b.convert(b.index(count), b.type(mean).dtype), further});
    const Id both = b.compute(ScalarOp::Add, {b.compute(ScalarOp::Add, {rest, rest}), all});
    const Id moved = b.compute(ScalarOp::Mul, {further, both});
    return b.compute(ScalarOp::Add,
                     {so_far, b.compute(ScalarOp::Add, {b.load(parts_[square_of(k)], first + i), moved})});
  }

  /// The part that is the squares number `k`; the one behind it is what the rounding of the mean leaves.
  [[nodiscard]] size_t square_of(size_t k) const { return m_.plain.size() + 2 * k; }

  const KernelSpec& spec_;
  Moments m_;
  RowBlocks blocks_;
  int64_t task_;
  Program program_;
  AxisGroup results_;
  int lanes_ = 8;
  std::vector<FoldOp> ops_;  ///< by part: the plain folds, then squares and what is left of each
  std::vector<int> parts_;   ///< their buffers, an element for each block
};

// --- candidates ---

/// Of one vector of a block: its sums, and once more, from the cache, its deviations.
double moments_cycles(const KernelSpec& spec, const Moments& m, const AxisGroup& block, int lanes) {
  double cycles = 0;
  for (const int v : m.all.values) {
    const Value& value = spec.values()[static_cast<size_t>(v)];
    cycles += 0.5 + body_cycles(spec, value, kernel::all_axes(value)) +
              load_cycles(spec, value.operands, block, lanes);
  }
  return cycles;
}

/// The parameters: `block` elements at most in a block; `task` blocks in a task.
std::vector<Candidate> moments_candidates(const KernelSpec& original, const Bucket& bucket,
                                          const Target& target) {
  constexpr double kBlock = 60,
                   kPart = 12;  // cycles of a block besides its vectors; of a part when they are put together
  constexpr double kTaskElements = 32768;
  const KernelSpec spec = specialised(original, bucket);
  const auto m = moments_of(spec);
  if (!m || target.lanes(8) < 2) return {};
  const DimMap top = bucket.top();
  const Roofline roofline = roofline_of(spec, top, target);
  const int lanes = target.lanes(4);
  const auto results = static_cast<double>(group_of(spec.extents(), m->all.axes).size().exec(top));
  std::vector<Candidate> found;
  for (const int64_t block : {4096, 1024, 16384}) {
    const auto blocks = row_blocks(spec, *m, block, top);
    if (!blocks) continue;
    const auto count = results * static_cast<double>(blocks->count.exec(top));
    const auto elements = static_cast<double>(blocks->within.size().exec(top)) /
                          static_cast<double>(blocks->within.extents[0].exec(top)) *
                          static_cast<double>(blocks->part);
    const double task =
        std::clamp(std::floor(kTaskElements / elements), 1.0, std::max(1.0, count / (8.0 * target.threads)));
    const double folds =
                     count *
                     (std::ceil(elements / lanes) * moments_cycles(spec, *m, blocks->within, lanes) + kBlock),
                 together = count * kPart * static_cast<double>(m->all.values.size() + 2 * m->squares.size());
    const double cycles = folds * unevenness(std::ceil(count / task), target.threads) +
                          together * unevenness(results, target.threads);
    found.push_back({{{"block", block}, {"task", static_cast<int64_t>(task)}}, roofline.us(cycles, 2)});
  }
  std::ranges::stable_sort(found, {}, &Candidate::predicted_us);
  return found;
}

Program moments_lower(const KernelSpec& original, const Parameters& p, const Bucket& bucket,
                      const Target& target) {
  const KernelSpec spec = specialised(original, bucket);
  auto m = moments_of(spec);
  auto blocks = m ? row_blocks(spec, *m, p.at("block"), bucket.top()) : std::nullopt;
  LUMINAL_CHECK(blocks, "no blocks of rows: {}", spec.to_string());
  return MomentsLowering(spec, std::move(*m), std::move(*blocks), p.at("task"), target).lower();
}

}  // namespace

const Schedule& moments_schedule() {
  static const Schedule schedule{
      .name = "moments",
      .doc =
          "Sums of long rows with their squared deviations (variances), block by block, "
          "so that memory is read once: each block's deviations are taken from its own "
          "mean, and a second stage puts blocks together.",
      .candidates = moments_candidates,
      .lower = moments_lower};
  return schedule;
}

}  // namespace luminal::codegen
