#include <fmt/format.h>

#include <cstdio>

#include "luminal/gradient.h"
#include "luminal/ops.h"
#include "ops/diff_report.h"
#include "ops/types.h"

namespace luminal {
namespace {

void diff(EvalContext& context) {
  const TensorData& value = *context.inputs[0];
  const Attributes& attributes = context.attributes;
  const auto& file = attributes.get<std::string>("file");
  const auto atol = attributes.get<Number>("atol").as<double>(),
             rtol = attributes.get<Number>("rtol").as<double>();
  const auto report = ops::compare(value, ops::read_raw(file, value), atol, rtol);
  fmt::print("{}", ops::to_text(report, value, file, atol, rtol));
  std::fflush(stdout);
  context.outputs[0].bytes = value.bytes;
}

}  // namespace

const OpDef kDiff = {
    .name = "diff",
    .arity = 1,
    .traits = Trait::SideEffect | Trait::Opaque,
    .infer = ops::same_types("diff", 1, ops::Takes::All),
    .evaluate = diff,
    .gradient = [](Gradient& g) { g.to(0, g.upstream()); },
    .flops_per_element = 0,
    .doc =
        "The value itself, compared at each run with a file of raw values, of its own dtype or f32: prints "
        "statistics and the worst mismatches.",
};

}  // namespace luminal
