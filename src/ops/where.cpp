#include "luminal/gradient.h"
#include "luminal/ops.h"
#include "ops/elementwise.h"

namespace luminal {
namespace {

std::vector<TensorType> infer_where(std::span<const TensorType> inputs, const Attributes&) {
  ops::check_arity("where", inputs, 3);
  ops::check_dtype("where", inputs[0], ops::Takes::Bool);
  ops::check_same_dtype("where", inputs[1], inputs[2]);
  ops::check_dtype("where", inputs[1], ops::Takes::All);
  ops::check_same_dims("where", inputs[0], inputs[1]);
  ops::check_same_dims("where", inputs[1], inputs[2]);
  return {inputs[1]};
}

/// Moves bits of any type of one width.
template <class Bits>
void select_bits(const void* const* inputs, void* output, int64_t count, const Attributes&) {
  const auto* __restrict condition = static_cast<const uint8_t*>(inputs[0]);
  const auto* __restrict yes = static_cast<const Bits*>(inputs[1]);
  const auto* __restrict no = static_cast<const Bits*>(inputs[2]);
  auto* __restrict out = static_cast<Bits*>(output);
  for (int64_t i = 0; i < count; ++i) out[i] = condition[i] != 0 ? yes[i] : no[i];
}

ElementKernel choose(std::span<const Dtype> inputs, Dtype) {
  if (inputs[0] != Dtype::Bool || !ops::takes(ops::Takes::All, inputs[1])) return nullptr;
  return visit_word(inputs[1], []<class Word>(Word) -> ElementKernel { return &select_bits<Word>; });
}

}  // namespace

const OpDef kWhere = {
    .name = "where",
    .arity = 3,
    .traits = Trait::Elementwise,
    .infer = infer_where,
    .elementwise = choose,
    .gradient =
        [](Gradient& g) {
          if (g.wants(1)) g.to(1, where(g.input(0), g.upstream(), 0));
          if (g.wants(2)) g.to(2, where(g.input(0), 0, g.upstream()));
        },
    .lower =
        ops::lowering([](ScalarBuilder& b, Scalar c, Scalar yes, Scalar no) { return b.select(c, yes, no); }),
    .samples = {-ops::kInfinity, -1, -0.0, 0, 0.5, 1, ops::kInfinity, ops::kNaN},
    .doc = "b where a is true, c elsewhere, bits untouched.",
};

}  // namespace luminal
