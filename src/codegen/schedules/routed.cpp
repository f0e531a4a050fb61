#include "kernel/routed.h"

#include <algorithm>

#include "base/fail.h"
#include "codegen/schedules/cost.h"
#include "codegen/schedules/families.h"
#include "codegen/schedules/inner_ways.h"
#include "codegen/schedules/map.h"
#include "codegen/schedules/specialise.h"
#include "codegen/schedules/vector_loops.h"
#include "kernel/axes.h"
#include "kernel/canonical_steps.h"

// What one term comes to at one place is lowered by another family; its tasks run for each place, with the coordinate
// that the place names. What that family prepares of frozen slots is prepared for each term.
namespace luminal::codegen {
namespace {

using kernel::KernelSpec;
using kernel::Routed;

constexpr std::string_view kTerm = "routed.term";  // a named dim while one term is lowered

/// And a dim for each axis of the places.
std::string place_name(size_t number) { return "routed.place" + std::to_string(number); }

const Expression& terms_of(const KernelSpec& spec, const Routed& routed) {
  return spec.extents()[static_cast<size_t>(routed.term.axis)];
}

/// A kernel's spec and what routes it. Nothing where it is no such kernel, or a frozen slot is read by place, for which
/// nothing is prepared.
struct Kernel {
  KernelSpec spec;
  Routed routed;
};
std::optional<Kernel> kernel_of(const KernelSpec& original, const Bucket& bucket) {
  KernelSpec spec = specialised(original, bucket);
  auto routed = kernel::routed_of(spec);
  if (!routed) return std::nullopt;
  const kernel::AxisSet places = kernel::axes_of(routed->places), term = kernel::axis_bit(routed->term.axis);
  for (const kernel::Value& v : spec.values())
    for (const kernel::Operand& o : v.operands) {
      if (o.kind != kernel::Operand::Kind::Load || !spec.slots()[static_cast<size_t>(o.slot)].is_frozen)
        continue;
      const kernel::AxisSet axes = kernel::axes_of(o, spec.values());
      if (v.monoid && ((axes & places) != 0 || (axes & term) == 0)) return std::nullopt;
    }
  return Kernel{std::move(spec), std::move(*routed)};
}

/// One term at one place.
kernel::SpecParts parts_at(const Kernel& kernel, std::span<const Expression> place, const Expression& term) {
  kernel::SpecParts parts = each_term(kernel.spec, kernel.routed);
  std::vector<Expression> coordinates = kernel::axis_variables(parts.extents);
  const auto set = [&](int axis, const Expression& coordinate) {
    parts.extents[static_cast<size_t>(axis)] = 1;
    coordinates[static_cast<size_t>(axis)] = coordinate;
  };
  for (size_t k = 0; k < place.size(); ++k) set(kernel.routed.places[k], place[k]);
  set(kernel.routed.term.axis, term);
  place_axes(parts, coordinates);
  kernel::simplify_values(parts);
  return parts;
}

Range range_of(const KernelSpec& spec, int axis, const DimMap& top) {
  return {.min = 0, .max = std::max<int64_t>(1, spec.extents()[static_cast<size_t>(axis)].exec(top)) - 1};
}

KernelSpec at_any_place(const Kernel& kernel, Bucket& bucket) {
  const DimMap top = bucket.top();
  const auto dim = [&](const std::string& name, int axis) {
    const Range range = range_of(kernel.spec, axis, top);
    bucket.facts[name] = {.min = range.min, .max = range.max};
    return Expression::dim(name, {.min = range.min, .max = range.max});
  };
  std::vector<Expression> place;
  for (size_t k = 0; k < kernel.routed.places.size(); ++k)
    place.push_back(dim(place_name(k), kernel.routed.places[k]));
  return KernelSpec(parts_at(kernel, place, dim(std::string(kTerm), kernel.routed.term.axis)));
}

/// As if there were nothing else: what is read and written there, of all tensors that differ by place or term.
KernelSpec alone(const Kernel& kernel, const Bucket& bucket) {
  const std::vector<Expression> first(kernel.routed.places.size(), 0);
  kernel::SpecParts parts = parts_at(kernel, first, 0);
  const DimMap top = bucket.top();
  const auto shrink = [&](Expression& elements, kernel::AxisSet axes) {
    kernel::for_each_axis(
        axes, [&](int axis) { elements = elements.ceil_div(range_of(kernel.spec, axis, top).max + 1); });
  };
  const kernel::AxisSet places = kernel::axes_of(kernel.routed.places),
                        set = places | kernel::axis_bit(kernel.routed.term.axis);
  for (size_t slot = 0; slot < parts.slots.size(); ++slot) {
    kernel::AxisSet differs = set;
    for (const kernel::Value& v : kernel.spec.values())
      for (const kernel::Operand& o : v.operands)
        if (o.kind == kernel::Operand::Kind::Load && o.slot == static_cast<int>(slot))
          differs &= kernel::axes_of(o.index);
    shrink(parts.slots[slot].elements, differs);
  }
  for (kernel::Output& o : parts.outputs) shrink(o.elements, places);
  return KernelSpec(std::move(parts));
}

class RoutedLowering {
 public:
  RoutedLowering(const Kernel& kernel, const Target& target)
      : spec_(kernel.spec),
        routed_(kernel.routed),
        target_(target),
        places_(group_of(kernel.spec.extents(), kernel.routed.places)),
        terms_(terms_of(kernel.spec, kernel.routed)),
        program_(program_for(kernel.spec, "routed")) {}

