#include "kernel/branch.h"

#include <algorithm>

#include "base/fail.h"
#include "codegen/schedules/cost.h"
#include "codegen/schedules/families.h"
#include "codegen/schedules/inner_ways.h"
#include "codegen/schedules/specialise.h"
#include "codegen/schedules/vector_loops.h"
#include "kernel/axes.h"
#include "kernel/cost.h"

// A stage marks the places at which the condition holds nowhere, and stores their constants. What one place computes is
// lowered by another family; its tasks run once for each place, and end at once where it is marked.
namespace luminal::codegen {
namespace {

using kernel::Branch;
using kernel::branch_of;
using kernel::KernelSpec;

constexpr std::string_view kPlace = "branch.place";  // a named dim while one place is lowered

/// The spec at one place of the axis.
kernel::SpecParts parts_at(const KernelSpec& spec, int axis, const Expression& place) {
  kernel::SpecParts parts = spec.parts();
  std::vector<Expression> coordinates = kernel::axis_variables(parts.extents);
  parts.extents[static_cast<size_t>(axis)] = 1;
  coordinates[static_cast<size_t>(axis)] = place;
  place_axes(parts, coordinates);
  drop_single_axes(parts);
  return parts;
}

KernelSpec at_any_place(const KernelSpec& spec, const Branch& branch) {
  return KernelSpec(
      parts_at(spec, branch.axis, Expression::dim(kPlace, {.min = 0, .max = branch.places - 1})));
}

/// One place as if there were no others: what is read and written there, of all tensors that have the axis.
KernelSpec alone(const KernelSpec& spec, const Branch& branch) {
  kernel::SpecParts parts = parts_at(spec, branch.axis, 0);
  const auto shrink = [&](Expression& elements) { elements = elements.ceil_div(branch.places); };
  for (size_t slot = 0; slot < parts.slots.size(); ++slot) {
    bool differs = true;
    for (const kernel::Value& v : spec.values())
      for (const kernel::Operand& o : v.operands)
        if (o.kind == kernel::Operand::Kind::Load && o.slot == static_cast<int>(slot))
          differs = differs && (kernel::axes_of(o.index) & kernel::axis_bit(branch.axis)) != 0;
    if (differs) shrink(parts.slots[slot].elements);
  }
  for (kernel::Output& o : parts.outputs) shrink(o.elements);
  return KernelSpec(std::move(parts));
}

Bucket with_place(const Bucket& bucket, const Branch& branch) {
  Bucket all = bucket;
  all.facts[std::string(kPlace)] = {.min = 0, .max = branch.places - 1};
  return all;
}

class BranchLowering {
 public:
  BranchLowering(const KernelSpec& spec, const Branch& branch, const Target& target)
      : spec_(spec), branch_(branch), target_(target), program_(program_for(spec, "branch")) {}

  /// `one`: the program of one place.
  Program lower(Program one) {
    add_workspaces(one);
    off_ = add_buffer(
        program_, {.name = "off", .space = Space::Shared, .dtype = Dtype::Bool, .elements = branch_.places});
    bool is_marked = false;
    for (Stage& stage : one.stages) {
      if (!stage.prepares && !is_marked) mark();
      is_marked = is_marked || !stage.prepares;
      program_.stages.push_back(at_all_places(std::move(stage)));
    }
    return std::move(program_);
  }

 private:
  /// Slots and outputs are the same ones. What all tasks of a launch share there is once for each place.
  void add_workspaces(Program& one) {
    constexpr int64_t kLine = 64;  // places begin at multiples of as many elements
    for (Buffer& buffer : one.buffers) {
      if (buffer.space == Space::Slot || buffer.space == Space::Output) {
        numbers_.push_back(static_cast<int>(numbers_.size()));
        pieces_.emplace_back(0);
        continue;
      }
      const bool is_common = buffer.space == Space::Shared || buffer.space == Space::Prepared;
      pieces_.push_back(is_common ? buffer.elements.ceil_div(kLine) * kLine : Expression(0));
      if (is_common) buffer.elements = pieces_.back() * branch_.places;
      numbers_.push_back(add_buffer(program_, std::move(buffer)));
    }
  }

