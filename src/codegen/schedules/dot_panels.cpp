#include <algorithm>
#include <map>
#include <utility>

#include "codegen/schedules/dot.h"
#include "codegen/schedules/outputs.h"
#include "codegen/schedules/specialise.h"
#include "kernel/axes.h"

// Many columns: lanes are rows. A task unpacks a panel of rows into memory of its own, four numbers of each row side by
// side, and walks through all columns with it: a dot4 multiplies them with four numbers of a column that all lanes share.
// So no sum is left over lanes, and the work of unpacking is done once. Scales and sums of columns are a stage before.
namespace luminal::codegen {
namespace {

constexpr int kPanelBytes = 4 * kPanelRows;  ///< of a vector: four numbers of each row

/// The blocks of `size` lanes in each half of the vectors turned: block j of vector i becomes block i of vector j
/// (Eklundh 1972). There are as many vectors as blocks in a half.
void turn_halves(StageBuilder& b, std::vector<Id>& vectors, int size) {
  const int count = static_cast<int>(vectors.size()), lanes = 2 * count * size;
  for (int apart = 1; apart < count; apart *= 2) {
    const auto odd = [&](int l) { return (l / size % count & apart) != 0; };
    const std::vector<int> low =
        lanes_by(lanes, [&](int l) { return odd(l) ? lanes + l - apart * size : l; });
    const std::vector<int> high =
        lanes_by(lanes, [&](int l) { return odd(l) ? lanes + l : l + apart * size; });
    for (int i = 0; i < count; ++i) {
      if ((i & apart) != 0) continue;
      Id &first = vectors[static_cast<size_t>(i)], &second = vectors[static_cast<size_t>(i + apart)];
      const Id top = b.shuffle(first, second, low), bottom = b.shuffle(first, second, high);
      first = top, second = bottom;
    }
  }
}

/// Vectors of the first half of the rows, each with that of the row as far behind it.
std::vector<Id> joined_rows(StageBuilder& b, const std::vector<Id>& rows) {
  std::vector<Id> joined;
  const size_t half = rows.size() / 2;
  for (size_t i = 0; i < half; ++i)
    joined.push_back(
        b.shuffle(rows[i], rows[i + half], lanes_by(2 * b.type(rows[i]).lanes, [](int l) { return l; })));
  return joined;
}

class DotPanels {
 public:
  DotPanels(const kernel::KernelSpec& spec, BlockDot dot, int64_t columns)
      : loads_(spec, std::move(dot)),
        dot_(loads_.dot()),
        width_(columns),
        groups_(dot_.length / dot_.group),
        program_(program_for(spec, "dot")),
        rows_(group_of(spec.extents(), dot_.rows)),
        columns_(group_of(spec.extents(), dot_.columns)) {}

  Program lower() {
    numbers_ = local("numbers", Dtype::U8, kPanelRows * dot_.length);
    scales_ = local("scales", Dtype::F32, kPanelRows * groups_);
    if (loads_.has_offset()) offsets_ = local("offsets", Dtype::F32, kPanelRows * groups_);
    StageBuilder b(program_, rows_.size().ceil_div(kPanelRows));
    const Expression first = b.task() * kPanelRows;
    unpack(b, first);
    // By now it is known what the rows' numbers lack. The stage of columns is finished first, so it comes first.
    factors_ = shared("factors", Dtype::F32);
    if (shift_ != 0) begins_ = shared("begins", Dtype::I32);
    if (loads_.has_offset()) sums_ = shared("sums", Dtype::F32);
    stage_of_columns();
    b.loop(columns_.size().ceil_div(width_), LoopKind::Serial,
           [&](const Expression& tile) { multiply(b, first, tile * width_); });
    b.finish();
    return std::move(program_);
  }

 private:
  int local(const char* name, Dtype dtype, int64_t elements) {
    return add_buffer(program_, {.name = name, .space = Space::Local, .dtype = dtype, .elements = elements});
  }
  /// For each group of each column.
  int shared(const char* name, Dtype dtype) {
    return add_buffer(
        program_,
        {.name = name, .space = Space::Shared, .dtype = dtype, .elements = columns_.size() * groups_});
  }
  /// Coordinates; behind the group's end its last ones.
  [[nodiscard]] Coordinates place(const AxisGroup& group, const Expression& at) const {
    Coordinates here(loads_.spec().extents().size(), 0);
    group.place(at.min(group.size() - 1), here);
    return here;
  }

