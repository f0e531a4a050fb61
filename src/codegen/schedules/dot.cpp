#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>

#include "base/fail.h"
#include "codegen/block_load.h"
#include "codegen/schedules/cost.h"
#include "codegen/schedules/dot.h"
#include "codegen/schedules/families.h"
#include "codegen/schedules/outputs.h"
#include "codegen/schedules/reduce.h"
#include "codegen/schedules/specialise.h"
#include "codegen/schedules/vector_loops.h"

// Sums of products of weights in blocks and of numbers of 8 bits with a scale for each group (other blocks, or integers
// beside their scales): for values a = s (p + h) + o and b = t q, p and q bytes,
//   sum a b = sum over groups: s t (sum p q + h sum q) + o t sum q,
// where a group is what shares s, o and t. The sums of bytes are exact in integers; rows of results that read the same b
// share sum q.
namespace luminal::codegen {
namespace {

using kernel::KernelSpec;
using kernel::Operand;
using kernel::Value;

Dtype dtype_of(const KernelSpec& spec, const Operand& o) {
  return spec.slots()[static_cast<size_t>(o.slot)].dtype;
}

/// The loads whose product the body is, integers of 8 bits converted to f32. Empty where it is something else.
std::vector<Operand> factors_of(const Value& sum) {
  std::vector<Operand> factors;
  const auto collect = [&](const auto& self, Scalar at) -> bool {
    const ScalarNode& node = sum.body[at];
    if (node.op == ScalarOp::Mul) return self(self, node.operands[0]) && self(self, node.operands[1]);
    const ScalarNode& input = node.op == ScalarOp::Convert ? sum.body[node.operands[0]] : node;
    if (input.op != ScalarOp::Input || node.dtype != Dtype::F32) return false;
    const Operand& o = sum.operands[input.payload];
    if (o.kind != Operand::Kind::Load || !o.masks.empty()) return false;
    if (o.dtype != Dtype::F32 && o.dtype != Dtype::I8) return false;
    factors.push_back(o);
    return true;
  };
  if (!collect(collect, sum.body.outputs()[0])) factors.clear();
  return factors;
}

/// Positions of a sum, in row-major order over its axes.
struct SumPositions {
  AxisGroup axes;
  int64_t length = 0;
  Expression position;  ///< of the axes' variables
};

/// Whether it lies along the sum in whole runs of `run` neighbours.
bool reads_runs(const Operand& o, const SumPositions& sum, int64_t run) {
  const Expression row = o.index - sum.position;
  return !depends_on(row, sum.axes.axes) && row.divisor() % run == 0;
}

std::optional<DotSide> blocks_side(const KernelSpec& spec, const Operand& o, const SumPositions& sum) {
  if (!is_quantized(dtype_of(spec, o))) return std::nullopt;
  const BlockFormat& format = block_format(dtype_of(spec, o));
  if (!has_numbers(format) || sum.length % format.block_elements != 0 ||
      !reads_runs(o, sum, format.block_elements))
    return std::nullopt;
  return DotSide{.numbers = o, .scale = {}, .group = group_elements(format), .block = format.block_elements};
}

/// I8 whose scales are every `group` elements.
std::optional<DotSide> scaled_side(const Operand& numbers, const Operand& scale, const SumPositions& sum) {
  if (numbers.dtype != Dtype::I8 || scale.dtype != Dtype::F32 || !reads_runs(numbers, sum, 1))
    return std::nullopt;
  for (int64_t group = 16; group <= std::min<int64_t>(sum.length, 256); group *= 2)
    if (sum.length % group == 0 && !depends_on(scale.index - sum.position / group, sum.axes.axes))
      return DotSide{.numbers = numbers, .scale = scale, .group = group, .block = group};
  return std::nullopt;
}

/// Which side is the one without signs: the one with offsets, or else the one that fewer results share.
bool put_in_order(const KernelSpec& spec, const Reduction& reduction, DotSide& natural, DotSide& whole) {
  const auto has_offset = [&](const DotSide& side) {
    return !side.scale && !block_format(dtype_of(spec, side.numbers)).offset.empty();
  };
  const auto readers = [&](const DotSide& side) {
    return std::ranges::count_if(reduction.axes,
                                 [&](int a) { return depends_on(side.numbers.index, std::array{a}); });
  };
  if (has_offset(whole) || (!has_offset(natural) && !whole.scale && readers(whole) > readers(natural)))
    std::swap(natural, whole);
  return !has_offset(whole) && !natural.scale;
}

/// Nothing where the length is not a constant.
std::optional<SumPositions> positions_of(const KernelSpec& spec, const Reduction& reduction) {
  SumPositions sum{.axes = group_of(spec.extents(), reduction.reduced), .length = 1, .position = 0};
  for (const int axis : reduction.reduced) {
    const auto extent = spec.extents()[static_cast<size_t>(axis)].constant();
    if (!extent) return std::nullopt;
    sum.position = sum.position * *extent + Expression::index(axis, *extent);
    sum.length *= *extent;
  }
  return sum;
}

/// The two sides of a sum's products, in any order. Empty where it is something else.
std::vector<DotSide> sides_of(const KernelSpec& spec, const Value& value, const SumPositions& sum) {
  std::vector<DotSide> sides;
  std::vector<Operand> others;
  for (const Operand& o : factors_of(value)) {
    if (auto side = blocks_side(spec, o, sum))
      sides.push_back(std::move(*side));
    else
      others.push_back(o);
  }
  if (sides.size() == 1 && others.size() == 2) {
    auto side = scaled_side(others[0], others[1], sum);
    if (!side) side = scaled_side(others[1], others[0], sum);
    if (!side) return {};
    sides.push_back(std::move(*side));
    others.clear();
  }
  if (sides.size() != 2 || !others.empty()) sides.clear();
  return sides;
}

std::optional<BlockDot> analyse_dot(const KernelSpec& spec) {
  constexpr int64_t kLeastGroup = 16, kMostChunk = 256;
  const auto reduction = analyse_reduction(spec);
  if (!reduction || reduction->values.size() != 1) return std::nullopt;
  const Value& value = spec.values()[static_cast<size_t>(reduction->values[0])];
  const auto sum = positions_of(spec, *reduction);
  if (value.monoid != Monoid::Add || value.dtype() != Dtype::F32 || !sum || sum->length % kStepElements != 0)
    return std::nullopt;
  std::vector<DotSide> sides = sides_of(spec, value, *sum);
  if (sides.empty() || !put_in_order(spec, *reduction, sides[0], sides[1])) return std::nullopt;
  BlockDot dot{.reduction = *reduction,
               .natural = sides[0],
               .whole = sides[1],
               .length = sum->length,
               .reduced = sum->axes};
  dot.group = std::min<int64_t>({sides[0].group, sides[1].group, kStepElements});
  if (dot.group < kLeastGroup) return std::nullopt;
  dot.chunk = std::max<int64_t>({sides[0].block, sides[1].block, kStepElements});
  while (dot.chunk < kMostChunk && dot.length % (2 * dot.chunk) == 0) dot.chunk *= 2;
  // Halves of a block that lie in the same bytes, of two blocks, fill the lanes without being put together.
  const BlockFormat& format = block_format(dtype_of(spec, dot.natural.numbers));
  if (format.block_elements == kStepElements && 2 * run_elements(format) == kStepElements &&
      dot.group == kStepElements && dot.chunk > kStepElements && dot.whole.scale)
    dot.run = kStepElements / 2;
  for (const int a : reduction->axes)
    (depends_on(dot.natural.numbers.index, std::array{a}) ? dot.rows : dot.columns).push_back(a);
  return dot;
}

/// Neighbours added until there is one lane for `times` of them; vectors are one after the other.
Id folded_lanes(StageBuilder& b, std::vector<Id> sums, int64_t times) {
  const auto every_second = [](int lanes, int first) {
    return lanes_by(lanes, [&](int l) { return 2 * l + first; });
  };
  for (; times > 1; times /= 2) {
    std::vector<Id> next;
    for (size_t i = 0; i < sums.size(); i += 2) {
      const bool alone = i + 1 == sums.size();
      const Id low = sums[i], high = alone ? low : sums[i + 1];
      const int lanes = b.type(low).lanes / (alone ? 2 : 1);
      next.push_back(b.compute(ScalarOp::Add, {b.shuffle(low, high, every_second(lanes, 0)),
                                               b.shuffle(low, high, every_second(lanes, 1))}));
    }
    sums = std::move(next);
  }
  for (; sums.size() > 1; sums.resize(sums.size() / 2))
    for (size_t i = 0; i < sums.size() / 2; ++i)
      sums[i] = b.shuffle(sums[2 * i], sums[2 * i + 1],
                          lanes_by(2 * b.type(sums[2 * i]).lanes, [](int l) { return l; }));
  return sums[0];
}

}  // namespace

std::vector<int> lanes_by(int count, const std::function<int(int)>& from) {
  std::vector<int> pattern;
  for (int l = 0; l < count; ++l) pattern.push_back(from(l));
  return pattern;
}

Id spread_lanes(StageBuilder& b, Id lanes, const std::vector<int>& pattern) {
  const int count = b.type(lanes).lanes;
  if (count == 1) return b.broadcast(lanes, static_cast<int>(pattern.size()));
  if (count != std::ssize(pattern)) return b.shuffle(lanes, lanes, pattern);
  return b.permute(b.convert(b.lanes(pattern), Dtype::I32),
                   {lanes});  // one instruction, whatever the pattern
}

Id add_sums(StageBuilder& b, Id sums, Id numbers, int factor) {
  return b.dot4(sums, b.constant_bits({Dtype::U8, kStepElements}, static_cast<uint64_t>(factor)), numbers,
                factor);
}

bool DotLoads::has_offset() const {
  return !block_format(dtype_of(spec_, dot_.natural.numbers)).offset.empty();
}

Expression DotLoads::index_of(const Operand& o, Coordinates at, const Expression& position) const {
  dot_.reduced.place(position, at);
  return o.index.substitute_indices(at);
}

BlockNumbers DotLoads::row_numbers(StageBuilder& b, const Coordinates& row, const Expression& position,
                                   int64_t run) const {
  const Operand& o = dot_.natural.numbers;
  const auto load = run == kStepElements ? load_numbers : load_numbers_of_two;
  return load(b, o.slot, index_of(o, row, position), kStepElements, false);
}

BlockFactors DotLoads::row_factors(StageBuilder& b, const Coordinates& row, const Expression& from) const {
  const Operand& o = dot_.natural.numbers;
  return load_factors(b, o.slot, index_of(o, row, from), dot_.groups(), dot_.group);
}

Id DotLoads::column_numbers(StageBuilder& b, const Coordinates& column, const Expression& position,
                            int64_t run) const {
  const DotSide& side = dot_.whole;
  const Expression index = index_of(side.numbers, column, position);
  if (!side.scale) return load_numbers(b, side.numbers.slot, index, kStepElements, true).numbers;
  const int lanes = static_cast<int>(run);
  const Id first = b.load(side.numbers.slot, index, lanes);
  if (run == kStepElements) return first;
  return b.shuffle(first, b.load(side.numbers.slot, index + kStepElements, lanes),
                   lanes_by(kStepElements, [](int l) { return l; }));
}

Id DotLoads::column_scales(StageBuilder& b, const Coordinates& column, const Expression& from) const {
  const DotSide& side = dot_.whole;
  if (!side.scale)
    return load_factors(b, side.numbers.slot, index_of(side.numbers, column, from), dot_.groups(), dot_.group)
        .scale;
  // Each is that of so many groups.
  const auto times = static_cast<int>(std::min(side.group, dot_.chunk) / dot_.group);
  const Id given = b.load(side.scale->slot, index_of(*side.scale, column, from), dot_.groups() / times);
  // Where numbers times their scale are infinities, a sum of their terms is NaN as soon as two differ in sign or one is
  // 0, but the sum in integers has one sign. So such a scale becomes NaN.
  constexpr double kGreatest = 127;
  const Id most = b.compute(ScalarOp::Mul, {given, b.constant(b.type(given), kGreatest)});
  const Id scales = b.compute(ScalarOp::Add, {given, b.compute(ScalarOp::Sub, {most, most})});
  if (times == 1) return scales;
  return spread_lanes(b, scales, lanes_by(dot_.groups(), [&](int g) { return g / times; }));
}

Id DotLoads::column_sums(StageBuilder& b, const Coordinates& column, const Expression& from) const {
  const Id zero = b.constant_bits({Dtype::I32, kStepSums}, 0);
  std::vector<Id> sums;
  for (int64_t at = 0; at < dot_.chunk; at += kStepElements)
    sums.push_back(add_sums(b, zero, column_numbers(b, column, from + at, kStepElements), 1));
  return folded_lanes(b, std::move(sums), dot_.group / 4);
}

namespace {

/// The parameters: rows and columns of results taken together, tiles of rows in a task. The rows of a tile lie `task`
/// apart, so that each is a stream of its own that the hardware reads ahead: rows that are neighbours end too soon.
struct DotForm {
  int64_t rows = 1, columns = 1, task = 1;
};

class DotLowering {
 public:
  DotLowering(const KernelSpec& spec, BlockDot dot, DotForm form)
      : spec_(spec),
        loads_(spec, std::move(dot)),
        dot_(loads_.dot()),
        form_(form),
        program_(program_for(spec, "dot")),
        rows_(group_of(spec.extents(), dot_.rows)),
        columns_(group_of(spec.extents(), dot_.columns)) {}

