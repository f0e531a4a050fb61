#include "luminal/gradient.h"
#include "luminal/ops.h"
#include "luminal/quantized.h"
#include "ops/elementwise.h"

namespace luminal {
namespace {

std::vector<TensorType> infer_cast(std::span<const TensorType> inputs, const Attributes& attributes) {
  ops::check_arity("cast", inputs, 1);
  const Dtype to = attributes.get<Dtype>("dtype");
  ops::check_plain("cast", to);
  return {{to, inputs[0].dims}};
}

/// Toward zero; out of range saturates, NaN gives 0. The bounds are compared as floats: the lower one is
/// exact, the upper one is a power of two beyond the largest value.
template <std::integral To, std::floating_point From>
To saturated(From x) {
  constexpr From kLow = static_cast<From>(std::numeric_limits<To>::min());
  constexpr From kBeyond = 2 * static_cast<From>(To{1} << (std::numeric_limits<To>::digits - 1));
  if (!(x >= kLow)) return x != x ? To{0} : std::numeric_limits<To>::min();
  return x < kBeyond ? static_cast<To>(x) : std::numeric_limits<To>::max();
}

template <class To, class From>
struct Convert {
  To operator()(ops::Compute<From> x) const {
    if constexpr (std::same_as<To, bool>)
      return x != ops::Compute<From>{0};
    else if constexpr (std::integral<To> && std::floating_point<ops::Compute<From>>)
      return saturated<To>(x);
    else
      return static_cast<To>(static_cast<ops::Compute<To>>(x));
  }
};

template <Dtype from, class To>
void cast_blocks(const void* const* inputs, void* output, int64_t count, const Attributes&) {
  constexpr int64_t kPiece = 256;
  float values[kPiece];
  auto* out = static_cast<To*>(output);
  for (int64_t first = 0; first < count; first += kPiece) {
    const int64_t n = std::min(kPiece, count - first);
    dequantize(from, static_cast<const std::byte*>(inputs[0]), first, {values, static_cast<size_t>(n)});
    for (int64_t i = 0; i < n; ++i) out[first + i] = Convert<To, float>()(values[i]);
  }
}

ElementKernel cast_kernel(std::span<const Dtype> inputs, Dtype output) {
  if (is_quantized(output)) return nullptr;
  return visit_dtype(output, [&]<class To>(To) -> ElementKernel {
    if (is_quantized(inputs[0]))
      return visit_quantized(
          inputs[0], []<Dtype from>(DtypeConstant<from>) -> ElementKernel { return &cast_blocks<from, To>; });
    return visit_dtype(inputs[0], []<class From>(From) -> ElementKernel {
      return &ops::element_loop<Convert<To, From>, To, From>;
    });
  });
}

}  // namespace

const OpDef kCast = {
    .name = "cast",
    .arity = 1,
    .traits = Trait::Elementwise | Trait::Monotone,
    .infer = infer_cast,
    .elementwise = cast_kernel,
    .gradient =
        [](Gradient& g) {
          const Dtype from = g.input(0).dtype();
          if (is_float(from) && is_float(g.output().dtype())) g.to(0, g.upstream().cast(from));
        },
    .lower = [](ScalarBuilder& b, std::span<const Scalar> x,
                const Attributes& attributes) { return b.convert(x[0], attributes.get<Dtype>("dtype")); },
    .ulp = 0.5,
    .samples = {-ops::kInfinity, -1e20, -129, -128.5, -1.5, -0.0, 0, 0.5, 1, 65520, 1e20, ops::kInfinity,
                ops::kNaN},
    .variants = ops::dtype_variants(ops::Takes::All),
    .doc =
        "The value as another dtype: to a float nearest even, to an integer toward zero (saturating, NaN "
        "gives 0), between integers wrapping, to bool x != 0. Block-quantised values dequantise.",
};

}  // namespace luminal
