#include "codegen/schedules/contract.h"
#include "codegen/schedules/outputs.h"
#include "kernel/cost.h"

// The register tile: products added in the inner loop, and the way out of it.
namespace luminal::codegen::contract {
namespace {

Id multiply_add(StageBuilder& b, Id x, Id y, Id sum) {
  // The product is not rounded before it is added, as in every BLAS: the order and the rounding inside a sum
  // are the code generator's.
  if (is_float(b.type(sum).dtype)) return b.compute(ScalarOp::Fma, {x, y, sum});
  return b.compute(ScalarOp::Add, {b.compute(ScalarOp::Mul, {x, y}), sum});
}

/// Reads both sides at one summed position and adds their products to the tile.
class Products {
 public:
  Products(StageBuilder& b, const Layout& l, const Coordinates& at, const Expression& tile,
           std::span<const Ramp> columns, Source row_source, Source column_source)
      : b_(b),
        l_(l),
        columns_(columns),
        row_source_(std::move(row_source)),
        column_source_(std::move(column_source)) {
    const Expression last = l.m - 1 - tile * l.t.tile_m;
    const bool there = row_source_.buffer >= 0 || l.m % l.t.tile_m == Expression(0);
    for (int64_t r = 0; r < l.t.tile_m; ++r) {
      // Packed rows beyond the last are zeros, others repeat it; nobody looks at their sums.
      rows_.push_back(there ? Expression(r) : Expression(r).min(last));
      row_at_.push_back(at);
      l.rows.place(tile * l.t.tile_m + rows_.back(), row_at_.back());
    }
  }

  std::vector<Id> add(const Coordinates& at, const Expression& position, std::span<const Id> sums) const {
    std::vector<Id> next(sums.begin(), sums.end());
    std::vector<Id> columns;
    const auto width = static_cast<size_t>(l_.t.tile_n);
    for (size_t v = 0; v < width; ++v) columns.push_back(column(at, position, v));
    if (l_.t.ahead > 0 && l_.t.pack_n == Packing::Direct)
      fetch_columns_ahead(at);
    else if (l_.t.ahead > 0)
      fetch_ahead(position + l_.t.ahead);
    for (size_t r = 0; r < rows_.size(); ++r) {
      const Id x = b_.broadcast(row(at, position, r), l_.lanes);
      for (size_t v = 0; v < width; ++v)
        next[r * width + v] = multiply_add(b_, x, columns[v], next[r * width + v]);
    }
    return next;
  }

 private:
  /// Panels are longer than the first cache: they come from the second, which takes a while at times.
  void fetch_ahead(const Expression& position) const {
    if (column_source_.buffer >= 0)
      for (int64_t v = 0; v < l_.t.tile_n; ++v)
        b_.prefetch(column_source_.buffer, column_source_.base + position * l_.tile_columns() + v * l_.lanes);
    if (row_source_.buffer >= 0 && !l_.lines) b_.prefetch(row_source_.buffer, packed(position, 0));
  }

  /// Of a side that streams by in a few of its rows, the same place in a later panel: what lies next to each other in
  /// these rows is too short for the processor to do so by itself.
  void fetch_columns_ahead(const Coordinates& at) const {
    constexpr double kLineBytes = 64;
    const int64_t steps =
        std::max<int64_t>(1, l_.depth.constant().value_or(1) * l_.inner.constant().value_or(1));
    const Expression further = std::max<int64_t>(1, l_.t.ahead / steps) * l_.tile_columns();
    for (const kernel::Operand* o : read_by(l_.c.right)) {
      if (o->kind != kernel::Operand::Kind::Load) continue;
      const Dtype stored = l_.spec->slots()[static_cast<size_t>(o->slot)].dtype;
      const auto vectors_in_line =
          static_cast<size_t>(std::max(1.0, kLineBytes / (l_.lanes * kernel::mean_element_bytes(stored))));
      for (size_t v = 0; v < columns_.size(); v += vectors_in_line) columns_[v].prefetch(*o, further, at);
    }
  }

  /// Where packed row `r` of the tile lies.
  [[nodiscard]] Expression packed(const Expression& position, size_t r) const {
    return row_source_.base + (l_.lines
                                   ? rows_[r] * row_source_.line + position
                                   : position * static_cast<int64_t>(rows_.size()) + static_cast<int64_t>(r));
  }

