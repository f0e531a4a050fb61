#include "luminal/gradient.h"
#include "luminal/ops.h"
#include "ops/reduction.h"

namespace luminal {

const OpDef kSumReduce = {
    .name = "sum_reduce",
    .arity = 1,
    .infer = ops::reduced_types("sum_reduce", Monoid::Add),
    .monoid = Monoid::Add,
    .gradient =
        [](Gradient& g) {
          g.to(0, ops::spread(g.upstream(), ops::reduced_axes(g.attributes()), g.input(0).dims()));
        },
    .samples = {-ops::kInfinity, -128, -1, -0.0, 0, 0.5, 1, 127, ops::kInfinity, ops::kNaN},
    .doc = "Sum over the axes; f16 and bf16 accumulate in f32 or wider, integers wrap; 0 over nothing.",
};

}  // namespace luminal
