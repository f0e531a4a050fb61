#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "codegen/block_panels.h"
#include "codegen/schedules/dot.h"
#include "codegen/schedules/outputs.h"
#include "codegen/schedules/specialise.h"
#include "kernel/axes.h"

// Lanes are rows: a dot4 multiplies four numbers of each row, which lie side by side, with four numbers of a column that
// all lanes share. So no sum is left over lanes.
namespace luminal::codegen {
namespace {

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

/// What products in panels share: the terms of columns, and what a group of all rows adds.
class PanelProgram {
 public:
  PanelProgram(const kernel::KernelSpec& spec, BlockDot dot, int lanes, int64_t columns)
      : loads_(spec, std::move(dot)),
        dot_(loads_.dot()),
        lanes_(lanes),
        width_(columns),
        groups_(dot_.length / dot_.group),
        program_(program_for(spec, "dot")),
        rows_(group_of(spec.extents(), dot_.rows)),
        columns_(group_of(spec.extents(), dot_.columns)) {}

 protected:
  int buffer(const char* name, Space space, Dtype dtype, const Expression& elements) {
    return add_buffer(program_, {.name = name, .space = space, .dtype = dtype, .elements = elements});
  }
  /// Coordinates; behind the group's end its last ones.
  [[nodiscard]] Coordinates place(const AxisGroup& group, const Expression& at) const {
    Coordinates here(loads_.spec().extents().size(), 0);
    group.place(at.min(group.size() - 1), here);
    return here;
  }
  [[nodiscard]] std::vector<Coordinates> panel_rows(const Expression& first) const {
    std::vector<Coordinates> rows;
    for (int r = 0; r < lanes_; ++r) rows.push_back(place(rows_, first + r));
    return rows;
  }
  [[nodiscard]] std::vector<Expression> tile_columns(const Expression& first) const {
    std::vector<Expression> columns;
    for (int64_t c = 0; c < width_; ++c) columns.push_back((first + c).min(columns_.size() - 1));
    return columns;
  }

  /// Weights in panels (block_panels.h), packed before the first launch: all products that read them share one copy.
  struct Packed {
    BlockPanels panels;
    int buffer = -1;
    int64_t sets = 0;  ///< of blocks, of a panel
  };
  Packed pack(const BlockPanels& panels) {
    Packed packed{.panels = panels, .sets = dot_.length / dot_.natural.block};
    packed.buffer =
        buffer("panels", Space::Prepared, Dtype::U8, panel_count() * packed.sets * panels.set_bytes());
    StageBuilder b(program_, panel_count());
    const std::vector<Coordinates> rows = panel_rows(b.task() * lanes_);
    const Operand& o = dot_.natural.numbers;
    b.loop(packed.sets, LoopKind::Serial, [&](const Expression& set) {
      std::vector<Expression> from;
      for (const Coordinates& row : rows) from.push_back(loads_.index_of(o, row, set * dot_.natural.block));
      panels.store(b, o.slot, from, packed.buffer, b.task() * packed.sets + set);
    });
    b.finish(true);
    return packed;
  }
  [[nodiscard]] Expression panel_count() const { return rows_.size().ceil_div(lanes_); }

  /// Terms of so many columns: scales of groups, `shift` (of the rows' numbers) times their sums, and these times the
  /// scales.
  void add_terms(Space space, const Expression& columns, int shift) {
    factors_ = buffer("factors", space, Dtype::F32, columns * groups_);
    if (shift != 0) begins_ = buffer("begins", space, Dtype::I32, columns * groups_);
    if (loads_.has_offset()) sums_ = buffer("sums", space, Dtype::F32, columns * groups_);
    shift_ = shift;
  }
  /// Those of a column, which begin at `at`.
  void store_terms(StageBuilder& b, const Coordinates& column, const Expression& at) const {
    b.loop(dot_.length / dot_.chunk, LoopKind::Serial, [&](const Expression& chunk) {
      const Expression from = chunk * dot_.chunk, here = at + chunk * dot_.groups();
      const Id scales = loads_.column_scales(b, column, from);
      b.store(factors_, here, scales);
      if (begins_ < 0 && sums_ < 0) return;
      const Id sums = loads_.column_sums(b, column, from);
      const Id shift = b.constant_bits({Dtype::I32, dot_.groups()}, static_cast<uint32_t>(shift_));
      if (begins_ >= 0) b.store(begins_, here, b.compute(ScalarOp::Mul, {sums, shift}));
      if (sums_ >= 0) b.store(sums_, here, b.compute(ScalarOp::Mul, {b.convert(sums, Dtype::F32), scales}));
    });
  }

