#include "base/fail.h"
#include "luminal/ops.h"
#include "ops/elementwise.h"

namespace luminal {
namespace {

std::vector<TensorType> infer_bitcast(std::span<const TensorType> inputs, const Attributes& attributes) {
  ops::check_arity("bitcast", inputs, 1);
  ops::check_dtype("bitcast", inputs[0], ops::Takes::Numbers);
  const Dtype to = attributes.get<Dtype>("dtype");
  if (!ops::takes(ops::Takes::Numbers, to) || element_bytes(to) != element_bytes(inputs[0].dtype))
    fail<DtypeError>(
        "[bitcast] the bits of {} cannot be read as {}: elements must be of equal width, and not "
        "bool; cast converts values",
        inputs[0].to_string(), name(to));
  if (to == inputs[0].dtype)
    fail<DtypeError>("[bitcast] {} already is {}; use it as it stands", inputs[0].to_string(), name(to));
  return {{to, inputs[0].dims}};
}

/// Types are never equal as written: when they are, floats are being computed in another type than the graph
/// says, whose bits would be the wrong ones.
ElementKernel bitcast_kernel(std::span<const Dtype> inputs, Dtype output) {
  static const ElementKernels copies = ops::copy_kernels();
  return inputs[0] == output ? nullptr : copies(inputs, output);
}

}  // namespace

const OpDef kBitcast = {
    .name = "bitcast",
    .arity = 1,
    .traits = Trait::Elementwise | Trait::NotDifferentiable,
    .infer = infer_bitcast,
    .elementwise = bitcast_kernel,
    .lower = [](ScalarBuilder& b, std::span<const Scalar> x,
                const Attributes& attributes) { return b.bitcast(x[0], attributes.get<Dtype>("dtype")); },
    .flops_per_element = 0,
    .samples = {-ops::kInfinity, -128, -1, -0.0, 0, 0.5, 1, 127, ops::kInfinity, ops::kNaN},
    .variants = ops::dtype_variants(ops::Takes::Numbers),
    .doc = "The same bits read as another dtype of equal width.",
};

}  // namespace luminal