  /// `one`: the program of one term at one place.
  Program lower(Program one) {
    add_workspaces(one);
    for (size_t k = 0; k < one.stages.size(); ++k)
      if (one.stages[k].prepares)
        program_.stages.push_back(of_all_terms(std::move(one.stages[k])));
      else
        add_at_all_places(std::move(one.stages[k]), k + 1 == one.stages.size());
    return std::move(program_);
  }

 private:
  /// Slots and outputs are the same ones. What all tasks of a launch share there is once for each place, and what is
  /// prepared for each term.
  void add_workspaces(Program& one) {
    constexpr int64_t kLine = 64;  // each begins at a multiple of as many elements
    for (Buffer& buffer : one.buffers) {
      if (buffer.space == Space::Slot || buffer.space == Space::Output) {
        buffers_.push_back({.number = static_cast<int>(buffers_.size())});
        continue;
      }
      Piece piece;
      if (buffer.space == Space::Shared || buffer.space == Space::Prepared) {
        piece.elements = buffer.elements.ceil_div(kLine) * kLine;
        piece.is_of_term = buffer.space == Space::Prepared;
        buffer.elements = piece.elements * (piece.is_of_term ? terms_ : places_.size());
      }
      piece.number = add_buffer(program_, std::move(buffer));
      buffers_.push_back(std::move(piece));
    }
  }

  /// Where no term is named the sum is 0.
  void store_without_term(StageBuilder& b, size_t k, const Coordinates& at) const {
    const kernel::Output& output = spec_.outputs()[k];
    const kernel::Value& value = spec_.values()[static_cast<size_t>(output.value)];
    const Dtype dtype = spec_.values()[static_cast<size_t>(routed_.sum)].dtype();
    std::vector<int> axes = value.axes;
    std::erase_if(axes, [&](int a) { return std::ranges::find(routed_.places, a) != routed_.places.end(); });
    const int lanes = target_.lanes(static_cast<int>(element_bytes(value.dtype())));
    const auto store = [&](const Ramp& ramp, const Coordinates& here) {
      std::map<int, Id> known{{routed_.sum, b.constant({dtype, 1}, 0)}};
      const Id made = ramp.widen(ramp.value(spec_, output.value, here, known));
      ramp.store(static_cast<int>(spec_.slots().size() + k), output.index, made, here);
    };
    if (axes.empty()) return store(Ramp(b), at);
    const AxisGroup group = group_of(spec_.extents(), axes);
    const std::vector<Expression> formulas{output.index};
    vector_loops(
        b, group, vector_axes_of(group, formulas, int64_t{2} * lanes), lanes, 1, at, {},
        [&](Ramp& ramp) { map::prepare(spec_, ramp); },
        [&](std::span<const Ramp> ramps, const Coordinates& here, std::span<const Id>) {
          for (const Ramp& ramp : ramps) store(ramp, here);
          return std::vector<Id>{};
        });
  }