  Program lower() {
    if (has_offset())
      sums_ = add_buffer(
          program_,
          {.name = "sums", .space = Space::Local, .elements = form_.columns * dot_.length / dot_.group});
    const int64_t task_rows = form_.rows * form_.task;
    StageBuilder b(program_, rows_.size().ceil_div(task_rows));
    b.loop(columns_.size().ceil_div(form_.columns), LoopKind::Serial, [&](const Expression& column) {
      const Places columns = places(columns_, column * form_.columns, form_.columns, 1);
      if (has_offset()) store_sums(b, columns);
      const Expression first = b.task() * task_rows;
      b.loop((rows_.size() - first).min(form_.task), LoopKind::Serial, [&](const Expression& tile) {
        this->tile(b, places(rows_, first + tile, form_.rows, form_.task), columns);
      });
    });
    b.finish();
    return std::move(program_);
  }

 private:
  /// Places of a group, `apart` from one to the next; those behind its end are its last one.
  struct Places {
    Expression first, size;
    int64_t apart = 1;
    bool whole = true;  ///< none is behind the end
    std::vector<Coordinates> at;
  };
  /// `first` begins less than `apart` behind a multiple of count * apart.
  [[nodiscard]] Places places(const AxisGroup& group, const Expression& first, int64_t count,
                              int64_t apart) const {
    Places p{.first = first, .size = group.size(), .apart = apart};
    p.whole = p.size % (count * apart) == Expression(0);
    for (int64_t i = 0; i < count; ++i) {
      Coordinates& here = p.at.emplace_back(spec_.extents().size(), 0);
      const Expression place = first + i * apart;
      group.place(p.whole ? place : place.min(p.size - 1), here);
    }
    return p;
  }
  /// All results of a tile: rows times columns.
  void tile(StageBuilder& b, const Places& rows, const Places& columns) const {
    const size_t count = rows.at.size() * columns.at.size();
    std::vector<Id> totals(count, b.constant({Dtype::F32, kStepSums}, 0));
    if (has_offset()) totals.resize(2 * count, b.constant({Dtype::F32, dot_.groups()}, 0));
    totals = b.loop(dot_.length / dot_.chunk, LoopKind::Serial, std::move(totals),
                    [&](const Expression& chunk, std::span<const Id> carried) {
                      return add_chunk(b, rows, columns, chunk, {carried.begin(), carried.end()});
                    });
    for (size_t r = 0; r < rows.at.size(); ++r)
      for (size_t c = 0; c < columns.at.size(); ++c) {
        const size_t at = r * columns.at.size() + c;
        const auto write = [&] {
          Id total = b.reduce(ScalarOp::Add, totals[at]);
          if (has_offset())
            total = b.compute(ScalarOp::Add, {total, b.reduce(ScalarOp::Add, totals[count + at])});
          Coordinates here = rows.at[r];
          for (const int a : dot_.columns)
            here[static_cast<size_t>(a)] = columns.at[c][static_cast<size_t>(a)];
          const std::map<int, Id> known{{dot_.reduction.values[0], total}};
          store_outputs_from(b, spec_, kernel::axes_of(dot_.reduction.axes), Ramp(b), here, known);
        };
        if_inside(b, rows, r, [&] { if_inside(b, columns, c, write); });
      }
  }
  static void if_inside(StageBuilder& b, const Places& p, size_t i, const std::function<void()>& body) {
    if (p.whole || i == 0) return body();
    const Expression place = p.first + static_cast<int64_t>(i) * p.apart;
    b.if_true(b.compute(ScalarOp::Lt, {b.index(place), b.index(p.size)}), body);
  }

