#include "luminal/ops.h"
#include "ops/types.h"

namespace luminal {

const OpDef kInput = {
    .name = "input",
    .arity = 0,
    .traits = Trait::Leaf,
    .infer = [](std::span<const TensorType> inputs, const Attributes& attributes) -> std::vector<TensorType> {
      ops::check_arity("input", inputs, 0);
      return {{attributes.get<Dtype>("dtype"), attributes.get<Shape>("dims")}};
    },
    .flops_per_element = 0,
    .doc = "Data given by the user before a run.",
};

}  // namespace luminal