  /// A group of a panel's rows: four numbers of each side by side, and what they share.
  struct Group {
    std::vector<Id> numbers;
    BlockFactors shared;
  };
  /// totals + its products with columns, whose terms begin at `terms`.
  void add_group(StageBuilder& b, const Group& rows, const Expression& group,
                 std::span<const Expression> columns, std::span<const Expression> terms,
                 std::vector<Id>& totals) const {
    const auto all = [&](int buffer, const Expression& at) {
      return b.broadcast(b.load(buffer, at), lanes_);
    };
    const Operand& q = dot_.whole.numbers;
    for (size_t c = 0; c < columns.size(); ++c) {
      const Expression at = terms[c] + group;
      Id sum = begins_ < 0 ? b.constant_bits({Dtype::I32, lanes_}, 0) : all(begins_, at);
      const Expression from = loads_.index_of(q, place(columns_, columns[c]), group * dot_.group);
      for (size_t i = 0; i < rows.numbers.size(); ++i) {
        const Id four = b.load(q.slot, from + static_cast<int64_t>(4 * i), 4);
        sum = b.dot4(sum, rows.numbers[i],
                     b.shuffle(four, four, lanes_by(4 * lanes_, [](int l) { return l % 4; })), greatest_);
      }
      const Id both = b.compute(ScalarOp::Mul, {rows.shared.scale, all(factors_, at)});
      totals[c] = b.compute(ScalarOp::Fma, {both, b.convert(sum, Dtype::F32), totals[c]});
      if (rows.shared.offset != kNone)
        totals[c] = b.compute(ScalarOp::Fma, {rows.shared.offset, all(sums_, at), totals[c]});
    }
  }
  [[nodiscard]] std::vector<Id> no_totals(StageBuilder& b) const {
    return std::vector<Id>(static_cast<size_t>(width_), b.constant({Dtype::F32, lanes_}, 0));
  }

  /// The results of a tile.
  void store(StageBuilder& b, const Expression& first_row, const Expression& first,
             std::span<const Id> totals) const {
    const std::vector<Expression> columns = tile_columns(first);
    const bool whole = columns_.size() % width_ == Expression(0);
    for (size_t c = 0; c < columns.size(); ++c) {
      const auto write = [&] { store_column(b, first_row, place(columns_, columns[c]), totals[c]); };
      const Expression at = first + static_cast<int64_t>(c);
      if (whole || c == 0)
        write();
      else
        b.if_true(b.compute(ScalarOp::Lt, {b.index(at), b.index(columns_.size())}), write);
    }
  }

  using Operand = kernel::Operand;
  DotLoads loads_;
  const BlockDot& dot_;
  int lanes_;  ///< rows of a panel
  int64_t width_, groups_;
  int greatest_ = UINT8_MAX;  ///< of the rows' numbers
  Program program_;
  AxisGroup rows_, columns_;

 private:
  void store_column(StageBuilder& b, const Expression& first_row, const Coordinates& column, Id total) const {
    const kernel::KernelSpec& spec = loads_.spec();
    Ramp ramp(b, rows_, first_row, lanes_, rows_.size());
    for (const kernel::Value& v : spec.values())
      for (const kernel::Operand& o : v.operands)
        if (!v.monoid && o.kind != kernel::Operand::Kind::Value) ramp.prepare(o);
    for (const kernel::Output& o : spec.outputs()) ramp.prepare(o.index);
    store_outputs_from(b, spec, kernel::axes_of(dot_.reduction.axes), ramp, column,
                       {{dot_.reduction.values[0], total}});
  }

