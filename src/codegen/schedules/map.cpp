#include "codegen/schedules/map.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/fail.h"
#include "codegen/schedules/cost.h"
#include "codegen/schedules/families.h"
#include "codegen/schedules/specialise.h"
#include "kernel/axes.h"

/// Elementwise specs: vectors along the innermost axes of the result, several at a time, or single elements
/// where there are few.
///
/// A block of vectors that lies wholly inside, and where every padded load is known to read inside too, runs
/// without masks; all others run the same body with masks. Loads that lie along another axis than the result
/// go through square tiles (map_tiles.cpp). Parts that lie side by side along an axis are pieces with loops of
/// their own (map_pieces.cpp).
namespace luminal::codegen {

using kernel::KernelSpec;
using kernel::Operand;

namespace map {

bool takes(const KernelSpec& spec) {
  const auto& axes = spec.result().axes;
  return std::ranges::all_of(spec.values(), [](const kernel::Value& v) { return !v.monoid; }) &&
         std::ranges::all_of(spec.outputs(), [&](const kernel::Output& o) {
           return spec.values()[static_cast<size_t>(o.value)].axes == axes;
         });
}

void store_outputs(const KernelSpec& spec, const Ramp& ramp, const Coordinates& at, std::map<int, Id>& known,
                   bool streaming) {
  // All values before all stores: an output may be the memory of a slot.
  for (const kernel::Output& o : spec.outputs()) (void)ramp.value(spec, o.value, at, known);
  for (size_t k = 0; k < spec.outputs().size(); ++k)
    ramp.store(static_cast<int>(spec.slots().size() + k), spec.outputs()[k].index,
               known.at(spec.outputs()[k].value), at, streaming);
}

void prepare(const KernelSpec& spec, Ramp& ramp) {
  for (const kernel::Value& v : spec.values())
    for (const Operand& o : v.operands) ramp.prepare(o);
  for (const kernel::Output& o : spec.outputs()) ramp.prepare(o.index);
}

}  // namespace map

namespace {

using namespace map;

/// What differs along the row; the rest is computed once for it.
double cycles_of_vector(const KernelSpec& spec, const AxisGroup& inner, int lanes) {
  double cycles = 1 + body_cycles(spec, kernel::axes_of(inner.axes));
  for (const kernel::Value& v : spec.values())
    for (const Operand& o : v.operands)
      if ((kernel::axes_of(o, spec.values()) & kernel::axes_of(inner.axes)) != 0)
        cycles += load_cycles(spec, o, inner, lanes);
  return cycles;
}

double cycles_of_row(const KernelSpec& spec, const TaskGrid& grid) {
  const kernel::AxisSet outer = kernel::axes_of(grid.outer.axes), inner = kernel::axes_of(grid.inner.axes);
  return 6 + body_cycles(spec, outer | inner) - body_cycles(spec, inner);
}

/// Loads what is the same along the row. Blocks ask for the same elements in branches, out of which no target
/// may move a load by itself; what stands in front of them is found there.
void load_row(StageBuilder& b, const KernelSpec& spec, const AxisGroup& inner, const Coordinates& at) {
  const Ramp one(b);
  for (const kernel::Value& v : spec.values())
    for (const Operand& o : v.operands)
      if (o.kind == Operand::Kind::Load &&
          (kernel::axes_of(o, spec.values()) & kernel::axes_of(inner.axes)) == 0)
        (void)one.load(o, at);
}

void store_element(StageBuilder& b, const KernelSpec& spec, const AxisGroup& inner, Coordinates at,
                   const Expression& position) {
  inner.place(position, at);
  std::map<int, Id> known;
  store_outputs(spec, Ramp(b), at, known, false);
}

/// Vectors of a spec over a grid of its elements.
class MapRows {
 public:
  MapRows(KernelSpec spec, const std::vector<int>& order, const Parameters& p, const DimMap& top,
          const Target& target)
      : spec_(std::move(spec)),
        lanes_(static_cast<int>(p.at("lanes"))),
        unroll_(p.at("unroll")),
        streaming_(p.at("stream") != 0),
        grid_(grid_of(spec_.extents(), order, p.at("inner"), lanes_ * unroll_)),
        interior_(interior_of(spec_, grid_.inner)) {
    if (grid_.inner.size() == Expression(1)) lanes_ = 1;
    cut_into_tasks(grid_, cycles_of_vector(spec_, grid_.inner, lanes_) * static_cast<double>(unroll_), top,
                   target);
  }