  void mark() {
    StageBuilder b(program_, branch_.places);
    Coordinates at(spec_.extents().size(), 0);
    at[static_cast<size_t>(branch_.axis)] = b.task();
    const Id is_off = b.compute(ScalarOp::Not, {holds_somewhere(b, at)});
    b.store(off_, b.task(), is_off);
    b.if_true(is_off, [&] {
      for (size_t k = 0; k < spec_.outputs().size(); ++k) store_constant(b, k, at);
    });
    b.finish();
  }

  Id holds_somewhere(StageBuilder& b, Coordinates at) const {
    const auto nest = [&](const auto& self, size_t depth, Id any) -> Id {
      if (depth == branch_.others.size())
        return b.compute(ScalarOp::Or, {any, Ramp(b).load(branch_.condition, at)});
      const auto axis = static_cast<size_t>(branch_.others[depth]);
      return b.loop(spec_.extents()[axis], LoopKind::Serial, {any},
                    [&](const Expression& i, std::span<const Id> carried) {
                      at[axis] = i;
                      return std::vector{self(self, depth + 1, carried[0])};
                    })[0];
    };
    return nest(nest, 0, b.constant({Dtype::Bool, 1}, 0));
  }

  void store_constant(StageBuilder& b, size_t k, const Coordinates& at) const {
    const kernel::Output& output = spec_.outputs()[k];
    const kernel::Value& value = spec_.values()[static_cast<size_t>(output.value)];
    std::vector<int> axes = value.axes;
    std::erase(axes, branch_.axis);
    const int lanes = target_.lanes(static_cast<int>(element_bytes(value.dtype())));
    const int buffer = static_cast<int>(spec_.slots().size() + k);
    if (axes.empty()) return Ramp(b).store(buffer, output.index, constant(b, k, 1), at);
    const AxisGroup group = group_of(spec_.extents(), axes);
    const std::vector<Expression> formulas{output.index};
    vector_loops(
        b, group, vector_axes_of(group, formulas, int64_t{2} * lanes), lanes, 1, at, {},
        [&](Ramp& ramp) { ramp.prepare(output.index); },
        [&](std::span<const Ramp> ramps, const Coordinates& here, std::span<const Id>) {
          for (const Ramp& ramp : ramps) ramp.store(buffer, output.index, constant(b, k, ramp.lanes()), here);
          return std::vector<Id>{};
        });
  }
  Id constant(StageBuilder& b, size_t k, int lanes) const {
    const kernel::Output& output = spec_.outputs()[k];
    const Dtype dtype = spec_.values()[static_cast<size_t>(output.value)].dtype();
    return b.constant_bits({dtype, lanes}, branch_.constants[k]);
  }

  /// The stage of one place for all of them: task t runs task t % n of place t / n.
  Stage at_all_places(Stage stage) {
    const Expression tasks = stage.tasks;
    const int variable = stage.variable_count++;
    stage.tasks = tasks * branch_.places;
    const Expression task = Expression::index(variable, stage.tasks), place = task / tasks;
    LUMINAL_CHECK(stage.task_variable == 0, "variable {} counts tasks", stage.task_variable);
    const std::vector<Expression> own{task % tasks};
    place_all(
        stage.body, [&](const Expression& e) { return e.substitute_indices(own).substitute(kPlace, place); },
        place);
    stage.task_variable = variable;
    if (!stage.prepares) guard(stage, place);
    return stage;
  }

  void place_all(Block& block, const std::function<Expression(const Expression&)>& placed,
                 const Expression& place) const {
    for (Instruction& i : block) {
      i.extent = placed(i.extent);
      i.index = placed(i.index);
      if (i.buffer >= 0) {
        const Expression& piece = pieces_[static_cast<size_t>(i.buffer)];
        const bool is_by_lanes = i.kind == Instruction::Kind::Gather || i.kind == Instruction::Kind::Scatter;
        LUMINAL_CHECK(!is_by_lanes || piece == Expression(0), "a workspace of one place is read by lanes");
        i.index = i.index + piece * place;
        i.buffer = numbers_[static_cast<size_t>(i.buffer)];
      }
      place_all(i.body, placed, place);
    }
  }