  int factors_ = -1, begins_ = -1, sums_ = -1, shift_ = 0;
};

/// Many columns: a task unpacks a panel into memory of its own and walks through all columns with it.
class DotPanels : public PanelProgram {
 public:
  using PanelProgram::PanelProgram;

  /// `panels`: how weights are packed that may be, before.
  Program lower(const std::optional<BlockPanels>& panels) {
    if (panels) packed_ = pack(*panels);
    numbers_ = buffer("numbers", Space::Local, Dtype::U8, lanes_ * dot_.length);
    scales_ = buffer("scales", Space::Local, Dtype::F32, lanes_ * groups_);
    if (loads_.has_offset()) offsets_ = buffer("offsets", Space::Local, Dtype::F32, lanes_ * groups_);
    StageBuilder b(program_, panel_count());
    const Expression first = b.task() * lanes_;
    const int shift = packed_ ? unpack_packed(b) : unpack_rows(b, first);
    // Only now is it known what the rows' numbers lack. The stage of columns is finished first, so it comes first.
    add_terms(Space::Shared, columns_.size(), shift);
    StageBuilder terms(program_, columns_.size());
    store_terms(terms, place(columns_, terms.task()), terms.task() * groups_);
    terms.finish();
    b.loop(columns_.size().ceil_div(width_), LoopKind::Serial,
           [&](const Expression& tile) { multiply(b, first, tile * width_); });
    b.finish();
    return std::move(program_);
  }

 private:
  /// These return the shift of the numbers.
  int unpack_packed(StageBuilder& b) const {
    const BlockPanels& panels = packed_->panels;
    const int64_t block = dot_.natural.block, period = panels.period();
    b.loop(packed_->sets, LoopKind::Serial, [&](const Expression& number) {
      const Expression set = b.task() * packed_->sets + number, begin = number * block;
      for (int64_t at = 0; at < block; at += dot_.group) {
        const BlockFactors f = panels.factors(b, packed_->buffer, set, at);
        const Expression place = (begin + at) / dot_.group * lanes_;
        b.store(scales_, place, f.scale);
        if (offsets_ >= 0) b.store(offsets_, place, f.offset);
      }
      const auto store_numbers = [&](const Expression& step) {
        for (int64_t at = 0; at < period; at += 4)
          b.store(numbers_, (begin + step * period + at) * lanes_,
                  panels.numbers(b, packed_->buffer, set, step, at));
      };
      if (period == block)
        store_numbers(0);
      else
        b.loop(block / period, LoopKind::Serial, store_numbers);
    });
    return panels.shift();
  }
  int unpack_rows(StageBuilder& b, const Expression& first) {
    const std::vector<Coordinates> rows = panel_rows(first);
    int shift = 0;
    b.loop(dot_.length / dot_.chunk, LoopKind::Serial, [&](const Expression& chunk) {
      const Expression from = chunk * dot_.chunk;
      std::vector<Id> scales, offsets;
      for (const Coordinates& row : rows) {
        const BlockFactors f = loads_.row_factors(b, row, from);
        scales.push_back(f.scale), offsets.push_back(f.offset);
      }
      store_factors(b, scales_, chunk, scales);
      if (offsets_ >= 0) store_factors(b, offsets_, chunk, offsets);
      for (int64_t at = 0; at < dot_.chunk; at += kStepElements) shift = unpack_step(b, rows, from + at);
    });
    return shift;
  }
  int unpack_step(StageBuilder& b, const std::vector<Coordinates>& rows, const Expression& position) {
    std::vector<Id> numbers;
    int shift = 0;
    for (const Coordinates& row : rows) {
      const BlockNumbers n = loads_.row_numbers(b, row, position, kStepElements);
      numbers.push_back(n.numbers);
      shift = n.shift, greatest_ = n.greatest;
    }
    std::vector<Id> panel = joined_rows(b, numbers);
    turn_halves(b, panel, 4);
    for (size_t i = 0; i < panel.size(); ++i)
      b.store(numbers_, position * lanes_ + static_cast<int64_t>(i) * 4 * lanes_, panel[i]);
    return shift;
  }
  /// Of a chunk: eight groups at a time become vectors of all rows.
  void store_factors(StageBuilder& b, int buffer, const Expression& chunk,
                     const std::vector<Id>& rows) const {
    constexpr int kTogether = kRowsInPlace / 2;
    for (int group = 0; group < dot_.groups(); group += kTogether) {
      const std::vector<int> groups =
          lanes_by(kTogether, [&](int l) { return std::min(group + l, dot_.groups() - 1); });
      std::vector<Id> part;
      for (const Id row : rows) part.push_back(b.shuffle(row, row, groups));
      std::vector<Id> turned = joined_rows(b, part);
      turn_halves(b, turned, 1);
      for (int k = 0; k < std::min(kTogether, dot_.groups() - group); ++k)
        b.store(buffer, (chunk * dot_.groups() + (group + k)) * lanes_, turned[static_cast<size_t>(k)]);
    }
  }

