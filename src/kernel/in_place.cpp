#include "kernel/in_place.h"

#include <algorithm>

#include "luminal/dtype.h"

namespace luminal::kernel {

bool read_where_written(const KernelSpec& spec, int slot, const Output& output) {
  const Slot& own = spec.slots()[static_cast<size_t>(slot)];
  const Dtype written = spec.values()[static_cast<size_t>(output.value)].dtype();
  if (is_quantized(own.dtype) || own.elements != output.elements ||
      element_bytes(own.dtype) != element_bytes(written))
    return false;
  return std::ranges::all_of(spec.values(), [&](const Value& value) {
    return std::ranges::all_of(value.operands, [&](const Operand& operand) {
      return operand.kind != Operand::Kind::Load || operand.slot != slot ||
             (operand.index == output.index && operand.masks.empty());
    });
  });
}

std::vector<int> replaceable_slots(const KernelSpec& spec) {
  std::vector<int> list;
  if (spec.values().size() != 1 || spec.outputs().size() != 1 || spec.values()[0].monoid) return list;
  for (int slot = 0; slot < static_cast<int>(spec.slots().size()); ++slot)
    if (read_where_written(spec, slot, spec.outputs()[0])) list.push_back(slot);
  return list;
}

}  // namespace luminal::kernel
