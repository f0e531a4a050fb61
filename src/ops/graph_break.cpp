#include "luminal/gradient.h"
#include "luminal/ops.h"
#include "ops/types.h"

namespace luminal {

const OpDef kGraphBreak = {
    .name = "graph_break",
    .arity = 1,
    .traits = Trait::Opaque | Trait::PassesOn,
    .infer = ops::same_types("graph_break", 1, ops::Takes::All),
    .evaluate = [](EvalContext& context) { context.outputs[0].bytes = context.inputs[0]->bytes; },
    .gradient = [](Gradient& g) { g.to(0, g.upstream()); },
    .flops_per_element = 0,
    .doc = "The value itself, which exists in memory: nothing fuses across.",
};

}  // namespace luminal
