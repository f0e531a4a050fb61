#include <fmt/format.h>

#include <cstdio>

#include "luminal/gradient.h"
#include "luminal/ops.h"
#include "ops/types.h"

namespace luminal {

const OpDef kPrint = {
    .name = "print",
    .arity = 1,
    .traits = Trait::SideEffect | Trait::Opaque,
    .infer = ops::same_types("print", 1, ops::Takes::All),
    .evaluate =
        [](EvalContext& context) {
          const TensorData& value = *context.inputs[0];
          fmt::print("{}: {}\n", context.attributes.get<std::string>("message"), to_text(value));
          std::fflush(stdout);
          context.outputs[0].bytes = value.bytes;
        },
    .gradient = [](Gradient& g) { g.to(0, g.upstream()); },
    .flops_per_element = 0,
    .doc = "The value itself, printed behind a message at each run.",
};

}  // namespace luminal
