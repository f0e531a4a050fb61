#include <algorithm>

#include "base/threads.h"
#include "luminal/ops.h"
#include "ops/philox.h"
#include "ops/types.h"

namespace luminal {
namespace {

std::vector<TensorType> infer_random(std::span<const TensorType> inputs, const Attributes& attributes) {
  ops::check_arity("random", inputs, 0);
  TensorType type{attributes.get<Dtype>("dtype"), attributes.get<Shape>("dims")};
  ops::check_dtype("random", type, ops::Takes::Floats);
  return {std::move(type)};
}

/// Elements [begin, end) of the stream of `dtype`, stored as T.
template <class T>
void fill(Dtype dtype, philox::Key key, uint64_t step, int64_t begin, int64_t end, T* out) {
  const int64_t per_block = dtype == Dtype::F64 ? 2 : 4;
  const int bits = std::min(info(dtype).digits, info(Dtype::F32).digits);
  for (int64_t i = begin; i < end;) {
    const philox::Words words = philox::block_at(static_cast<uint64_t>(i / per_block), step, key);
    do {
      const auto k = static_cast<size_t>(i % per_block);
      if (dtype == Dtype::F64)
        out[i] = static_cast<T>(philox::uniform(words[2 * k], words[2 * k + 1]));
      else
        out[i] = static_cast<T>(philox::uniform(words[k], bits));
    } while (++i < end && i % per_block != 0);
  }
}

void write_random(EvalContext& context) {
  const Attributes& attributes = context.attributes;
  const philox::Key key = philox::key_of(attributes.get<int64_t>("seed"), attributes.get<int64_t>("stream"));
  const Dtype dtype = attributes.get<Dtype>("dtype");
  TensorData& out = context.outputs[0];
  visit_dtype(out.dtype, [&]<class T>(T) {
    if constexpr (ops::takes_type<T, ops::Takes::Floats>())
      parallel_for(out.element_count(), 1 << 14, [&](int64_t begin, int64_t end) {
        fill(dtype, key, context.step, begin, end, out.as<T>().data());
      });
  });
}

}  // namespace

const OpDef kRandom = {
    .name = "random",
    .arity = 0,
    .traits = Trait::Leaf | Trait::Stateful,
    .infer = infer_random,
    .evaluate = write_random,
    .flops_per_element = 20,
    .doc =
        "Uniform in [0, 1) by Philox4x32-10, a function of seed, stream, element and run: 24 random bits for "
        "f32, 53 for f64, 11 for f16, 8 for bf16.",
};

}  // namespace luminal