  void guard(Stage& stage, const Expression& place) const {
    const Type one{Dtype::Bool, 1};
    const auto fresh = [&] {
      stage.types.push_back(one);
      return stage.value_count++;
    };
    Instruction is_off{.kind = Instruction::Kind::Load, .result = fresh(), .type = one};
    is_off.buffer = off_;
    is_off.index = place;
    Instruction is_on{.result = fresh(), .type = one, .op = ScalarOp::Not, .operands = {is_off.result}};
    Instruction branch{.kind = Instruction::Kind::If, .operands = {is_on.result}};
    branch.body = std::move(stage.body);
    stage.body.clear();
    for (Instruction* i : {&is_off, &is_on, &branch}) stage.body.push_back(std::move(*i));
  }

  const KernelSpec& spec_;
  const Branch& branch_;
  const Target& target_;
  Program program_;
  int off_ = -1;                    ///< the places that are marked
  std::vector<int> numbers_;        ///< of the buffers, by their number in the program of one place
  std::vector<Expression> pieces_;  ///< elements for a place, where tasks share a workspace; otherwise 0
};

std::vector<Candidate> branch_ways(const KernelSpec& original, const Bucket& bucket, const Target& target,
                                   size_t most) {
  const KernelSpec spec = specialised(original, bucket);
  const std::optional<Branch> branch = branch_of(spec, bucket.top());
  if (!branch) return {};
  const double share = kernel::expected_share(spec, *branch, bucket.top());
  constexpr double kNearlyAll = 0.95;
  if (share > kNearlyAll) return {};
  const Roofline all = roofline_of(spec, bucket.top(), target);
  const double launch_us = kernel::MachineLimits().launch_us;
  std::vector<Candidate> candidates;
  for (const Way& way : ways_of(alone(spec, *branch), bucket, target, most)) {
    Candidate& candidate = candidates.emplace_back();
    add_parameters(candidate.parameters, 0, way);
    const double one_us = std::max(0.0, way.candidate.predicted_us - launch_us);
    candidate.predicted_us = 2 * launch_us + share * std::max(static_cast<double>(branch->places) * one_us,
                                                              all.bytes / all.bytes_per_us);
  }
  return candidates;
}

std::vector<Candidate> branch_candidates(const KernelSpec& spec, const Bucket& bucket, const Target& target) {
  constexpr size_t kMost = 4;
  return branch_ways(spec, bucket, target, kMost);
}

std::optional<Candidate> branch_best(const KernelSpec& spec, const Bucket& bucket, const Target& target) {
  std::vector<Candidate> best = branch_ways(spec, bucket, target, 1);
  return best.empty() ? std::nullopt : std::optional(std::move(best.front()));
}

Program branch_lower(const KernelSpec& original, const Parameters& parameters, const Bucket& bucket,
                     const Target& target) {
  const KernelSpec spec = specialised(original, bucket);
  const std::optional<Branch> branch = branch_of(spec, bucket.top());
  LUMINAL_CHECK(branch, "no branches: {}", spec.to_string());
  const Way way = way_of(parameters, 0);
  return BranchLowering(spec, *branch, target)
      .lower(way.family->lower(at_any_place(spec, *branch), way.candidate.parameters,
                               with_place(bucket, *branch), target));
}

}  // namespace

const Schedule& branch_schedule() {
  static const Schedule schedule{
      .name = "branch",
      .doc =
          "Results that are constants where a condition does not hold (experts that a token does not use): "
          "places of an axis at which it holds nowhere are neither read nor computed.",
      .candidates = branch_candidates,
      .lower = branch_lower,
      .best = branch_best};
  return schedule;
}

}  // namespace luminal::codegen
