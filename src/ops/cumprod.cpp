#include <array>

#include "luminal/gradient.h"
#include "luminal/graph.h"
#include "luminal/ops.h"
#include "ops/cumulative.h"

namespace luminal {
namespace {

/// f32 multiplies in f64, as in PyTorch, so that 1e30 * 1e30 * 1e-30 is not infinite. Pieces of a column are not joined:
/// one of finite elements may underflow, and an infinity before it times that is NaN where each step leaves it infinite.
template <class T>
struct Products {
  using State = std::conditional_t<std::is_same_v<T, float>, double, ops::Compute<T>>;
  static constexpr size_t kInputs = 1;

  static State start() { return 1; }
  static State step(State product, const T* const* in, int64_t at) {
    return ops::multiply(product, static_cast<State>(ops::widened_element(in[0][at])));
  }
};

/// The gradient of x(i) is what stands before it, p(i-1), times h(i) = upstream(i) + x(i+1) h(i+1): a recurrence from the
/// end, without a division, which would fail at zeros.
void cumprod_gradient(Gradient& g) {
  const ops::Walkway way = ops::Walkway::of(g.attributes());
  const Dtype dtype = g.input(0).dtype(), wide = dtype == Dtype::F32 ? Dtype::F64 : accumulation_dtype(dtype);
  const GraphTensor x = g.input(0).cast(wide);
  const GraphTensor products = way.walk(kCumprod, std::array{x});
  const GraphTensor sent =
      way.back().walk(kLinearRecurrence, std::array{way.back().before(x, 0), g.upstream().cast(wide)});
  g.to(0, (way.before(products, 1) * sent).cast(dtype));
}

}  // namespace

const OpDef kCumprod = {
    .name = "cumprod",
    .arity = 1,
    .traits = Trait::Overwrites,
    .infer = ops::cumulative_types("cumprod", 1),
    .evaluate = ops::walk_along_axis<Products>,
    .gradient = cumprod_gradient,
    .variants = ops::cumulative_variants(),
    .doc =
        "Product of each element and all before it along an axis, or all behind it (reverse). f32 multiplies "
        "in f64, f16 and bf16 in f32; each element is rounded, integers wrap.",
};

}  // namespace luminal