  void multiply(StageBuilder& b, const Expression& first_row, const Expression& first) const {
    const std::vector<Expression> columns = tile_columns(first);
    std::vector<Expression> terms;
    for (const Expression& column : columns) terms.push_back(column * groups_);
    const std::vector<Id> totals = b.loop(
        groups_, LoopKind::Serial, no_totals(b), [&](const Expression& group, std::span<const Id> carried) {
          Group rows;
          for (int64_t i = 0; i < dot_.group / 4; ++i)
            rows.numbers.push_back(
                b.load(numbers_, group * (dot_.group * lanes_) + i * 4 * lanes_, 4 * lanes_));
          rows.shared.scale = b.load(scales_, group * lanes_, lanes_);
          if (offsets_ >= 0) rows.shared.offset = b.load(offsets_, group * lanes_, lanes_);
          std::vector<Id> sums(carried.begin(), carried.end());
          add_group(b, rows, group, columns, terms, sums);
          return sums;
        });
    store(b, first_row, first, totals);
  }

  std::optional<Packed> packed_;
  int numbers_ = -1, scales_ = -1, offsets_ = -1;
};

/// A few columns: numbers of packed weights are put together in registers and multiplied at once, so that a kernel reads
/// them from begin to end, in blocks still.
class DotPacked : public PanelProgram {
 public:
  DotPacked(const kernel::KernelSpec& spec, BlockDot dot, const BlockPanels& panels, int64_t columns,
            int64_t task)
      : PanelProgram(spec, std::move(dot), panels.rows(), columns),
        packed_(pack(panels)),
        panels_(packed_.panels),
        task_(task),
        block_(dot_.natural.block) {}

  Program lower() {
    add_terms(Space::Local, width_, panels_.shift());
    if (panels_.period() < block_) {
      scales_ = buffer("scales", Space::Local, Dtype::F32, lanes_ * block_groups());
      if (loads_.has_offset())
        offsets_ = buffer("offsets", Space::Local, Dtype::F32, lanes_ * block_groups());
    }
    StageBuilder b(program_, panel_count().ceil_div(task_));
    const Expression first = b.task() * task_;
    b.loop(columns_.size().ceil_div(width_), LoopKind::Serial, [&](const Expression& tile) {
      const std::vector<Expression> columns = tile_columns(tile * width_);
      for (int64_t c = 0; c < width_; ++c)
        store_terms(b, place(columns_, columns[static_cast<size_t>(c)]), c * groups_);
      b.loop((panel_count() - first).min(task_), LoopKind::Serial,
             [&](const Expression& panel) { multiply(b, first + panel, tile * width_, columns); });
    });
    b.finish();
    return std::move(program_);
  }

 private:
  [[nodiscard]] int64_t block_groups() const { return block_ / dot_.group; }