  /// Scales of groups, shift * their sums, and these times the scales.
  void stage_of_columns() {
    StageBuilder b(program_, columns_.size());
    b.loop(dot_.length / dot_.chunk, LoopKind::Serial, [&](const Expression& chunk) {
      const Expression from = chunk * dot_.chunk, at = b.task() * groups_ + chunk * dot_.groups();
      const Coordinates column = place(columns_, b.task());
      const Id scales = loads_.column_scales(b, column, from);
      b.store(factors_, at, scales);
      if (begins_ < 0 && sums_ < 0) return;
      const Id sums = loads_.column_sums(b, column, from);
      const Id shift = b.constant_bits({Dtype::I32, dot_.groups()}, static_cast<uint32_t>(shift_));
      if (begins_ >= 0) b.store(begins_, at, b.compute(ScalarOp::Mul, {sums, shift}));
      if (sums_ >= 0) b.store(sums_, at, b.compute(ScalarOp::Mul, {b.convert(sums, Dtype::F32), scales}));
    });
    b.finish();
  }

  void unpack(StageBuilder& b, const Expression& first) {
    std::vector<Coordinates> rows;
    for (int r = 0; r < kPanelRows; ++r) rows.push_back(place(rows_, first + r));
    b.loop(dot_.length / dot_.chunk, LoopKind::Serial, [&](const Expression& chunk) {
      const Expression from = chunk * dot_.chunk;
      std::vector<Id> scales, offsets;
      for (const Coordinates& row : rows) {
        const BlockFactors f = loads_.row_factors(b, row, from);
        scales.push_back(f.scale), offsets.push_back(f.offset);
      }
      store_factors(b, scales_, chunk, scales);
      if (offsets_ >= 0) store_factors(b, offsets_, chunk, offsets);
      for (int64_t at = 0; at < dot_.chunk; at += kStepElements) unpack_step(b, rows, from + at);
    });
  }
  void unpack_step(StageBuilder& b, const std::vector<Coordinates>& rows, const Expression& position) {
    std::vector<Id> numbers;
    for (const Coordinates& row : rows) {
      const BlockNumbers n = loads_.row_numbers(b, row, position, kStepElements);
      numbers.push_back(n.numbers);
      shift_ = n.shift;
    }
    std::vector<Id> panel = joined_rows(b, numbers);
    turn_halves(b, panel, 4);
    for (size_t i = 0; i < panel.size(); ++i)
      b.store(numbers_, position * kPanelRows + static_cast<int64_t>(i) * kPanelBytes, panel[i]);
  }
  /// Of a chunk: eight groups at a time become vectors of all rows.
  void store_factors(StageBuilder& b, int buffer, const Expression& chunk,
                     const std::vector<Id>& rows) const {
    constexpr int kTogether = kPanelRows / 2;
    for (int group = 0; group < dot_.groups(); group += kTogether) {
      const std::vector<int> groups =
          lanes_by(kTogether, [&](int l) { return std::min(group + l, dot_.groups() - 1); });
      std::vector<Id> part;
      for (const Id row : rows) part.push_back(b.shuffle(row, row, groups));
      std::vector<Id> turned = joined_rows(b, part);
      turn_halves(b, turned, 1);
      for (int k = 0; k < std::min(kTogether, dot_.groups() - group); ++k)
        b.store(buffer, (chunk * dot_.groups() + (group + k)) * kPanelRows, turned[static_cast<size_t>(k)]);
    }
  }