  [[nodiscard]] Expression tasks() const { return grid_.tasks(); }

  void lower(StageBuilder& b, const Expression& task) const {
    grid_.visit(
        b, task, spec_.extents().size(), [&](const Coordinates& at) { load_row(b, spec_, grid_.inner, at); },
        [&](const Coordinates& at, const Expression& start) { block(b, at, start); });
  }

 private:
  void block(StageBuilder& b, const Coordinates& at, const Expression& start) const {
    if (lanes_ == 1) return store_element(b, spec_, grid_.inner, at, start);
    const Expression size = grid_.inner.size();
    const Expression full =
        size % grid_.width == Expression(0) ? Expression(1) : (start + (grid_.width - 1)).lt(size);
    const Expression inside = full & interior_.holds(grid_.inner, at, start, grid_.width);
    guarded(b, inside, [&](bool whole) {
      const KernelSpec& body = whole ? interior_.spec : spec_;
      for (int64_t u = 0; u < unroll_; ++u) {
        const Expression first = start + u * lanes_;
        Ramp ramp(b, grid_.inner, first, lanes_, whole ? first + lanes_ : size);
        prepare(body, ramp);
        std::map<int, Id> known;
        store_outputs(body, ramp, at, known, streaming_ && whole);
      }
    });
  }

  KernelSpec spec_;
  int lanes_;
  int64_t unroll_;
  bool streaming_;
  TaskGrid grid_;
  Interior interior_;
};

/// The cuts along the axis of a candidate's number (1 and up).
Cuts cuts_along(const KernelSpec& spec, int64_t number) {
  for (Cuts& cuts : cuts_of(spec))
    if (cuts.axis + 1 == number) return std::move(cuts);
  throw InternalError(fmt::format("[map] axis {} of a kernel is not cut", number - 1));
}

Program lower_rows(const KernelSpec& spec, const Parameters& p, const DimMap& top, const Target& target) {
  const std::vector<int> order = memory_order(spec, spec.outputs()[0]);
  std::vector<MapRows> pieces;
  if (const int64_t number = parameter_or(p, "pieces", 0); number > 0) {
    const Cuts cuts = cuts_along(spec, number);
    Target share = target;  // of a piece
    share.threads = std::max(1, target.threads / static_cast<int>(cuts.places.size() - 1));
    for (size_t k = 0; k + 1 < cuts.places.size(); ++k)
      pieces.emplace_back(piece_of(spec, cuts, k), order, p, top, share);
  } else {
    pieces.emplace_back(spec, order, p, top, target);
  }
  Expression tasks = 0;
  for (const MapRows& piece : pieces) tasks += piece.tasks();
  Program program = program_for(spec, "map");
  StageBuilder b(program, tasks);
  if (pieces.size() == 1) {
    pieces[0].lower(b, b.task());
  } else {
    Expression first = 0;
    for (const MapRows& piece : pieces) {
      const Expression number = b.task() - first, here = number.gte(0) & number.lt(piece.tasks());
      b.if_true(b.compute(ScalarOp::Ne, {b.index(here), b.constant({Dtype::I64, 1}, 0)}),
                [&] { piece.lower(b, number.max(0).min(piece.tasks() - 1)); });
      first += piece.tasks();
    }
  }
  b.finish();
  return program;
}

// --- candidates ---

bool is_large(const Roofline& r, const Target& target) {
  return r.bytes > static_cast<double>(target.l2_bytes) * target.threads;
}

/// Candidates with their predictions.
class MapCandidates {
 public:
  MapCandidates(const KernelSpec& spec, const DimMap& top, const Target& target)
      : spec_(spec),
        top_(top),
        target_(target),
        roofline_(roofline_of(spec, top, target)),
        large_(is_large(roofline_, target)) {}

