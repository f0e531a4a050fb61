#include "codegen/schedules/map.h"

#include <algorithm>
#include <cmath>

#include "codegen/schedules/families.h"
#include "codegen/schedules/roofline.h"
#include "codegen/schedules/specialise.h"
#include "kernel/axes.h"
#include "symbolic/node.h"

/// Elementwise specs: vectors along the innermost axes of the result, several at a time.
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

void store_outputs(const KernelSpec& spec, const Run& run, const Coordinates& at, std::map<int, Id>& known,
                   bool streaming) {
  // All values before all stores: an output may be the memory of a slot.
  for (const kernel::Output& o : spec.outputs()) (void)run.value(spec, o.value, at, known);
  for (size_t k = 0; k < spec.outputs().size(); ++k)
    run.store(static_cast<int>(spec.slots().size() + k), spec.outputs()[k].index,
              known.at(spec.outputs()[k].value), at, streaming);
}

void prepare(const KernelSpec& spec, Run& run) {
  for (const kernel::Value& v : spec.values())
    for (const Operand& o : v.operands) run.prepare(o);
  for (const kernel::Output& o : spec.outputs()) run.prepare(o.index);
}

double body_cycles(const KernelSpec& spec) {
  double cycles = 0;
  for (const kernel::Value& v : spec.values()) cycles += 0.6 * v.body.cost().weight();
  return cycles;
}

}  // namespace map

