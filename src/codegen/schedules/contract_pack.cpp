#include <algorithm>
#include <numeric>

#include "codegen/schedules/contract.h"

// Packing: both sides of a contraction copied, through their index maps and masks, into the order in which
// the inner loop reads them.
namespace luminal::codegen::contract {
namespace {

using kernel::Operand;

/// With what the values that it reads are computed from.
void prepare_operand(Ramp& ramp, const kernel::KernelSpec& spec, const Operand& o) {
  ramp.prepare(o);
  if (o.kind != Operand::Kind::Value) return;
  for (const Operand& inner : spec.values()[static_cast<size_t>(o.value)].operands)
    prepare_operand(ramp, spec, inner);
}

}  // namespace

void prepare_side(Ramp& ramp, const Layout& l, const Factor& f) {
  for (const ScalarNode& n : f.body.nodes())
    if (n.op == ScalarOp::Input) prepare_operand(ramp, *l.spec, f.operands[n.payload]);
}

namespace {

Id element_of(const Ramp& ramp, const Layout& l, const Factor& f, std::span<const Expression> at) {
  std::map<int, Id> known;
  return ramp.widen(ramp.evaluate(*l.spec, f.body, f.operands, at, known));
}

/// Square of values turned: element j of value i becomes element i of value j, by exchanging ever larger
/// blocks (Eklundh 1972).
void transpose(StageBuilder& b, std::vector<Id>& rows) {
  const int count = static_cast<int>(rows.size());
  for (int block = 1; block < count; block *= 2) {
    std::vector<int> low, high;
    for (int lane = 0; lane < count; ++lane) {
      const bool odd = (lane & block) != 0;
      low.push_back(odd ? count + lane - block : lane);
      high.push_back(odd ? count + lane : lane + block);
    }
    for (int i = 0; i < count; ++i) {
      if ((i & block) != 0) continue;
      const Id top = rows[static_cast<size_t>(i)], bottom = rows[static_cast<size_t>(i + block)];
      rows[static_cast<size_t>(i)] = b.shuffle(top, bottom, low);
      rows[static_cast<size_t>(i + block)] = b.shuffle(top, bottom, high);
    }
  }
}

std::vector<Expression> loads_of(const Factor& f) {
  std::vector<Expression> loads;
  for (const ScalarNode& n : f.body.nodes())
    if (n.op == ScalarOp::Input && f.operands[n.payload].kind == Operand::Kind::Load)
      loads.push_back(f.operands[n.payload].index);
  return loads;
}

bool has_masks(const Factor& f) {
  return std::ranges::any_of(f.body.nodes(), [&](const ScalarNode& n) {
    return n.op == ScalarOp::Input && !f.operands[n.payload].masks.empty();
  });
}

void pack_turned(StageBuilder& b, const Layout& l, const Coordinates& at, const Expression& panel,
                 const AxisGroup& range, int buffer, const Expression& base) {
  const int64_t width = l.tile_columns();
  const size_t inner = even_axes(loads_of(l.c.right), range), outer_count = range.axes.size() - inner;
  const AxisGroup outer = part_of(range, 0, outer_count),
                  vector = part_of(range, outer_count, range.axes.size());
  const Expression size = vector.size();
  const bool whole = size % l.lanes == Expression(0);
  // Columns that are not there are copies of others. Where vectors are there whole or not at all, the last one stands in
  // for them: what divides its number and its lanes is divided once.
  const bool whole_vectors = l.n % l.lanes == Expression(0);
  const auto column = [&](const Expression& v, int i) {
    const Expression vector_number = panel * l.t.tile_n + v;
    return whole_vectors ? vector_number.min(l.n / l.lanes - 1) * l.lanes + i
                         : (vector_number * l.lanes + i).min(l.n - 1);
  };
  // A loop over the vectors of a tile, not a copy for each: code that turns a square is long to compile. It is the
  // outermost one, since where columns lie takes divisions.
  b.loop(l.t.tile_n, LoopKind::Serial, [&](const Expression& v) {
    for_each_position(b, outer, at, {}, [&](const Coordinates& outside, const Expression& outer_position) {
      b.loop(size.ceil_div(l.lanes), LoopKind::Serial, [&](const Expression& step) {
        const Expression from = step * l.lanes;
        Ramp ramp(b, vector, from, l.lanes, size);
        prepare_side(ramp, l, l.c.right);
        Coordinates here = outside;
        std::vector<Id> square;
        for (int i = 0; i < l.lanes; ++i) {
          l.columns.place(column(v, i), here);
          square.push_back(element_of(ramp, l, l.c.right, here));
        }
        transpose(b, square);
        for (int i = 0; i < l.lanes; ++i) {
          // Positions beyond the range belong to somebody else.
          const Id mask = whole ? kNone : b.lane_mask((from + i).lt(size) * l.lanes, l.lanes);
          b.store(buffer, base + (outer_position * size + from + i) * width + v * l.lanes,
                  square[static_cast<size_t>(i)], 1, mask);
        }
      });
    });
  });
}

/// Rows as lines along K, masks first: lanes run over the innermost axes that lie evenly in memory, and loops
/// over axes that no mask looks at are inside those over axes that one does.
void pack_masked_lines(StageBuilder& b, const Layout& l, const Coordinates& at, const AxisGroup& range,
                       int buffer, const Expression& base, const Expression& line) {
  const size_t inner = even_axes(loads_of(l.c.left), range);
  const size_t outer_count = range.axes.size() - inner;
  const AxisGroup outer = part_of(range, 0, outer_count),
                  vector = part_of(range, outer_count, range.axes.size());
  AxisGroup others = l.rows;  // then the outer summed axes
  for (size_t k = 0; k < outer_count; ++k) {
    others.axes.push_back(outer.axes[k]);
    others.extents.push_back(outer.extents[k]);
    others.first.push_back(outer.first[k]);
  }
  std::vector<size_t> order(others.axes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_partition(order, [&](size_t k) { return masked_along(l.c.left, others.axes[k]); });
  const Expression size = vector.size();
  b.loop(size.ceil_div(l.lanes), LoopKind::Serial, [&](const Expression& step) {
    Ramp ramp(b, vector, step * l.lanes, l.lanes, size);
    prepare_side(ramp, l, l.c.left);
    for_each_position(b, others, at, order, [&](const Coordinates& here, const Expression&) {
      // Rows and outer positions apart: their extents may be formulas, so no division gets them back.
      Expression row = 0, position = 0;
      for (size_t k = 0; k < l.rows.axes.size(); ++k)
        row = row * l.rows.extents[k] + here[static_cast<size_t>(l.rows.axes[k])];
      for (size_t k = 0; k < outer_count; ++k)
        position = position * outer.extents[k] + here[static_cast<size_t>(outer.axes[k])] - outer.first[k];
      b.store(buffer, base + row * line + position * size + step * l.lanes,
              element_of(ramp, l, l.c.left, here), 1, ramp.inside());
    });
  });
}

void pack_lines(StageBuilder& b, const Layout& l, const Coordinates& at, const Expression& first,
                const Expression& count, const AxisGroup& range, int buffer, const Expression& base,
                const Expression& line) {
  const Expression size = range.size(), from = first * l.t.tile_m;
  b.loop((count * l.t.tile_m).min(l.m - from), LoopKind::Serial, [&](const Expression& row) {
    Coordinates here = at;
    l.rows.place(from + row, here);
    b.loop(size.ceil_div(l.lanes), LoopKind::Serial, [&](const Expression& step) {
      Ramp ramp(b, range, step * l.lanes, l.lanes, size);
      prepare_side(ramp, l, l.c.left);
      b.store(buffer, base + row * line + step * l.lanes, element_of(ramp, l, l.c.left, here), 1,
              ramp.inside());
    });
  });
}

/// Rows of the last tile that are not there: zeros.
void fill_lines(StageBuilder& b, const Layout& l, const Expression& first, const Expression& count,
                const Expression& size, int buffer, const Expression& base, const Expression& line) {
  if (l.m % l.t.tile_m == Expression(0)) return;
  const Expression there = (l.m - first * l.t.tile_m).min(count * l.t.tile_m);
  const Id zero = b.constant({l.c.dtype, l.lanes}, 0);
  b.loop(count * l.t.tile_m - there, LoopKind::Serial, [&](const Expression& row) {
    b.loop(size.ceil_div(l.lanes), LoopKind::Serial, [&](const Expression& step) {
      const Id mask = size % l.lanes == Expression(0) ? kNone : b.lane_mask(size - step * l.lanes, l.lanes);
      b.store(buffer, base + (there + row) * line + step * l.lanes, zero, 1, mask);
    });
  });
}

/// Rows as tiles: their elements are neighbours in memory already.
void pack_steps(StageBuilder& b, const Layout& l, const Coordinates& at, const Expression& first,
                const Expression& count, const AxisGroup& range, int buffer, const Expression& base,
                const Expression& tile_elements) {
  const int64_t height = l.t.tile_m;
  b.loop(count, LoopKind::Serial, [&](const Expression& tile) {
    std::vector<Ramp> ramps;
    std::vector<Id> masks;
    for (int64_t r = 0; r < height; r += l.lanes) {
      ramps.emplace_back(b, l.rows, (first + tile) * height + r, l.lanes, l.m);
      prepare_side(ramps.back(), l, l.c.left);
      masks.push_back(r + l.lanes <= height ? kNone : b.lane_mask(height - r, l.lanes));
    }
    for_each_position(b, range, at, {}, [&](const Coordinates& here, const Expression& position) {
      for (size_t v = 0; v < ramps.size(); ++v)
        b.store(buffer, base + tile * tile_elements + position * height + static_cast<int64_t>(v) * l.lanes,
                element_of(ramps[v], l, l.c.left, here), 1, masks[v]);
    });
  });
}

}  // namespace

void for_each_position(StageBuilder& b, const AxisGroup& group, Coordinates at, std::vector<size_t> order,
                       const std::function<void(const Coordinates&, const Expression&)>& body) {
  if (order.empty()) {
    order.resize(group.axes.size());
    std::iota(order.begin(), order.end(), size_t{0});
  }
  std::vector<Expression> relative(group.axes.size(), 0);
  const auto nest = [&](const auto& self, size_t depth) -> void {
    if (depth == order.size()) {
      Expression position = 0;
      for (size_t k = 0; k < relative.size(); ++k) position = position * group.extents[k] + relative[k];
      return body(at, position);
    }
    const size_t k = order[depth];
    b.loop(group.extents[k], LoopKind::Serial, [&](const Expression& i) {
      relative[k] = i;
      at[static_cast<size_t>(group.axes[k])] = group.first[k] + i;
      self(self, depth + 1);
    });
  };
  nest(nest, 0);
}

void pack_panel(StageBuilder& b, const Layout& l, const Coordinates& at, const Expression& panel,
                const AxisGroup& range, int buffer, const Expression& base) {
  if (l.turned) return pack_turned(b, l, at, panel, range, buffer, base);
  const auto pack = [&](bool unbroken) {
    std::vector<Ramp> ramps;
    for (int64_t v = 0; v < l.t.tile_n; ++v) {
      Ramp& ramp = ramps.emplace_back(b, l.columns, panel * l.tile_columns() + v * l.lanes, l.lanes, l.n);
      if (unbroken) ramp.promise_unbroken();
      prepare_side(ramp, l, l.c.right);
    }
    for_each_position(b, range, at, {}, [&](const Coordinates& here, const Expression& position) {
      for (int64_t v = 0; v < l.t.tile_n; ++v)
        b.store(buffer, base + position * l.tile_columns() + v * l.lanes,
                element_of(ramps[static_cast<size_t>(v)], l, l.c.right, here));
    });
  };
  // Most panels lie within one row of an image; those get by with half the loads.
  const size_t inner = even_axes(loads_of(l.c.right), l.columns);
  const Expression row = part_of(l.columns, l.columns.axes.size() - inner, l.columns.axes.size()).size();
  if (inner == l.columns.axes.size() || row.range().min < l.tile_columns()) return pack(false);
  const Id place = b.index(panel * l.tile_columns() % row), last = b.index(row - l.tile_columns());
  const Id within = b.compute(ScalarOp::Le, {place, last});
  b.if_true(within, [&] { pack(true); });
  b.if_true(b.compute(ScalarOp::Not, {within}), [&] { pack(false); });
}

bool packs_rows_of_panels(const Layout& l) {
  if (l.turned || has_masks(l.c.right)) return false;
  return std::ranges::all_of(loads_of(l.c.right), [&](const Expression& load) {
    if (!depends_on(load, l.columns.axes)) return true;
    const auto even = evenly(load, l.columns);
    return even && even->stride == 1 && even->inner == l.columns.axes.size();
  });
}

void pack_panels(StageBuilder& b, const Layout& l, const Coordinates& at, const Expression& first,
                 const Expression& count, const AxisGroup& range, int buffer, const Expression& base,
                 const Expression& panel_size, bool streaming) {
  const int64_t width = l.tile_columns();
  const Expression full = l.n / width;  // panels without columns that are not there
  const Expression whole = (first + count).min(full) - first;
  for_each_position(b, range, at, {}, [&](const Coordinates& here, const Expression& position) {
    const auto panel = [&](const Expression& j, bool inside) {
      for (int64_t v = 0; v < l.t.tile_n; ++v) {
        const Expression start = (first + j) * width + v * l.lanes;
        Ramp ramp(b, l.columns, start, l.lanes, inside ? start + l.lanes : l.n);
        b.store(buffer, base + j * panel_size + position * width + v * l.lanes,
                element_of(ramp, l, l.c.right, here), 1, kNone, streaming);
      }
    };
    b.loop(whole.max(0), LoopKind::Serial, [&](const Expression& j) { panel(j, true); });
    if (l.n % width == Expression(0)) return;
    b.loop((count - whole.max(0)).max(0), LoopKind::Serial,
           [&](const Expression& j) { panel(whole.max(0) + j, false); });
  });
}

void pack_row_tiles(StageBuilder& b, const Layout& l, const Coordinates& at, const Expression& first,
                    const Expression& count, const AxisGroup& range, int buffer, const Expression& base,
                    const Expression& line, const Expression& tile_elements) {
  if (!l.lines) return pack_steps(b, l, at, first, count, range, buffer, base, tile_elements);
  const bool all = first == Expression(0) && count == l.tiles;
  if (all && has_masks(l.c.left))
    pack_masked_lines(b, l, at, range, buffer, base, line);
  else
    pack_lines(b, l, at, first, count, range, buffer, base, line);
  fill_lines(b, l, first, count, range.size(), buffer, base, line);
}

}  // namespace luminal::codegen::contract
