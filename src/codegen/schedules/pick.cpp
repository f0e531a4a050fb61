#include "codegen/schedules/pick.h"

#include <algorithm>

#include "codegen/schedules/cost.h"
#include "codegen/schedules/families.h"
#include "codegen/schedules/map.h"
#include "codegen/schedules/specialise.h"

/// Sums of which one term at most is not 0 (kernel/one_term.h): rows of a table that a product with one-hot rows names,
/// the probability of each token that came next. The place is computed, and what lies there is all that is read: a gather.
/// What is elementwise around them is computed in the same loops, vectors along the innermost axes of the result.
namespace luminal::codegen {

using kernel::KernelSpec;
using kernel::Operand;

namespace {

bool lies_at_place(const Operand& o, const kernel::OneTerm& term) {
  return o.kind == Operand::Kind::Load && (kernel::axes_of(o.index) & kernel::axis_bit(term.axis)) != 0;
}

}  // namespace

Picks picks_in(const KernelSpec& spec) {
  Picks picks;
  for (size_t v = 0; v < spec.values().size(); ++v) {
    auto term = kernel::one_term_of(spec.values(), v);
    const auto is_in_blocks = [&](const Operand& o) {
      return lies_at_place(o, *term) && is_quantized(spec.slots()[static_cast<size_t>(o.slot)].dtype);
    };
    if (term && std::ranges::none_of(spec.values()[v].operands, is_in_blocks))
      picks.emplace(static_cast<int>(v), std::move(*term));
  }
  return picks;
}

Id picked(StageBuilder& b, const KernelSpec& spec, int value, const kernel::OneTerm& term, const Ramp& ramp,
          std::span<const Expression> at, std::map<int, Id>& known) {
  const kernel::Value& sum = spec.values()[static_cast<size_t>(value)];
  const auto as_wide = [&](Id id, int lanes) {
    return b.type(id).lanes == lanes ? id : b.broadcast(id, lanes);
  };
  const Id place = ramp.evaluate(spec, term.place, sum.operands, at, known);
  const int lanes = b.type(place).lanes;
  const Id length = as_wide(b.index(spec.extents()[static_cast<size_t>(term.axis)]), lanes);
  const Id there =
      b.compute(ScalarOp::And, {b.compute(ScalarOp::Le, {b.constant({Dtype::I64, lanes}, 0), place}),
                                b.compute(ScalarOp::Lt, {place, length})});
  Ramp at_place = ramp;
  at_place.assign(term.axis, place, there);
  std::map<int, Id> known_there = known;
  const Id found = at_place.evaluate(spec, sum.body, sum.operands, at, known_there);
  const int width = std::max(lanes, b.type(found).lanes);
  return b.compute(ScalarOp::Select,
                   {as_wide(there, width), as_wide(found, width), b.constant({sum.dtype(), width}, 0)});
}

namespace {

/// Whether the family takes the spec: all its sums are picks, and its outputs lie over the same axes.
bool takes(const KernelSpec& spec, const Picks& picks) {
  const auto is_sum = [](const kernel::Value& v) { return v.monoid.has_value(); };
  const auto has_all_axes = [&](const kernel::Output& o) {
    return spec.values()[static_cast<size_t>(o.value)].axes == spec.result().axes;
  };
  return !picks.empty() && std::ranges::count_if(spec.values(), is_sum) == std::ssize(picks) &&
         std::ranges::all_of(spec.outputs(), has_all_axes);
}

void store_block(StageBuilder& b, const KernelSpec& spec, const Picks& picks, const Ramp& ramp,
                 const Coordinates& at) {
  std::map<int, Id> known;
  for (const auto& [value, term] : picks) known[value] = picked(b, spec, value, term, ramp, at, known);
  map::store_outputs(spec, ramp, at, known, false);
}

/// Of one block: bodies, and loads, of which those at computed places come lane by lane.
double cycles_of_block(const KernelSpec& spec, const Picks& picks, const AxisGroup& inner, int lanes) {
  constexpr double kPickedLane = 2, kPlace = 4;
  double cycles = 2 + kPlace * static_cast<double>(picks.size());
  for (size_t v = 0; v < spec.values().size(); ++v) {
    const kernel::Value& value = spec.values()[v];
    const auto pick = picks.find(static_cast<int>(v));
    cycles += body_cycles(value.body);
    for (const Operand& o : value.operands)
      cycles += pick != picks.end() && lies_at_place(o, pick->second) ? kPickedLane * lanes
                                                                      : load_cycles(spec, o, inner, lanes);
  }
  return cycles;
}

Program lower(const KernelSpec& given, const Parameters& p, const Bucket& bucket, const Target& target) {
  const KernelSpec spec = specialised(given, bucket);
  const Picks picks = picks_in(spec);
  const std::vector<int> order = memory_order(spec, spec.outputs()[0]);
  int lanes = static_cast<int>(p.at("lanes"));
  TaskGrid grid = grid_of(spec.extents(), order, p.at("inner"), lanes);
  if (grid.inner.size() == Expression(1)) lanes = 1;
  cut_into_tasks(grid, cycles_of_block(spec, picks, grid.inner, lanes), bucket.top(), target);
  Program program = program_for(spec, "pick");
  StageBuilder b(program, grid.tasks());
  const Expression size = grid.inner.size();
  grid.visit(
      b, spec.extents().size(), [](const Coordinates&) {},
      [&](const Coordinates& row, const Expression& start) {
        Coordinates at = row;
        if (lanes == 1) {
          grid.inner.place(start, at);
          return store_block(b, spec, picks, Ramp(b), at);
        }
        const bool is_even = size % lanes == Expression(0);
        guarded(b, is_even ? Expression(1) : (start + (lanes - 1)).lt(size), [&](bool whole) {
          Ramp ramp(b, grid.inner, start, lanes, whole ? start + lanes : size);
          map::prepare(spec, ramp);
          store_block(b, spec, picks, ramp, at);
        });
      });
  b.finish();
  return program;
}

// --- candidates ---

std::vector<Candidate> candidates(const KernelSpec& given, const Bucket& bucket, const Target& target) {
  const KernelSpec spec = specialised(given, bucket);
  const Picks picks = picks_in(spec);
  if (!takes(spec, picks)) return {};
  const DimMap top = bucket.top();
  // Of what is read at computed places, what is picked.
  const kernel::Work work = kernel::work_of(spec, top);
  Roofline roofline = roofline_of(spec, top, target);
  roofline.bytes = work.bytes_read + work.bytes_written;
  const std::vector<int> order = memory_order(spec, spec.outputs()[0]);
  std::vector<Candidate> list;
  const auto add = [&](int64_t inner, int lanes) {
    const TaskGrid grid = grid_of(spec.extents(), order, inner, lanes);
    const double block = cycles_of_block(spec, picks, grid.inner, lanes);
    const auto blocks = static_cast<double>(std::max<int64_t>(1, grid.rows().exec(top))) *
                        static_cast<double>(std::max<int64_t>(1, grid.blocks().exec(top)));
    list.push_back({{{"inner", inner}, {"lanes", lanes}}, roofline.us(blocks * block, 1)});
  };
  const int lanes = natural_lanes(spec, target);
  for (int64_t inner = 1; inner <= std::ssize(order); ++inner) add(inner, lanes);
  add(1, 1);
  std::ranges::stable_sort(list, {}, &Candidate::predicted_us);
  return list;
}

}  // namespace

const Schedule& pick_schedule() {
  static const Schedule schedule{.name = "pick",
                                 .doc = "sums with one term, as products with one-hot rows: gathers",
                                 .candidates = candidates,
                                 .lower = lower};
  return schedule;
}

}  // namespace luminal::codegen