  /// totals + the products of a chunk; behind them, if there are offsets, what these add, in lanes of groups.
  std::vector<Id> add_chunk(StageBuilder& b, const Places& rows, const Places& columns,
                            const Expression& chunk, std::vector<Id> totals) const {
    const size_t count = rows.at.size() * columns.at.size();
    const Expression from = chunk * dot_.chunk;
    std::vector<Id> scales, column_scales;
    for (const Coordinates& column : columns.at)
      column_scales.push_back(loads_.column_scales(b, column, from));
    for (size_t r = 0; r < rows.at.size(); ++r) {
      const BlockFactors f = loads_.row_factors(b, rows.at[r], from);
      for (size_t c = 0; c < columns.at.size(); ++c) {
        scales.push_back(b.compute(ScalarOp::Mul, {f.scale, column_scales[c]}));
        if (f.offset == kNone) continue;
        Id& total = totals[count + r * columns.at.size() + c];
        const Id sums = b.load(sums_, place_of_sums(c, from), dot_.groups());
        total = b.compute(ScalarOp::Fma, {f.offset, sums, total});
      }
    }
    for (int64_t at = 0; at < dot_.chunk; at += kStepElements * dot_.parts())
      add_step(b, rows, columns, from, at, scales, totals);
    return totals;
  }

