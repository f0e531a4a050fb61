#include <algorithm>
#include <array>
#include <numeric>

#include "base/fail.h"
#include "codegen/block_load.h"
#include "codegen/schedules/cost.h"
#include "codegen/schedules/families.h"
#include "codegen/schedules/outputs.h"
#include "codegen/schedules/reduce.h"
#include "codegen/schedules/specialise.h"
#include "codegen/schedules/vector_loops.h"

// Sums of products of two operands that are both in blocks: for values a = s (p + h) + o and b = t q, p and q bytes,
//   sum a b = sum over groups: s t (sum p q + h sum q) + o t sum q,
// where a group is what shares s, o and t. The sums of bytes are exact in integers; rows of results that read the same b
// share sum q.
namespace luminal::codegen {
namespace {

using kernel::KernelSpec;
using kernel::Operand;
using kernel::Value;

struct BlockDot {
  Reduction reduction;
  Operand natural, whole;  ///< the sides whose bytes have no sign, and have one
  int64_t length = 0;      ///< of the sum
  int64_t group = 0;       ///< elements that share scales, at most kMostLanes
  int64_t chunk = 0;       ///< elements of the longer block
};

const BlockFormat& format_of(const KernelSpec& spec, const Operand& o) {
  return block_format(spec.slots()[static_cast<size_t>(o.slot)].dtype);
}

/// Whole rows of blocks, without masks.
bool reads_rows(const KernelSpec& spec, const Operand& o, int axis, int64_t length) {
  if (o.kind != Operand::Kind::Load || !o.masks.empty()) return false;
  if (!is_quantized(spec.slots()[static_cast<size_t>(o.slot)].dtype)) return false;
  const BlockFormat& format = format_of(spec, o);
  if (!has_numbers(format) || length % format.block_elements != 0) return false;
  const Expression k = Expression::index(axis, spec.extents()[static_cast<size_t>(axis)]);
  const Expression row = o.index - k;
  return !depends_on(row, std::array{axis}) && row.divisor() % format.block_elements == 0;
}

std::optional<BlockDot> analyse_dot(const KernelSpec& spec) {
  constexpr int64_t kLeastGroup = 16, kMostGroup = 32;
  const auto reduction = analyse_reduction(spec);
  if (!reduction || reduction->values.size() != 1 || reduction->reduced.size() != 1) return std::nullopt;
  const Value& sum = spec.values()[static_cast<size_t>(reduction->values[0])];
  const auto nodes = sum.body.nodes();
  const ScalarNode& last = sum.body[sum.body.outputs()[0]];
  const int axis = reduction->reduced[0];
  const auto length = spec.extents()[static_cast<size_t>(axis)].constant();
  if (sum.monoid != Monoid::Add || sum.dtype() != Dtype::F32 || nodes.size() != 3 ||
      sum.operands.size() != 2 || last.op != ScalarOp::Mul ||
      last.operands[0].index == last.operands[1].index || !length)
    return std::nullopt;
  for (const Operand& o : sum.operands)
    if (!reads_rows(spec, o, axis, *length)) return std::nullopt;
  // Offsets belong to the side without signs. Otherwise the side with signs is the one that more results share.
  const auto has_offset = [&](const Operand& o) { return !format_of(spec, o).offset.empty(); };
  const auto readers = [&](const Operand& o) {
    return std::ranges::count_if(reduction->axes, [&](int a) { return depends_on(o.index, std::array{a}); });
  };
  Operand natural = sum.operands[0], whole = sum.operands[1];
  if (has_offset(whole) || (!has_offset(natural) && readers(whole) > readers(natural)))
    std::swap(natural, whole);
  if (has_offset(whole)) return std::nullopt;
  const BlockFormat &n = format_of(spec, natural), &w = format_of(spec, whole);
  const int64_t group = std::min({group_elements(n), group_elements(w), kMostGroup});
  if (group < kLeastGroup) return std::nullopt;
  return BlockDot{*reduction, natural, whole, *length, group, std::max(n.block_elements, w.block_elements)};
}

/// The parameters: results taken together, groups of them in a task.
struct DotForm {
  int64_t rows = 1, task = 1;
};

class DotLowering {
 public:
  DotLowering(const KernelSpec& spec, BlockDot dot, DotForm form)
      : spec_(spec), dot_(std::move(dot)), form_(form), program_(program_for(spec, "dot")) {
    results_ = group_of(spec.extents(), dot_.reduction.axes);
  }

  Program lower() {
    const Expression count = results_.size(), groups = count.ceil_div(form_.rows);
    StageBuilder b(program_, groups.ceil_div(form_.task));
    b.loop((groups - b.task() * form_.task).min(form_.task), LoopKind::Serial,
           [&](const Expression& g) { rows(b, (b.task() * form_.task + g) * form_.rows, count); });
    b.finish();
    return std::move(program_);
  }

