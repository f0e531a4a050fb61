#include "kernel/form.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/hash.h"

namespace luminal::kernel {
namespace {

uint64_t of(auto value) { return static_cast<uint64_t>(value); }

/// Forms of the values so far, by number.
using Forms = std::vector<uint64_t>;

uint64_t form_of(const Operand& operand, const Forms& values) {
  const uint64_t form = combine(of(operand.kind), of(operand.dtype));
  if (operand.kind == Operand::Kind::Value) return combine(form, values[static_cast<size_t>(operand.value)]);
  return combine(form, operand.masks.size());
}

/// Canonical bodies order the operands of commutative operations by what they hold, sizes included: no order counts here.
uint64_t form_of(const ScalarFunction& body, const std::vector<uint64_t>& inputs) {
  std::vector<uint64_t> forms;
  for (const ScalarNode& node : body.nodes()) {
    uint64_t form = combine(of(node.op), of(node.dtype));
    if (node.op == ScalarOp::Input)
      form = combine(form, inputs[node.payload]);
    else if (node.op != ScalarOp::Constant)
      form = combine(form, node.payload);
    std::array<uint64_t, 3> operands{};
    const auto count = static_cast<size_t>(arity(node.op));
    for (size_t k = 0; k < count; ++k) operands[k] = forms[node.operands[k].index];
    if (is_commutative(node.op) && operands[1] < operands[0]) std::swap(operands[0], operands[1]);
    for (size_t k = 0; k < count; ++k) form = combine(form, operands[k]);
    forms.push_back(form);
  }
  uint64_t form = 0;
  for (const Scalar output : body.outputs()) form = combine(form, forms[output.index]);
  return form;
}

uint64_t form_of(const Value& value, const Forms& values) {
  uint64_t form = value.monoid ? 1 + of(*value.monoid) : 0;
  form = combine(combine(form, value.axes.size()), value.reduced.size());
  form = combine(form, (value.online ? 1U : 0U) + (value.masked_terms_vanish ? 2U : 0U));
  std::vector<uint64_t> operands;
  for (const Operand& operand : value.operands) operands.push_back(form_of(operand, values));
  return combine(form, form_of(value.body, operands));
}

}  // namespace

uint64_t form_of(const KernelSpec& spec) {
  Forms values;
  for (const Value& value : spec.values()) values.push_back(form_of(value, values));
  std::vector<uint64_t> outputs;
  for (const Output& output : spec.outputs()) outputs.push_back(values[static_cast<size_t>(output.value)]);
  std::ranges::sort(outputs);
  uint64_t form = spec.extents().size();
  for (const Slot& slot : spec.slots()) form = combine(form, slot.is_frozen ? 1 : 0);
  for (const uint64_t output : outputs) form = combine(form, output);
  return form;
}

}  // namespace luminal::kernel
