#include "luminal/ops.h"
#include "ops/types.h"

namespace luminal {
namespace {

std::vector<TensorType> infer_constant(std::span<const TensorType> inputs, const Attributes& attributes) {
  ops::check_arity("constant", inputs, 0);
  const Dtype dtype = attributes.get<Dtype>("dtype");
  ops::check_plain("constant", dtype);
  return {{dtype, {}}};
}

void write_constant(EvalContext& context) {
  const auto& value = context.attributes.get<Number>("value");
  TensorData& out = context.outputs[0];
  visit_dtype(out.dtype, [&]<class T>(T) { out.as<T>()[0] = static_cast<T>(value.as<ops::Compute<T>>()); });
}

}  // namespace

const OpDef kConstant = {
    .name = "constant",
    .arity = 0,
    .traits = Trait::Leaf,
    .infer = infer_constant,
    .evaluate = write_constant,
    .formula = [](const Attributes& attributes) { return attributes.get<Number>("value"); },
    .flops_per_element = 0,
    .doc = "One number, of rank 0.",
};

}  // namespace luminal