  /// Products of the elements from + at on: as many dot4s as there are parts, and one multiplication by scales.
  void add_step(StageBuilder& b, const Places& rows, const Places& columns, const Expression& from,
                int64_t at, std::span<const Id> scales, std::vector<Id>& totals) const {
    const std::vector<int> spread = lanes_by(kStepSums, [&](int l) {
      return static_cast<int>((at + 4 * l / dot_.run * kStepElements + 4 * l % dot_.run) / dot_.group);
    });
    std::vector<std::vector<BlockNumbers>> p(rows.at.size());  // by part
    for (size_t r = 0; r < rows.at.size(); ++r)
      for (int part = 0; part < dot_.parts(); ++part)
        p[r].push_back(loads_.row_numbers(b, rows.at[r], from + (at + part * dot_.run), dot_.run));
    for (size_t c = 0; c < columns.at.size(); ++c) {
      std::vector<Id> q;
      for (int part = 0; part < dot_.parts(); ++part)
        q.push_back(loads_.column_numbers(b, columns.at[c], from + (at + part * dot_.run), dot_.run));
      const Id begin = shifted(b, q, p[0][0].shift);
      for (size_t r = 0; r < rows.at.size(); ++r) {
        const size_t total = r * columns.at.size() + c;
        Id sum = begin;
        for (size_t part = 0; part < q.size(); ++part)
          sum = b.dot4(sum, p[r][part].numbers, q[part], p[r][part].greatest);
        totals[total] = b.compute(ScalarOp::Fma, {spread_lanes(b, scales[total], spread),
                                                  b.convert(sum, Dtype::F32), totals[total]});
      }
    }
  }
  /// shift * the sums of four of all parts; the shift is not above 0.
  static Id shifted(StageBuilder& b, std::span<const Id> q, int shift) {
    const Id zero = b.constant_bits({Dtype::I32, kStepSums}, 0);
    if (shift == 0) return zero;
    Id sums = zero;
    for (const Id part : q) sums = add_sums(b, sums, part, -shift);
    return b.compute(ScalarOp::Sub, {zero, sums});
  }
  [[nodiscard]] bool has_offset() const { return loads_.has_offset(); }
  /// scale * sum q of each group of the columns.
  void store_sums(StageBuilder& b, const Places& columns) const {
    b.loop(dot_.length / dot_.chunk, LoopKind::Serial, [&](const Expression& chunk) {
      const Expression from = chunk * dot_.chunk;
      for (size_t c = 0; c < columns.at.size(); ++c) {
        const Id sums = b.convert(loads_.column_sums(b, columns.at[c], from), Dtype::F32);
        b.store(sums_, place_of_sums(c, from),
                b.compute(ScalarOp::Mul, {sums, loads_.column_scales(b, columns.at[c], from)}));
      }
    });
  }
  [[nodiscard]] Expression place_of_sums(size_t column, const Expression& from) const {
    return (static_cast<int64_t>(column) * dot_.length + from) / dot_.group;
  }