  void multiply(StageBuilder& b, const Expression& first_row, const Expression& first) const {
    std::vector<Expression> columns;
    for (int64_t c = 0; c < width_; ++c) columns.push_back((first + c).min(columns_.size() - 1));
    std::vector<Id> totals(columns.size(), b.constant({Dtype::F32, kPanelRows}, 0));
    totals = b.loop(groups_, LoopKind::Serial, std::move(totals),
                    [&](const Expression& group, std::span<const Id> carried) {
                      return add_group(b, columns, group, {carried.begin(), carried.end()});
                    });
    const bool whole = columns_.size() % width_ == Expression(0);
    for (size_t c = 0; c < columns.size(); ++c) {
      const auto write = [&] { store(b, first_row, place(columns_, columns[c]), totals[c]); };
      const Expression at = first + static_cast<int64_t>(c);
      if (whole || c == 0)
        write();
      else
        b.if_true(b.compute(ScalarOp::Lt, {b.index(at), b.index(columns_.size())}), write);
    }
  }

  [[nodiscard]] std::vector<Id> add_group(StageBuilder& b, const std::vector<Expression>& columns,
                                          const Expression& group, std::vector<Id> totals) const {
    const auto all = [&](int buffer, const Expression& at) {
      return b.broadcast(b.load(buffer, at), kPanelRows);
    };
    std::vector<Id> numbers;
    for (int64_t i = 0; i < dot_.group / 4; ++i)
      numbers.push_back(b.load(numbers_, group * (dot_.group * kPanelRows) + i * kPanelBytes, kPanelBytes));
    const Id scale = b.load(scales_, group * kPanelRows, kPanelRows);
    const Id offset = offsets_ < 0 ? kNone : b.load(offsets_, group * kPanelRows, kPanelRows);
    const Expression position = group * dot_.group;
    const Operand& q = dot_.whole.numbers;
    for (size_t c = 0; c < columns.size(); ++c) {
      const Coordinates column = place(columns_, columns[c]);
      const Expression at = columns[c] * groups_ + group;
      Id sum = begins_ < 0 ? b.constant_bits({Dtype::I32, kPanelRows}, 0) : all(begins_, at);
      const Expression from = loads_.index_of(q, column, position);
      for (size_t i = 0; i < numbers.size(); ++i) {
        const Id four = b.load(q.slot, from + static_cast<int64_t>(4 * i), 4);
        sum = b.dot4(sum, numbers[i],
                     b.shuffle(four, four, lanes_by(kPanelBytes, [](int l) { return l % 4; })));
      }
      const Id both = b.compute(ScalarOp::Mul, {scale, all(factors_, at)});
      totals[c] = b.compute(ScalarOp::Fma, {both, b.convert(sum, Dtype::F32), totals[c]});
      if (offset != kNone) totals[c] = b.compute(ScalarOp::Fma, {offset, all(sums_, at), totals[c]});
    }
    return totals;
  }

  void store(StageBuilder& b, const Expression& first_row, const Coordinates& column, Id total) const {
    const kernel::KernelSpec& spec = loads_.spec();
    Ramp ramp(b, rows_, first_row, kPanelRows, rows_.size());
    for (const kernel::Value& v : spec.values())
      for (const kernel::Operand& o : v.operands)
        if (!v.monoid && o.kind != kernel::Operand::Kind::Value) ramp.prepare(o);
    for (const kernel::Output& o : spec.outputs()) ramp.prepare(o.index);
    store_outputs_from(b, spec, kernel::axes_of(dot_.reduction.axes), ramp, column,
                       {{dot_.reduction.values[0], total}});
  }

  using Operand = kernel::Operand;
  DotLoads loads_;
  const BlockDot& dot_;
  int64_t width_, groups_;
  Program program_;
  AxisGroup rows_, columns_;
  int numbers_ = -1, scales_ = -1, offsets_ = -1, factors_ = -1, begins_ = -1, sums_ = -1;
  int shift_ = 0;  ///< of the rows' numbers
};

}  // namespace

bool has_panels(const BlockDot& dot, const Target& target) {
  return target.dots && target.lanes(4) == kPanelRows && dot.whole.scale && !dot.rows.empty() &&
         !depends_on(dot.whole.numbers.index, dot.rows) && !depends_on(dot.whole.scale->index, dot.rows);
}

Program lower_dot_panels(const kernel::KernelSpec& spec, BlockDot dot, int64_t columns) {
  return DotPanels(spec, std::move(dot), columns).lower();
}

}  // namespace luminal::codegen