 private:
  void rows(StageBuilder& b, const Expression& first, const Expression& count) const {
    const bool whole = count % form_.rows == Expression(0);
    std::vector<Coordinates> at;
    for (int64_t row = 0; row < form_.rows; ++row) {
      Coordinates& here = at.emplace_back(spec_.extents().size(), 0);
      results_.place(whole ? first + row : (first + row).min(count - 1), here);
    }
    const int lanes = static_cast<int>(dot_.group / 4);
    std::vector<Id> totals;
    for (size_t row = 0; row < at.size(); ++row) totals.push_back(b.constant({Dtype::F32, lanes}, 0));
    totals = b.loop(dot_.length / dot_.chunk, LoopKind::Serial, std::move(totals),
                    [&](const Expression& chunk, std::span<const Id> carried) {
                      std::vector<Id> next(carried.begin(), carried.end());
                      for (int64_t begin = 0; begin < dot_.chunk; begin += dot_.group)
                        for (size_t row = 0; row < at.size(); ++row)
                          next[row] = add_group(b, at[row], chunk * dot_.chunk + begin, next[row]);
                      return next;
                    });
    for (int64_t row = 0; row < form_.rows; ++row) {
      const auto write = [&] {
        const auto r = static_cast<size_t>(row);
        const std::map<int, Id> known{{dot_.reduction.values[0], b.reduce(ScalarOp::Add, totals[r])}};
        store_outputs_from(b, spec_, kernel::axes_of(dot_.reduction.axes), Ramp(b), at[r], known);
      };
      if (whole || row == 0)
        write();
      else
        b.if_true(b.compute(ScalarOp::Lt, {b.index(first + row), b.index(count)}), write);
    }
  }

  /// total + the products of one group, in lanes of four elements each.
  Id add_group(StageBuilder& b, Coordinates at, const Expression& position, Id total) const {
    at[static_cast<size_t>(dot_.reduction.reduced[0])] = position;
    const int lanes = static_cast<int>(dot_.group), sums = lanes / 4;
    const auto load = [&](const Operand& o, bool is_signed) {
      return load_numbers(b, o.slot, o.index.substitute_indices(at), lanes, is_signed);
    };
    const BlockNumbers p = load(dot_.natural, false), q = load(dot_.whole, true);
    const Id zero = b.constant_bits({Dtype::I32, sums}, 0);
    const auto times = [&](int factor) {  // factor * sum q
      return b.dot4(zero, b.constant_bits({Dtype::U8, lanes}, static_cast<uint64_t>(factor)), q.numbers);
    };
    const Id begin = p.shift == 0 ? zero : b.compute(ScalarOp::Sub, {zero, times(-p.shift)});
    const Id sum = b.convert(b.dot4(begin, p.numbers, q.numbers), Dtype::F32);
    const auto scaled = [&](Id scale, Id x) {
      const Id both = b.broadcast(b.compute(ScalarOp::Mul, {scale, q.scale}), sums);
      return b.compute(ScalarOp::Fma, {both, x, total});
    };
    total = scaled(p.scale, sum);
    if (p.offset != kNone) total = scaled(p.offset, b.convert(times(1), Dtype::F32));
    return total;
  }

  const KernelSpec& spec_;
  BlockDot dot_;
  DotForm form_;
  Program program_;
  AxisGroup results_;
};

std::vector<Candidate> dot_candidates(const KernelSpec& original, const Bucket& bucket,
                                      const Target& target) {
  const KernelSpec spec = specialised(original, bucket);
  const auto dot = analyse_dot(spec);
  if (!dot || target.lanes(4) < 4) return {};
  const DimMap top = bucket.top();
  const auto results = static_cast<double>(group_of(spec.extents(), dot->reduction.axes).size().exec(top));
  const double groups = results * static_cast<double>(dot->length / dot->group);
  const BlockFormat& format = format_of(spec, dot->natural);
  const bool has_offset = !format.offset.empty();
  const bool has_inner_scales = format.block_elements > dot->group;  // each group puts its scale together
  std::vector<Candidate> list;
  for (const int64_t rows : {4, 2, 1}) {
    if (static_cast<double>(rows) > std::max(1.0, results)) continue;
    constexpr double kDecode = 4, kShared = 3, kOffset = 2, kInnerScale = 4, kEnd = 10;
    const double cycles = groups * (kDecode + kShared / static_cast<double>(rows) +
                                    (has_offset ? kOffset : 0) + (has_inner_scales ? kInnerScale : 0)) +
                          results * kEnd;
    const int64_t task = std::clamp<int64_t>(static_cast<int64_t>(results) / (rows * 8 * target.threads), 1,
                                             std::max<int64_t>(1, 65536 / (dot->length * rows)));
    list.push_back({{{"rows", rows}, {"task", task}}, roofline_of(spec, top, target).us(cycles, 1)});
  }
  std::ranges::stable_sort(list, {}, &Candidate::predicted_us);
  return list;
}

Program dot_lower(const KernelSpec& original, const Parameters& p, const Bucket& bucket, const Target&) {
  const KernelSpec spec = specialised(original, bucket);
  auto dot = analyse_dot(spec);
  LUMINAL_CHECK(dot, "no product of blocks: {}", spec.to_string());
  return DotLowering(spec, std::move(*dot), {.rows = p.at("rows"), .task = p.at("task")}).lower();
}

}  // namespace

const Schedule& dot_schedule() {
  static const Schedule schedule{.name = "dot",
                                 .doc =
                                     "Sums of products of two block-quantised operands: products of "
                                     "bytes added in integers, scaled once for each group.",
                                 .candidates = dot_candidates,
                                 .lower = dot_lower};
  return schedule;
}

}  // namespace luminal::codegen