namespace {

using namespace map;

bool takes(const KernelSpec& spec) {
  const auto& axes = spec.result().axes;
  return !axes.empty() && std::ranges::all_of(spec.values(), [](const kernel::Value& v) {
    return v.combiner == kernel::Combiner::None;
  }) && std::ranges::all_of(spec.outputs(), [&](const kernel::Output& o) {
    return spec.values()[static_cast<size_t>(o.value)].axes == axes;
  });
}

Walk walk_of(const KernelSpec& spec, int64_t inner_axes, int64_t width) {
  const std::vector<int> axes = memory_order(spec, spec.outputs()[0]);
  const auto middle =
      axes.end() - std::min<std::ptrdiff_t>(inner_axes, static_cast<std::ptrdiff_t>(axes.size()));
  return {.outer = group_of(spec.extents(), {axes.begin(), middle}),
          .inner = group_of(spec.extents(), {middle, axes.end()}),
          .width = width};
}

double cycles_of_vector(const KernelSpec& spec, const AxisGroup& inner, int lanes) {
  double cycles = 1 + body_cycles(spec);
  for (const kernel::Value& v : spec.values())
    for (const Operand& o : v.operands) cycles += load_cycles(o, inner, lanes);
  return cycles;
}

Program lower_rows(const KernelSpec& spec, const Parameters& p, const DimMap& top, const Target& target) {
  const auto lanes = static_cast<int>(p.at("lanes"));
  const int64_t unroll = p.at("unroll");
  const bool streaming = p.at("stream") != 0;
  Walk walk = walk_of(spec, p.at("inner"), lanes * unroll);
  cut_into_tasks(walk, cycles_of_vector(spec, walk.inner, lanes) * static_cast<double>(unroll), top, target);
  const Interior interior = interior_of(spec, walk.inner);
  Program program = program_for(spec, "map");
  StageBuilder b(program, walk.tasks());
  const Expression size = walk.inner.size();
  walk.visit(
      b, spec.extents().size(), [](const Coordinates&) {},
      [&](const Coordinates& at, const Expression& start) {
        Expression inside =
            size % walk.width == Expression(0) ? Expression(1) : (start + (walk.width - 1)).lt(size);
        for (const Expression& predicate : interior.predicates)
          for (const Expression& end : {start, start + (walk.width - 1)}) {
            Coordinates there = at;
            walk.inner.place(end, there);
            inside = inside & predicate.substitute_indices(there);
          }
        guarded(b, inside, [&](bool whole) {
          const KernelSpec& body = whole ? interior.spec : spec;
          for (int64_t u = 0; u < unroll; ++u) {
            const Expression first = start + u * lanes;
            Run run(b, walk.inner, first, lanes, whole ? first + lanes : size);
            prepare(body, run);
            std::map<int, Id> known;
            store_outputs(body, run, at, known, streaming && whole);
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

double predicted_us(const KernelSpec& spec, const Parameters& p, const DimMap& top, const Target& target) {
  const auto lanes = static_cast<int>(p.at("lanes"));
  const bool streaming = p.at("stream") != 0, tiled = p.at("tile") != 0;
  const Walk walk = walk_of(spec, p.at("inner"), lanes * p.at("unroll"));
  const auto rows = static_cast<double>(std::max<int64_t>(1, walk.rows().exec(top)));
  const auto blocks = static_cast<double>(std::max<int64_t>(1, walk.blocks().exec(top)));
  double vector = cycles_of_vector(spec, walk.inner, lanes);
  if (tiled)
    vector =
        4 + body_cycles(spec) + 4 * std::log2(lanes) * static_cast<double>(turned_loads(spec).loads.size());
  const double cycles = rows * (6 + blocks * (2 + vector * static_cast<double>(p.at("unroll"))));
  // A line is read before it is written unless the store goes past the caches, which is slow where it would
  // have stayed in them.
  const Roofline roofline = roofline_of(spec, top, target);
  double slow = is_large(roofline, target) ? (streaming ? 1 : 1.3) : (streaming ? 3 : 1);
  // Single tiles read one line of each of many rows.
  if (tiled && is_large(roofline, target)) slow *= parameter_or(p, "block", 1) > 1 ? 1.5 : 4;
  return roofline.us(cycles, 1, slow);
}

std::vector<Candidate> candidates(const KernelSpec& given, const Bucket& bucket, const Target& target) {
  const KernelSpec spec = specialised(given, bucket);
  if (!takes(spec)) return {};
  const DimMap top = bucket.top();
  const int64_t natural = natural_lanes(spec, target);
  const bool large = is_large(roofline_of(spec, top, target), target);
  const auto axes = static_cast<int64_t>(memory_order(spec, spec.outputs()[0]).size());
  std::vector<Candidate> found;
  const auto add = [&](const Parameters& p) { found.push_back({p, predicted_us(spec, p, top, target)}); };
  for (int64_t inner = 1; inner <= axes; ++inner)
    for (const int64_t unroll : {1, 2, 4})
      for (const int64_t stream : {0, 1})
        if (stream == 0 || large)
          add({{"inner", inner},
               {"unroll", unroll},
               {"lanes", natural},
               {"stream", stream},
               {"tile", 0},
               {"block", 1}});
  // Past the caches only whole lines: the halves of one would be written far apart in time.
  const auto fills_line = [&](int64_t lanes) {
    const kernel::Value& v = spec.values()[static_cast<size_t>(spec.outputs()[0].value)];
    return lanes * element_bytes(v.dtype()) >= 64;
  };
  if (!turned_loads(spec).loads.empty())
    for (const int64_t lanes : {16, 8})
      for (const int64_t block : {1, 4})
        for (const int64_t stream : {0, 1})
          if (lanes <= natural && (stream == 0 || (large && block > 1 && fills_line(lanes))))
            add({{"inner", 1},
                 {"unroll", 1},
                 {"lanes", lanes},
                 {"stream", stream},
                 {"tile", 1},
                 {"block", block}});
  std::ranges::stable_sort(found, {}, &Candidate::predicted_us);
  constexpr size_t kMost = 8;
  if (found.size() > kMost) found.resize(kMost);
  return found;
}

Program lower(const KernelSpec& given, const Parameters& parameters, const Bucket& bucket,
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
      .candidates = candidates,
      .lower = lower};
  return schedule;
}

}  // namespace luminal::codegen