  const KernelSpec& spec_;
  DotLoads loads_;
  const BlockDot& dot_;
  DotForm form_;
  Program program_;
  AxisGroup rows_, columns_;
  int sums_ = -1;
};

/// What forms of a product are priced by.
struct DotPrices {
  const KernelSpec& spec;
  const BlockDot& dot;
  const Target& target;
  DimMap top;
  double rows, columns, steps;
  const BlockFormat& format;

  [[nodiscard]] bool has_offset() const { return !format.offset.empty(); }
  /// Each group puts its scale together.
  [[nodiscard]] bool has_inner_scales() const { return format.block_elements > dot.group; }
  [[nodiscard]] double us(double cycles, int stages) const {
    return roofline_of(spec, top, target).us(cycles, stages);
  }
};

/// Rows where they lie, lanes along the sum.
void add_row_forms(const DotPrices& p, std::vector<Candidate>& list) {
  constexpr double kMultiply = 1.25, kUnpack = 1.25, kShared = 0.75, kOffset = 0.25, kInnerScale = 1,
                   kEnd = 10;
  for (const int64_t rows : {4, 2, 1})
    for (const int64_t columns : {4, 2, 1}) {
      const auto r = static_cast<double>(rows), c = static_cast<double>(columns);
      if (r > std::max(1.0, p.rows) || c > std::max(1.0, p.columns)) continue;
      const double cycles = p.steps * (kMultiply + (kUnpack + (p.has_inner_scales() ? kInnerScale : 0)) / c +
                                       kShared / r + (p.has_offset() ? kOffset : 0)) +
                            p.rows * p.columns * kEnd;
      const int64_t task = std::clamp<int64_t>(static_cast<int64_t>(p.rows) / (rows * 8 * p.target.threads),
                                               1, std::max<int64_t>(1, 262144 / (p.dot.length * rows)));
      list.push_back({{{"rows", rows}, {"columns", columns}, {"task", task}}, p.us(cycles, 1)});
    }
}

/// Lanes are rows.
void add_panel_forms(const DotPrices& p, std::vector<Candidate>& list) {
  const auto packed = packed_panels(p.spec, p.dot, p.target);
  if (!packed && !has_panels(p.dot, p.target)) return;
  constexpr int kPairsFit = 127;  // as code for AVX2 is made (llvm_arithmetic.cpp)
  // Cycles of a panel's step and a column.
  constexpr double kByDots = 8, kBySums = 10, kByPairs = 24, kScale = 3.2, kUnpack = 8, kInnerScale = 4;
  const int rows = packed ? packed->rows() : kRowsInPlace;
  const bool by_sums = packed && packed->greatest() <= kPairsFit;
  const double multiply = p.target.dots ? kByDots : by_sums ? kBySums : kByPairs;
  const double scale = kScale * static_cast<double>(kStepElements / p.dot.group) * (p.has_offset() ? 1.5 : 1);
  const double each = (multiply + scale) / rows;
  if (packed) {
    constexpr double kTaskBytes = 65536;  // so that terms of columns are a small part
    const double panel_bytes =
        rows * static_cast<double>(p.dot.length) * p.format.block_bytes / p.format.block_elements;
    const auto most = std::max<int64_t>(1, static_cast<int64_t>(kTaskBytes / panel_bytes));
    const int64_t panels = static_cast<int64_t>(p.rows) / rows;
    const int64_t task = std::clamp<int64_t>(panels / (8 * p.target.threads), 1, most);
    for (const int64_t columns : {8, 4, 2, 1}) {
      const auto c = static_cast<double>(columns);
      if (c > std::max(1.0, p.columns)) continue;
      const double unpack = (kUnpack + (p.has_inner_scales() ? kInnerScale : 0)) / rows;
      list.push_back({{{"packed", 1}, {"rows", rows}, {"columns", columns}, {"task", task}},
                      p.us(p.steps * (each + unpack / c), 1)});
    }
  }
  for (const int64_t columns : {8, 4}) {
    const auto c = static_cast<double>(columns);
    if (c > p.columns) continue;
    const double unpack = packed ? 32.0 / rows : 6;  // of a row, for all columns
    Parameters parameters{{"panels", 1}, {"rows", rows}, {"columns", columns}, {"task", 1}};
    if (packed) parameters.emplace("packed", 1);
    list.push_back({std::move(parameters), p.us(p.steps * (each + 0.3 / c + unpack / p.columns), 2)});
  }
}

std::vector<Candidate> dot_candidates(const KernelSpec& original, const Bucket& bucket,
                                      const Target& target) {
  const KernelSpec spec = specialised(original, bucket);
  const auto dot = analyse_dot(spec);
  if (!dot || target.lanes(4) < 4) return {};
  DotPrices prices{.spec = spec,
                   .dot = *dot,
                   .target = target,
                   .top = bucket.top(),
                   .rows = 0,
                   .columns = 0,
                   .steps = 0,
                   .format = block_format(dtype_of(spec, dot->natural.numbers))};
  const auto count = [&](const std::vector<int>& axes) {
    return static_cast<double>(group_of(spec.extents(), axes).size().exec(prices.top));
  };
  prices.rows = count(dot->rows), prices.columns = count(dot->columns);
  prices.steps = prices.rows * prices.columns * static_cast<double>(dot->length / kStepElements);
  std::vector<Candidate> list;
  add_panel_forms(prices, list);  // of forms that memory makes equal these read it best
  add_row_forms(prices, list);
  std::ranges::stable_sort(list, {}, &Candidate::predicted_us);
  return list;
}

Program dot_lower(const KernelSpec& original, const Parameters& p, const Bucket& bucket,
                  const Target& target) {
  const KernelSpec spec = specialised(original, bucket);
  auto dot = analyse_dot(spec);
  LUMINAL_CHECK(dot, "no product of blocks: {}", spec.to_string());
  const bool is_packed = parameter_or(p, "packed", 0) != 0;
  const auto panels = is_packed ? packed_panels(spec, *dot, target) : std::nullopt;
  LUMINAL_CHECK(panels || !is_packed, "no weights to pack: {}", spec.to_string());
  if (parameter_or(p, "panels", 0) != 0)
    return lower_dot_panels(spec, std::move(*dot), panels, p.at("columns"));
  if (panels) return lower_dot_packed(spec, std::move(*dot), *panels, p.at("columns"), p.at("task"));
  return DotLowering(spec, std::move(*dot),
                     {.rows = p.at("rows"), .columns = parameter_or(p, "columns", 1), .task = p.at("task")})
      .lower();
}

}  // namespace

const Schedule& dot_schedule() {
  static const Schedule schedule{.name = "dot",
                                 .doc =
                                     "Sums of products of block-quantised weights and numbers of 8 bits: "
                                     "products of bytes added in integers, scaled once for each group.",
                                 .candidates = dot_candidates,
                                 .lower = dot_lower};
  return schedule;
}

}  // namespace luminal::codegen