  Id row(const Coordinates& at, const Expression& position, size_t r) const {
    if (row_source_.buffer >= 0) return b_.load(row_source_.buffer, packed(position, r));
    Coordinates here = row_at_[r];
    for (const int a : l_.summed.axes) here[static_cast<size_t>(a)] = at[static_cast<size_t>(a)];
    std::map<int, Id> known;
    return Ramp(b_).evaluate(*l_.spec, l_.c.left.body, l_.c.left.operands, here, known);
  }

  Id column(const Coordinates& at, const Expression& position, size_t v) const {
    if (column_source_.buffer >= 0)
      return b_.load(column_source_.buffer,
                     column_source_.base + position * l_.tile_columns() + static_cast<int64_t>(v) * l_.lanes,
                     l_.lanes);
    std::map<int, Id> known;
    return columns_[v].widen(columns_[v].evaluate(*l_.spec, l_.c.right.body, l_.c.right.operands, at, known));
  }

  StageBuilder& b_;
  const Layout& l_;
  std::span<const Ramp> columns_;
  Source row_source_, column_source_;
  std::vector<Expression> rows_;  ///< of the tile
  std::vector<Coordinates> row_at_;
};

void write_outputs(StageBuilder& b, const Layout& l, const Ramp& ramp, std::span<const Expression> at,
                   Id sum) {
  const kernel::AxisSet bound = kernel::axes_of(l.spec->values()[static_cast<size_t>(l.c.sum)].axes);
  store_outputs_from(b, *l.spec, bound, ramp, at, {{l.c.sum, sum}});
}

/// Makes a ramp ready for everything after the sum.
void prepare_outputs(Ramp& ramp, const Layout& l) {
  const kernel::KernelSpec& spec = *l.spec;
  for (size_t v = 0; v < spec.values().size(); ++v)
    if (static_cast<int>(v) != l.c.sum)
      for (const kernel::Operand& o : spec.values()[v].operands) ramp.prepare(o);
  for (const kernel::Output& o : spec.outputs()) ramp.prepare(o.index);
}

using Step = std::function<std::vector<Id>(const Expression& i, std::span<const Id> carried)>;

/// for i in extent, two steps at a time if `pairs`: what a loop costs beside its arithmetic is paid once for both.
/// It counts where another thread of the core takes half of what the processor can decode.
std::vector<Id> in_pairs(StageBuilder& b, const Expression& extent, bool pairs, std::vector<Id> carried,
                         const Step& step) {
  constexpr int64_t kFew = 8;  // such loops are unrolled anyway, or not worth it
  const auto constant = extent.constant();
  if (!pairs || (constant && *constant < kFew))
    return b.loop(extent, LoopKind::Serial, std::move(carried), step);
  const Expression half = extent / 2;
  carried = b.loop(
      half, LoopKind::Serial, std::move(carried), [&](const Expression& pair, std::span<const Id> sums) {
        return b.loop(2, LoopKind::Unrolled, {sums.begin(), sums.end()},
                      [&](const Expression& i, std::span<const Id> now) { return step(pair * 2 + i, now); });
      });
  const Expression rest = extent % 2;
  if (rest == Expression(0)) return carried;
  return b.loop(rest, LoopKind::Serial, std::move(carried),
                [&](const Expression& i, std::span<const Id> sums) { return step(half * 2 + i, sums); });
}

/// Whether the registers hold the tile's sums and the columns of two steps. LLVM moves loads of both steps together, and
/// spills sums where there is no room for all; it moves no load past what fetches ahead. That pays where rows are read
/// where they lie: their places are worked out for both steps at once.
bool holds_two_steps(const Layout& l, const Source& row_source, int registers) {
  if (row_source.buffer < 0 && !l.lines && l.t.ahead > 0) return true;
  constexpr int64_t kRows = 6;  // values of rows that wait
  return (l.t.tile_m + 2) * l.t.tile_n + kRows <= registers;
}

}  // namespace

std::vector<Id> add_products(StageBuilder& b, const Layout& l, const Coordinates& at, const Expression& tile,
                             std::span<const Ramp> columns, const AxisGroup& range, const Source& row_source,
                             const Source& column_source, int registers, std::vector<Id> accumulators) {
  const Products products(b, l, at, tile, columns, row_source, column_source);
  const bool packed = row_source.buffer >= 0 && column_source.buffer >= 0;
  const bool pairs = holds_two_steps(l, row_source, registers);
  if (packed)
    return in_pairs(b, range.size(), pairs, std::move(accumulators),
                    [&](const Expression& position, std::span<const Id> sums) {
                      return products.add(at, position, sums);
                    });
  Coordinates here = at;
  Expression position = 0;
  const auto nest = [&](const auto& self, size_t k, std::vector<Id> sums) -> std::vector<Id> {
    if (k == range.axes.size()) return products.add(here, position, sums);
    const Expression outer = position;
    const Step step = [&](const Expression& i, std::span<const Id> carried) {
      here[static_cast<size_t>(range.axes[k])] = range.first[k] + i;
      position = outer * range.extents[k] + i;
      return self(self, k + 1, {carried.begin(), carried.end()});
    };
    return k + 1 == range.axes.size() ? in_pairs(b, range.extents[k], pairs, std::move(sums), step)
                                      : b.loop(range.extents[k], LoopKind::Serial, std::move(sums), step);
  };
  return nest(nest, 0, std::move(accumulators));
}

std::vector<Ramp> column_runs(StageBuilder& b, const Layout& l, const Expression& panel) {
  std::vector<Ramp> ramps;
  for (int64_t v = 0; v < l.t.tile_n; ++v) {
    Ramp& ramp = ramps.emplace_back(b, l.columns, panel * l.tile_columns() + v * l.lanes, l.lanes, l.n);
    prepare_outputs(ramp, l);
    if (l.t.pack_n == Packing::Direct) prepare_side(ramp, l, l.c.right);
  }
  return ramps;
}

void write_registers(StageBuilder& b, const Layout& l, Coordinates at, const Expression& tile,
                     std::span<const Ramp> columns, std::span<const Id> sums) {
  const Expression first = tile * l.t.tile_m;
  const bool whole = l.m % l.t.tile_m == Expression(0);
  for (int64_t r = 0; r < l.t.tile_m; ++r) {
    const auto row = [&] {
      l.rows.place(first + r, at);
      for (size_t v = 0; v < columns.size(); ++v)
        write_outputs(b, l, columns[v], at, sums[static_cast<size_t>(r) * columns.size() + v]);
    };
    if (whole || r == 0) {
      row();
    } else {
      const Id left = b.index(l.m - first - r);
      b.if_true(b.compute(ScalarOp::Lt, {b.constant({Dtype::I64, 1}, 0), left}), row);
    }
  }
}

void write_tile(StageBuilder& b, const Layout& l, Coordinates at, const Expression& tile,
                const Expression& panel, const TileSums& sums) {
  const int64_t height = l.t.tile_m, width = l.tile_columns();
  const Expression first = tile * height;
  if (l.columns_out) {
    const std::vector<Ramp> ramps = column_runs(b, l, panel);
    b.loop((l.m - first).min(height), LoopKind::Serial, [&](const Expression& r) {
      l.rows.place(first + r, at);
      for (size_t v = 0; v < ramps.size(); ++v)
        write_outputs(b, l, ramps[v], at,
                      sums(r * width + static_cast<int64_t>(v) * l.lanes, l.lanes, 1, kNone));
    });
    return;
  }
  std::vector<Ramp> ramps;
  for (int64_t r = 0; r < height; r += l.lanes) {
    ramps.emplace_back(b, l.rows, first + r, l.lanes, l.m.min(first + height));
    prepare_outputs(ramps.back(), l);
  }
  b.loop((l.n - panel * width).min(width), LoopKind::Serial, [&](const Expression& j) {
    l.columns.place(panel * width + j, at);
    for (size_t v = 0; v < ramps.size(); ++v)
      write_outputs(b, l, ramps[v], at,
                    sums(static_cast<int64_t>(v) * l.lanes * width + j, l.lanes, width, ramps[v].inside()));
  });
}

}  // namespace luminal::codegen::contract