  void multiply(StageBuilder& b, const Expression& panel, const Expression& first,
                std::span<const Expression> columns) const {
    std::vector<Expression> terms;
    for (int64_t c = 0; c < width_; ++c) terms.emplace_back(c * groups_);
    // Few instructions are to walk through memory, which the processor then reads ahead.
    constexpr int64_t kElements = 128;
    int64_t together = 1;
    while (block_ * together < kElements && packed_.sets % (2 * together) == 0) together *= 2;
    const std::vector<Id> totals =
        b.loop(packed_.sets / together, LoopKind::Serial, no_totals(b),
               [&](const Expression& sets, std::span<const Id> carried) {
                 std::vector<Id> sums(carried.begin(), carried.end());
                 for (int64_t k = 0; k < together; ++k)
                   sums = add_set(b, panel, sets * together + k, columns, terms, std::move(sums));
                 return sums;
               });
    store(b, panel * lanes_, first, totals);
  }
  [[nodiscard]] std::vector<Id> add_set(StageBuilder& b, const Expression& panel, const Expression& number,
                                        std::span<const Expression> columns,
                                        std::span<const Expression> terms, std::vector<Id> totals) const {
    const Expression set = panel * packed_.sets + number;
    const int64_t period = panels_.period();
    const auto add = [&](const Expression& step, int64_t at, const BlockFactors& shared) {
      Group rows{.numbers = {}, .shared = shared};
      for (int64_t i = 0; i < dot_.group; i += 4)
        rows.numbers.push_back(panels_.numbers(b, packed_.buffer, set, step, at + i));
      add_group(b, rows, number * block_groups() + (step * period + at) / dot_.group, columns, terms, totals);
    };
    if (period == block_) {
      for (int64_t at = 0; at < block_; at += dot_.group)
        add(0, at, panels_.factors(b, packed_.buffer, set, at));
      return totals;
    }
    for (int64_t g = 0; g < block_groups(); ++g) {
      const BlockFactors f = panels_.factors(b, packed_.buffer, set, g * dot_.group);
      b.store(scales_, g * lanes_, f.scale);
      if (offsets_ >= 0) b.store(offsets_, g * lanes_, f.offset);
    }
    return b.loop(block_ / period, LoopKind::Serial, std::move(totals),
                  [&](const Expression& step, std::span<const Id> carried) {
                    totals.assign(carried.begin(), carried.end());
                    for (int64_t at = 0; at < period; at += dot_.group) {
                      const Expression place = (step * period + at) / dot_.group * lanes_;
                      BlockFactors f{.scale = b.load(scales_, place, lanes_)};
                      if (offsets_ >= 0) f.offset = b.load(offsets_, place, lanes_);
                      add(step, at, f);
                    }
                    return totals;
                  });
  }

  Packed packed_;
  const BlockPanels& panels_;
  int64_t task_, block_;
  int scales_ = -1, offsets_ = -1;
};

}  // namespace

namespace {

/// Whether columns are the same for all lanes.
bool has_rows_as_lanes(const BlockDot& dot) {
  return dot.whole.scale && !dot.rows.empty() && !depends_on(dot.whole.numbers.index, dot.rows) &&
         !depends_on(dot.whole.scale->index, dot.rows);
}

}  // namespace

bool has_panels(const BlockDot& dot, const Target& target) {
  return target.dots && target.lanes(4) == kRowsInPlace && has_rows_as_lanes(dot);
}

Program lower_dot_panels(const kernel::KernelSpec& spec, BlockDot dot,
                         const std::optional<BlockPanels>& panels, int64_t columns) {
  const int rows = panels ? panels->rows() : kRowsInPlace;
  return DotPanels(spec, std::move(dot), rows, columns).lower(panels);
}

std::optional<BlockPanels> packed_panels(const kernel::KernelSpec& spec, const BlockDot& dot,
                                         const Target& target) {
  constexpr int kLeastRows = 8;
  const kernel::Slot& slot = spec.slots()[static_cast<size_t>(dot.natural.numbers.slot)];
  if (!slot.is_frozen || target.lanes(4) < kLeastRows || !has_rows_as_lanes(dot)) return std::nullopt;
  const BlockFormat& format = block_format(slot.dtype);
  if (dot.group != panel_group(format)) return std::nullopt;
  return BlockPanels::of(format, target.lanes(4));
}

Program lower_dot_packed(const kernel::KernelSpec& spec, BlockDot dot, const BlockPanels& panels,
                         int64_t columns, int64_t task) {
  return DotPacked(spec, std::move(dot), panels, columns, task).lower();
}

}  // namespace luminal::codegen
