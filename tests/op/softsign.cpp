#include <luminal/luminal.h>

#include <cmath>

namespace luminal {

extern const OpDef kSoftsign;

namespace {

template <class T>
void softsign(const void* const* inputs, void* output, int64_t count, const Attributes&) {
  const T* x = static_cast<const T*>(inputs[0]);
  for (int64_t i = 0; i < count; ++i) {
    const auto wide = static_cast<double>(x[i]);
    static_cast<T*>(output)[i] = static_cast<T>(wide / (1 + std::fabs(wide)));
  }
}

}  // namespace

const OpDef kSoftsign = {
    .name = "softsign",
    .arity = 1,
    .traits = Trait::Elementwise | Trait::Monotone,
    .infer = [](std::span<const TensorType> inputs, const Attributes&) -> std::vector<TensorType> {
      if (inputs.size() != 1) throw ShapeError("[softsign] takes one input");
      if (!is_float(inputs[0].dtype))
        throw DtypeError("[softsign] takes floats, not " + inputs[0].to_string() + "; cast it");
      return {inputs[0]};
    },
    .elementwise = [](std::span<const Dtype> inputs, Dtype) -> ElementKernel {
      return visit_dtype(inputs[0], []<class T>(T) -> ElementKernel {
        if constexpr (std::is_integral_v<T>)
          return nullptr;
        else
          return &softsign<T>;
      });
    },
    .gradient =
        [](Gradient& g) {
          const GraphTensor slope = 1 - g.output().abs();
          g.to(0, g.upstream() * slope * slope);
        },
    .lower = [](ScalarBuilder& b, std::span<const Scalar> inputs, const Attributes&) -> Scalar {
      const Dtype dtype = b.dtype(inputs[0]), wide = accumulation_dtype(dtype);  // f16 is computed in f32
      const Scalar x = b.convert(inputs[0], wide), one = b.constant(wide, 1);
      return b.convert(b.div(x, b.add(one, b.abs(x))), dtype);
    },
    .flops_per_element = 3,
    .ulp = 1.5,
    .samples = {-1e30, -2, -1, -0.0, 0, 1e-10, 0.5, 3, std::nan("")},
    .doc = "x / (1 + |x|): a sigmoid with slow tails.",
};

}  // namespace luminal
