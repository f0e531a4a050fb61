#include "codegen/schedules/map.h"

#include <algorithm>
#include <cmath>

#include "codegen/schedules/cost.h"
#include "codegen/schedules/families.h"
#include "codegen/schedules/specialise.h"
#include "kernel/axes.h"

/// Elementwise specs: vectors along the innermost axes of the result, several at a time, or single elements
/// where there are few.
///
/// A block of vectors that lies wholly inside, and where every padded load is known to read inside too, runs
/// without masks; all others run the same body with masks. Loads that lie along another axis than the result
/// go through square tiles (map_tiles.cpp).
namespace luminal::codegen {

using kernel::KernelSpec;
using kernel::Operand;

namespace map {

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

bool takes(const KernelSpec& spec) {
  const auto& axes = spec.result().axes;
  return std::ranges::all_of(spec.values(), [](const kernel::Value& v) { return !v.monoid; }) &&
         std::ranges::all_of(spec.outputs(), [&](const kernel::Output& o) {
           return spec.values()[static_cast<size_t>(o.value)].axes == axes;
         });
}

TaskGrid grid_of(const KernelSpec& spec, int64_t inner_axes, int64_t width) {
  const std::vector<int> axes = memory_order(spec, spec.outputs()[0]);
  const auto middle =
      axes.end() - std::min<std::ptrdiff_t>(inner_axes, static_cast<std::ptrdiff_t>(axes.size()));
  return {.outer = group_of(spec.extents(), {axes.begin(), middle}),
          .inner = group_of(spec.extents(), {middle, axes.end()}),
          .width = width};
}

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

Program lower_rows(const KernelSpec& spec, const Parameters& p, const DimMap& top, const Target& target) {
  const auto lanes = static_cast<int>(p.at("lanes"));
  const int64_t unroll = p.at("unroll");
  const bool streaming = p.at("stream") != 0;
  TaskGrid grid = grid_of(spec, p.at("inner"), lanes * unroll);
  cut_into_tasks(grid, cycles_of_vector(spec, grid.inner, lanes) * static_cast<double>(unroll), top, target);
  const Interior interior = interior_of(spec, grid.inner);
  Program program = program_for(spec, "map");
  StageBuilder b(program, grid.tasks());
  const Expression size = grid.inner.size();
  grid.visit(
      b, spec.extents().size(), [&](const Coordinates& at) { load_row(b, spec, grid.inner, at); },
      [&](const Coordinates& at, const Expression& start) {
        if (lanes == 1) return store_element(b, spec, grid.inner, at, start);
        const Expression full =
            size % grid.width == Expression(0) ? Expression(1) : (start + (grid.width - 1)).lt(size);
        const Expression inside = full & interior.holds(grid.inner, at, start, grid.width);
        guarded(b, inside, [&](bool whole) {
          const KernelSpec& body = whole ? interior.spec : spec;
          for (int64_t u = 0; u < unroll; ++u) {
            const Expression first = start + u * lanes;
            Ramp ramp(b, grid.inner, first, lanes, whole ? first + lanes : size);
            prepare(body, ramp);
            std::map<int, Id> known;
            store_outputs(body, ramp, at, known, streaming && whole);
          }
        });
      });
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
    rows();
    if (spec_.result().axes.empty()) return candidates();
    const size_t turned = turned_loads(spec_).loads.size();
    if (turned > 0) tiles(static_cast<double>(turned));
    return candidates();
  }

 private:
  struct Point {
    int64_t inner = 1, unroll = 1, lanes = 1, block = 1;
    bool stream = false, tile = false;
    double us = 0;
  };

  /// The best of what was found.
  std::vector<Candidate> candidates() {
    std::ranges::stable_sort(found_, {}, &Point::us);
    constexpr size_t kMost = 8;
    if (found_.size() > kMost) found_.resize(kMost);
    std::vector<Candidate> best;
    for (const Point& p : found_)
      best.push_back({{{"inner", p.inner},
                       {"unroll", p.unroll},
                       {"lanes", p.lanes},
                       {"stream", p.stream ? 1 : 0},
                       {"tile", p.tile ? 1 : 0},
                       {"block", p.block}},
                      p.us});
    return best;
  }

  void rows() {
    const auto axes = static_cast<int64_t>(memory_order(spec_, spec_.outputs()[0]).size());
    const int64_t lanes = natural_lanes(spec_, target_);
    for (int64_t inner = 1; inner <= axes; ++inner) {
      const TaskGrid grid = grid_of(spec_, inner, lanes);
      const double vector = cycles_of_vector(spec_, grid.inner, static_cast<int>(lanes));
      for (const int64_t unroll : {1, 2, 4})
        add({.inner = inner, .unroll = unroll, .lanes = lanes}, grid, vector);
    }
    const TaskGrid grid = grid_of(spec_, 1, 1);
    add({}, grid, cycles_of_vector(spec_, grid.inner, 1), false);
  }

  void tiles(double turned) {
    // Past the caches only whole lines: the halves of one would be written far apart in time.
    const kernel::Value& v = spec_.values()[static_cast<size_t>(spec_.outputs()[0].value)];
    const TaskGrid grid = grid_of(spec_, 1, 1);
    for (const int64_t lanes : {16, 8}) {
      if (lanes > natural_lanes(spec_, target_)) continue;
      const double vector = 4 + body_cycles(spec_, kernel::axes_of(grid.inner.axes)) +
                            4 * std::log2(static_cast<double>(lanes)) * turned;
      for (const int64_t block : {1, 4})
        add({.lanes = lanes, .block = block, .tile = true}, grid, vector,
            block > 1 && lanes * element_bytes(v.dtype()) >= 64);
    }
  }

  /// `p` and, where memory is what counts, `p` with stores past the caches.
  void add(Point p, const TaskGrid& grid, double vector, bool may_stream = true) {
    const auto rows = static_cast<double>(std::max<int64_t>(1, grid.rows().exec(top_)));
    const int64_t width = p.lanes * p.unroll, columns = std::max<int64_t>(1, grid.inner.size().exec(top_));
    const auto blocks = static_cast<double>((columns + width - 1) / width);
    const double cycles =
        rows * (cycles_of_row(spec_, grid) + blocks * (2 + vector * static_cast<double>(p.unroll)));
    for (const bool stream : {false, true}) {
      if (stream && !(large_ && may_stream)) continue;
      // A line is read before it is written unless the store goes past the caches, which is slow where it
      // would have stayed in them.
      double slow = large_ ? (stream ? 1 : 1.3) : 1;
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
