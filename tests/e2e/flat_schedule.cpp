#include <algorithm>

#include "codegen/schedule.h"
#include "codegen/schedules/cost.h"
#include "codegen/schedules/specialise.h"

namespace luminal::codegen {

const Schedule& flat_schedule();  // in the library, families.h declares it

namespace {

using kernel::KernelSpec;
using kernel::Operand;

/// One f32 value without a reduction; every element is read where it is written.
bool takes(const KernelSpec& spec) {
  if (spec.values().size() != 1 || spec.outputs().size() != 1) return false;
  const kernel::Value& value = spec.values()[0];
  const auto fits = [&](const Operand& operand) {
    return operand.kind == Operand::Kind::Load && operand.dtype == Dtype::F32 && operand.masks.empty() &&
           operand.index == spec.outputs()[0].index;
  };
  return !value.monoid && value.dtype() == Dtype::F32 && std::ranges::all_of(value.operands, fits);
}

/// Tasks of 1, 8 and 64 vectors.
std::vector<Candidate> candidates(const KernelSpec& given, const Bucket& bucket, const Target& target) {
  const KernelSpec spec = specialised(given, bucket);
  if (!takes(spec)) return {};
  const DimMap top = bucket.top();
  const auto elements = static_cast<double>(spec.outputs()[0].elements.exec(top));
  std::vector<Candidate> list;
  for (const int64_t vectors : {1, 8, 64}) {
    const double tasks = elements / static_cast<double>(vectors * target.lanes(4));
    const double cycles = elements * spec.values()[0].body.cost().weight() / target.lanes(4) + 20 * tasks;
    list.push_back({{{"vectors", vectors}}, roofline_of(spec, top, target).us(cycles, 1)});
  }
  std::ranges::stable_sort(list, {}, &Candidate::predicted_us);
  return list;
}

Program lower(const KernelSpec& given, const Parameters& parameters, const Bucket& bucket,
              const Target& target) {
  const KernelSpec spec = specialised(given, bucket);
  const kernel::Value& value = spec.values()[0];
  const Expression elements = spec.outputs()[0].elements;
  const int lanes = target.lanes(4), out = static_cast<int>(spec.slots().size());
  const int64_t vectors = parameters.at("vectors");
  Program program = program_for(spec, "flat");
  StageBuilder b(program, elements.ceil_div(vectors * lanes));
  b.loop(vectors, LoopKind::Serial, [&](const Expression& vector) {
    const Expression first = (b.task() * vectors + vector) * lanes;
    const Id mask = b.lane_mask(elements - first, lanes);  // the tail
    std::vector<Id> operands;
    for (const Operand& operand : value.operands)
      operands.push_back(b.load(operand.slot, first, lanes, 1, mask));
    b.store(out, first, b.inline_function(value.body, operands), 1, mask);
  });
  b.finish();
  return program;
}

}  // namespace

const Schedule& flat_schedule() {
  static const Schedule schedule{.name = "flat",
                                 .doc = "elementwise over contiguous tensors, a few vectors a task",
                                 .candidates = candidates,
                                 .lower = lower};
  return schedule;
}

}  // namespace luminal::codegen
