#include <algorithm>
#include <cmath>

#include "codegen/schedules/stream.h"

// Bodies of what the stream folds, with what is known so far in place of the values they read.
namespace luminal::codegen::stream {

using kernel::Operand;

/// Before anything is added there is nothing to compare with: any finite number makes all terms 0.
Id finite(StageBuilder& b, Id maximum) {
  const Type type = b.type(maximum);
  const Id none = b.compute(ScalarOp::Eq, {maximum, b.constant(type, -HUGE_VAL)});
  return b.compute(ScalarOp::Select, {none, b.constant(type, 0), maximum});
}

Id apply(StageBuilder& b, const Ramp& ramp, const ScalarFunction& f, std::span<const Operand> operands,
         std::span<const Expression> at, const std::vector<Id>& further) {
  std::vector<Id> inputs(operands.size(), further[0]);
  for (const ScalarNode& n : f.nodes())
    if (n.op == ScalarOp::Input && n.payload < operands.size())
      inputs[n.payload] = ramp.load(operands[n.payload], at);
  inputs.insert(inputs.end(), further.begin(), further.end());
  return ramp.widen(b.inline_function(f, inputs));
}

Id terms(StageBuilder& b, const Ramp& ramp, const ScalarFunction& f, std::span<const Operand> operands,
         std::span<const Expression> at, const std::map<int, Id>& known, Id kept) {
  std::vector<Id> inputs(operands.size() + 1, kNone);
  for (const ScalarNode& n : f.nodes()) {
    if (n.op != ScalarOp::Input) continue;
    if (n.payload == operands.size())
      inputs[n.payload] = kept;
    else if (const Operand& o = operands[n.payload]; o.kind == Operand::Kind::Value)
      inputs[n.payload] = known.at(o.value);
    else
      inputs[n.payload] = ramp.load(o, at);
  }
  const auto any = std::ranges::find_if(inputs, [](Id id) { return id != kNone; });
  if (any != inputs.end()) std::ranges::replace(inputs, kNone, *any);
  return ramp.widen(b.inline_function(f, inputs));
}

}  // namespace luminal::codegen::stream
