#include "codegen/schedules/map.h"

#include <algorithm>
#include <cmath>

#include "codegen/schedules/cost.h"
#include "codegen/schedules/families.h"
#include "codegen/schedules/specialise.h"
#include "kernel/axes.h"
#include "symbolic/node.h"

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

/// True at both ends of an interval of `axis`, true in between: conjunctions of linear inequalities.
bool is_convex(const Expression& predicate, int axis) {
  using symbolic::Kind;
  const symbolic::Node& n = predicate.node();
  if (!predicate.to_indices().contains(axis)) return true;
  if (n.kind == Kind::And || n.kind == Kind::Product)
    return std::ranges::all_of(
        n.args, [&](const Expression& a) { return symbolic::is_boolean(a) && is_convex(a, axis); });
  if (n.kind == Kind::Negative) return evenly(n.args[0], AxisGroup{{axis}, {INT64_MAX}, {0}}).has_value();
  return false;
}

/// The spec without the masks that `holds` at both ends of a block implies, and those masks.
Interior interior_of(const KernelSpec& spec, const AxisGroup& inner) {
  kernel::SpecParts parts = spec.parts();
  Interior result;
  const auto removable = [&](const kernel::Mask& m) {
    if (!depends_on(m.predicate, inner.axes)) return true;
    return inner.axes.size() == 1 && is_convex(m.predicate, inner.axes[0]);
  };
  for (kernel::Value& v : parts.values)
    for (Operand& o : v.operands)
      std::erase_if(o.masks, [&](const kernel::Mask& m) {
        if (!removable(m)) return false;
        if (std::ranges::find(result.predicates, m.predicate) == result.predicates.end())
          result.predicates.push_back(m.predicate);
        return true;
      });
  result.spec = KernelSpec(std::move(parts));
  return result;
}

void guarded(StageBuilder& b, const Expression& condition, const std::function<void(bool inside)>& body) {
  if (const auto known = condition.constant()) return body(*known != 0);
  const Id inside = b.compute(ScalarOp::Ne, {b.index(condition), b.constant({Dtype::I64, 1}, 0)});
  b.if_true(inside, [&] { body(true); });
  b.if_true(b.compute(ScalarOp::Not, {inside}), [&] { body(false); });
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

double cycles_of_vector(const KernelSpec& spec, const AxisGroup& inner, int lanes) {
  double cycles = 1 + body_cycles(spec);
  for (const kernel::Value& v : spec.values()) cycles += load_cycles(v.operands, inner, lanes);
  return cycles;
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
      b, spec.extents().size(), [](const Coordinates&) {},
      [&](const Coordinates& at, const Expression& start) {
        if (lanes == 1) return store_element(b, spec, grid.inner, at, start);
        Expression inside =
            size % grid.width == Expression(0) ? Expression(1) : (start + (grid.width - 1)).lt(size);
        for (const Expression& predicate : interior.predicates)
          for (const Expression& end : {start, start + (grid.width - 1)}) {
            Coordinates there = at;
            grid.inner.place(end, there);
            inside = inside & predicate.substitute_indices(there);
          }
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
      const double vector = 4 + body_cycles(spec_) + 4 * std::log2(static_cast<double>(lanes)) * turned;
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
    const double cycles = rows * (6 + blocks * (2 + vector * static_cast<double>(p.unroll)));
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
