#include <bit>

#include "luminal/ops.h"
#include "ops/philox.h"
#include "ops/types.h"

namespace luminal {
namespace {

std::vector<TensorType> infer_random(std::span<const TensorType> inputs, const Attributes&) {
  ops::check_arity("random", inputs, 0);
  return {{Dtype::I64, {2}}};
}

void write_random(EvalContext& context) {
  const Attributes& attributes = context.attributes;
  const philox::Key key = philox::key_of(attributes.get<int64_t>("seed"), attributes.get<int64_t>("stream"));
  const auto out = context.outputs[0].as<int64_t>();
  out[0] = std::bit_cast<int64_t>(uint64_t{key[0]} | uint64_t{key[1]} << 32);
  out[1] = std::bit_cast<int64_t>(context.step);
}

}  // namespace

const OpDef kRandom = {
    .name = "random",
    .arity = 0,
    .traits = Trait::Leaf | Trait::Stateful,
    .infer = infer_random,
    .evaluate = write_random,
    .doc = "What random numbers are made of: the key of seed and stream, and how many runs came before.",
};

}  // namespace luminal