  /// What stands in a stage for the place, the term, and the number of the task that runs there.
  struct Here {
    Expression task, term, place;
    std::vector<Expression> coordinates;
  };

  /// Task t runs task t % n of term t / n.
  Stage of_all_terms(Stage stage) const {
    const Expression tasks = stage.tasks;
    stage.tasks = tasks * terms_;
    const Expression task = Expression::index(stage.task_variable, stage.tasks);
    set(stage.body, {.task = task % tasks, .term = task / tasks});
    return stage;
  }

  /// Task t runs task t % n of place t / n: for term in terms: if it is the one that the place names: the task. Comparing
  /// a few hundred numbers is nothing beside a term.
  void add_at_all_places(Stage stage, bool is_last) {
    StageBuilder b(program_, stage.tasks * places_.size());
    b.number_behind(stage);
    Coordinates at(spec_.extents().size(), 0);
    Here here{.task = b.task() % stage.tasks, .place = b.task() / stage.tasks};
    places_.place(here.place, at);
    for (const int axis : routed_.places) here.coordinates.push_back(at[static_cast<size_t>(axis)]);
    std::map<int, Id> known;
    const kernel::Value& sum = spec_.values()[static_cast<size_t>(routed_.sum)];
    const Id name = Ramp(b).evaluate(spec_, routed_.term.place, sum.operands, at, known);
    b.loop(terms_, LoopKind::Serial, [&](const Expression& term) {
      here.term = term;
      set(stage.body, here);
      b.if_true(b.compute(ScalarOp::Eq, {name, b.index(term)}), [&] { b.append(std::move(stage.body)); });
    });
    if (is_last)
      b.if_true(is_outside(b, name, here), [&] {
        for (size_t k = 0; k < spec_.outputs().size(); ++k) store_without_term(b, k, at);
      });
    b.finish();
  }

  /// Whether no term is named. The first task of a place answers for all of them.
  Id is_outside(StageBuilder& b, Id name, const Here& here) const {
    const Id none = b.constant({Dtype::I64, 1}, 0);
    const Id outside = b.compute(ScalarOp::Or, {b.compute(ScalarOp::Lt, {name, none}),
                                                b.compute(ScalarOp::Le, {b.index(terms_), name})});
    return b.compute(ScalarOp::And, {outside, b.compute(ScalarOp::Eq, {b.index(here.task), none})});
  }

  void set(Block& block, const Here& here) const {
    const std::vector<Expression> own{here.task};
    const auto placed = [&](const Expression& e) {
      Expression made = e.substitute_indices(own).substitute(kTerm, here.term);
      for (size_t k = 0; k < here.coordinates.size(); ++k)
        made = made.substitute(place_name(k), here.coordinates[k]);
      return made;
    };
    for (Instruction& i : block) {
      i.extent = placed(i.extent);
      i.index = placed(i.index);
      if (i.buffer >= 0) {
        const Piece& piece = buffers_[static_cast<size_t>(i.buffer)];
        const bool is_by_lanes = i.kind == Instruction::Kind::Gather || i.kind == Instruction::Kind::Scatter;
        LUMINAL_CHECK(!is_by_lanes || piece.elements == Expression(0),
                      "a workspace of one place is read by lanes");
        i.index = i.index + piece.elements * (piece.is_of_term ? here.term : here.place);
        i.buffer = piece.number;
      }
      set(i.body, here);
    }
  }