  std::vector<Candidate> all() {
    if (!spec_.result().axes.empty())
      for (const Cuts& cuts : cuts_of(spec_)) pieces(cuts);
    rows();
    if (spec_.result().axes.empty()) return candidates();
    const size_t turned = turned_loads(spec_).loads.size();
    if (turned > 0) tiles(static_cast<double>(turned));
    return candidates();
  }

 private:
  struct Point {
    int64_t inner = 1, unroll = 1, lanes = 1, block = 1, pieces = 0;
    bool stream = false, tile = false;
    double us = 0;
  };

  /// The best of what was found.
  std::vector<Candidate> candidates() {
    std::ranges::stable_sort(found_, {}, &Point::us);
    constexpr size_t kMost = 8;
    if (found_.size() > kMost) found_.resize(kMost);
    std::vector<Candidate> best;
    for (const Point& p : found_) {
      Parameters parameters{{"inner", p.inner},           {"unroll", p.unroll},     {"lanes", p.lanes},
                            {"stream", p.stream ? 1 : 0}, {"tile", p.tile ? 1 : 0}, {"block", p.block}};
      if (p.pieces != 0) parameters["pieces"] = p.pieces;
      best.push_back({std::move(parameters), p.us});
    }
    return best;
  }

  void rows() {
    const auto axes = static_cast<int64_t>(order_.size());
    const int64_t lanes = natural_lanes(spec_, target_);
    for (int64_t inner = 1; inner <= axes; ++inner) {
      const TaskGrid grid = grid_of(spec_.extents(), order_, inner, lanes);
      for (const int64_t unroll : {1, 2, 4}) {
        const Point p{.inner = inner, .unroll = unroll, .lanes = lanes};
        add(p, cycles(p, spec_, grid));
      }
    }
    const TaskGrid grid = grid_of(spec_.extents(), order_, 1, 1);
    add({}, cycles(Point{}, spec_, grid), false);
  }

  static int64_t loads_of(const KernelSpec& spec) {
    int64_t loads = 0;
    for (const kernel::Value& v : spec.values())
      loads += std::ranges::count(v.operands, Operand::Kind::Load, &Operand::kind);
    return loads;
  }

  /// Each piece by itself, over the innermost axis or over all behind the one that is cut. Not where most pieces read
  /// everything: padding alone costs nothing inside (see Interior).
  void pieces(const Cuts& cuts) {
    const auto behind = std::ranges::find(order_, cuts.axis) - order_.begin() + 1;
    const int64_t lanes = natural_lanes(spec_, target_), all_loads = loads_of(spec_);
    std::vector<KernelSpec> specs;
    int64_t whole = 0;
    for (size_t k = 0; k + 1 < cuts.places.size(); ++k) {
      specs.push_back(piece_of(spec_, cuts, k));
      if (loads_of(specs.back()) == all_loads) whole += cuts.places[k + 1] - cuts.places[k];
    }
    if (2 * whole >= cuts.places.back()) return;
    for (const int64_t inner : std::set<int64_t>{1, std::max<int64_t>(1, std::ssize(order_) - behind)})
      for (const int64_t unroll : {1, 2, 4}) {
        const Point p{.inner = inner, .unroll = unroll, .lanes = lanes, .pieces = cuts.axis + 1};
        double all = 0;
        for (const KernelSpec& piece : specs)
          all += cycles(p, piece, grid_of(piece.extents(), order_, inner, lanes));
        add(p, all);
      }
  }