  struct Piece {
    int number = 0;           ///< of the buffer
    Expression elements = 0;  ///< of a place or term, where tasks share the workspace
    bool is_of_term = false;
  };

  const KernelSpec& spec_;
  const Routed& routed_;
  const Target& target_;
  AxisGroup places_;
  Expression terms_;
  Program program_;
  std::vector<Piece> buffers_;  ///< by their number in the program of one place
};

double places_of(const Kernel& kernel, const DimMap& top) {
  double places = 1;
  for (const int axis : kernel.routed.places)
    places *= static_cast<double>(range_of(kernel.spec, axis, top).max + 1);
  return places;
}

/// What a place is lowered for: a thread, where there are places for all of them.
Target target_of_place(const Kernel& kernel, const DimMap& top, const Target& target) {
  Target one = target;
  if (places_of(kernel, top) >= 2.0 * target.threads) one.threads = 1;
  return one;
}

/// The time of all places where one of them takes `one_us` on `threads`.
double predicted_us(const Kernel& kernel, double one_us, int threads, const DimMap& top,
                    const Target& target) {
  const double launch_us = kernel::MachineLimits().launch_us, places = places_of(kernel, top);
  const kernel::Work work = kernel::work_of(kernel.spec, top);
  const Roofline all = roofline_of(kernel.spec, top, target);
  const double memory_us = (work.bytes_read + work.bytes_written) / all.bytes_per_us,
               turns = threads == target.threads
                           ? places
                           : places / target.threads * unevenness(places, target.threads);
  return 2 * launch_us + std::max(turns * std::max(0.0, one_us - launch_us), memory_us);
}

std::vector<Candidate> routed_ways(const KernelSpec& original, const Bucket& bucket, const Target& target,
                                   size_t most) {
  const auto kernel = kernel_of(original, bucket);
  if (!kernel) return {};
  const DimMap top = bucket.top();
  const Target one = target_of_place(*kernel, top, target);
  std::vector<Candidate> candidates;
  for (const Way& way : ways_of(alone(*kernel, bucket), bucket, one, most)) {
    Candidate& candidate = candidates.emplace_back();
    add_parameters(candidate.parameters, 0, way);
    candidate.predicted_us = predicted_us(*kernel, way.candidate.predicted_us, one.threads, top, target);
  }
  return candidates;
}

std::vector<Candidate> routed_candidates(const KernelSpec& spec, const Bucket& bucket, const Target& target) {
  constexpr size_t kMost = 4;
  return routed_ways(spec, bucket, target, kMost);
}

std::optional<Candidate> routed_best(const KernelSpec& spec, const Bucket& bucket, const Target& target) {
  std::vector<Candidate> best = routed_ways(spec, bucket, target, 1);
  return best.empty() ? std::nullopt : std::optional(std::move(best.front()));
}

Program routed_lower(const KernelSpec& original, const Parameters& parameters, const Bucket& bucket,
                     const Target& target) {
  const auto kernel = kernel_of(original, bucket);
  LUMINAL_CHECK(kernel, "no terms that an index names: {}", original.to_string());
  const Way way = way_of(parameters, 0);
  Bucket all = bucket;
  const KernelSpec one = at_any_place(*kernel, all);
  return RoutedLowering(*kernel, target)
      .lower(way.family->lower(one, way.candidate.parameters, all,
                               target_of_place(*kernel, bucket.top(), target)));
}

}  // namespace

const Schedule& routed_schedule() {
  static const Schedule schedule{.name = "routed",
                                 .doc =
                                     "Sums of which an index names the one term, itself a kernel (the expert "
                                     "that a block of tokens uses): other "
                                     "terms are neither read nor computed.",
                                 .candidates = routed_candidates,
                                 .lower = routed_lower,
                                 .best = routed_best};
  return schedule;
}

}  // namespace luminal::codegen