  void tiles(double turned) {
    // Past the caches only whole lines: the halves of one would be written far apart in time.
    const kernel::Value& v = spec_.values()[static_cast<size_t>(spec_.outputs()[0].value)];
    const TaskGrid grid = grid_of(spec_.extents(), order_, 1, 1);
    for (const int64_t lanes : {16, 8}) {
      if (lanes > natural_lanes(spec_, target_)) continue;
      const double vector = 4 + body_cycles(spec_, kernel::axes_of(grid.inner.axes)) +
                            4 * std::log2(static_cast<double>(lanes)) * turned;
      for (const int64_t block : {1, 4})
        add({.lanes = lanes, .block = block, .tile = true},
            cycles(lanes, grid, cycles_of_row(spec_, grid), vector),
            block > 1 && lanes * element_bytes(v.dtype()) >= 64);
    }
  }

  /// Of all elements in blocks of `width`, each of so many cycles.
  [[nodiscard]] double cycles(int64_t width, const TaskGrid& grid, double row, double block) const {
    const auto rows = static_cast<double>(std::max<int64_t>(1, grid.rows().exec(top_)));
    const int64_t columns = std::max<int64_t>(1, grid.inner.size().exec(top_));
    return rows * (row + static_cast<double>((columns + width - 1) / width) * (2 + block));
  }
  [[nodiscard]] double cycles(const Point& p, const KernelSpec& spec, const TaskGrid& grid) const {
    const double vector = cycles_of_vector(spec, grid.inner, static_cast<int>(p.lanes));
    return cycles(p.lanes * p.unroll, grid, cycles_of_row(spec, grid),
                  vector * static_cast<double>(p.unroll));
  }

  /// `p` and, where memory is what counts, `p` with stores past the caches.
  void add(Point p, double cycles, bool may_stream = true) {
    // Loops with masks never stream, whatever a candidate says; what their pieces write stays in the last cache if it
    // fits there.
    const bool large = p.pieces != 0 ? roofline_.bytes > static_cast<double>(target_.l3_bytes) / 2 : large_;
    for (const bool stream : {false, true}) {
      if (stream && !(large && may_stream)) continue;
      // A line is read before it is written unless the store goes past the caches, which is slow where it
      // would have stayed in them.
      double slow = large ? (stream ? 1 : 1.3) : 1;
      // Single tiles read one line of each of many rows.
      if (p.tile && large_) slow *= p.block > 1 ? 1.5 : 4;
      p.stream = stream;
      p.us = roofline_.us(cycles, 1, slow);
      found_.push_back(p);
    }
  }

  const KernelSpec& spec_;
  const DimMap& top_;
  const Target& target_;
  std::vector<int> order_ = memory_order(spec_, spec_.outputs()[0]);
  Roofline roofline_;
  bool large_;
  std::vector<Point> found_;
};

std::vector<Candidate> map_candidates(const KernelSpec& given, const Bucket& bucket, const Target& target) {
  const KernelSpec spec = specialised(given, bucket);
  const DimMap top = bucket.top();
  return takes(spec) ? MapCandidates(spec, top, target).all() : std::vector<Candidate>{};
}

Program map_lower(const KernelSpec& given, const Parameters& parameters, const Bucket& bucket,
                  const Target& target) {
  const KernelSpec spec = specialised(given, bucket);
  return parameters.at("tile") != 0 ? lower_tiles(spec, parameters, bucket.top(), target)
                                    : lower_rows(spec, parameters, bucket.top(), target);
}

}  // namespace

const Schedule& map_schedule() {
  static const Schedule schedule{
      .name = "map",
      .doc = "elementwise specs in vectors, without masks inside; transposes in tiles",
      .candidates = map_candidates,
      .lower = map_lower};
  return schedule;
}

}  // namespace luminal::codegen
