#include <array>

#include "luminal/gradient.h"
#include "luminal/graph.h"
#include "luminal/ops.h"
#include "ops/cumulative.h"

namespace luminal {
namespace {

template <class T>
struct Recurrence {
  using State = std::conditional_t<is_float(dtype_of<T>()), double, T>;
  static constexpr size_t kInputs = 2;

  static State start() { return {}; }
  static State step(State state, const T* const* in, int64_t at) {
    const auto factor = static_cast<State>(ops::widened_element(in[0][at]));
    return ops::add(ops::multiply(factor, state), static_cast<State>(ops::widened_element(in[1][at])));
  }
};

/// h(i) = upstream(i) + a(i+1) h(i+1), the gradient of b, is a recurrence the other way; that of a is h(i) y(i-1).
void recurrence_gradient(Gradient& g) {
  const ops::Walkway way = ops::Walkway::of(g.attributes());
  const GraphTensor sent =
      way.back().walk(kLinearRecurrence, std::array{way.back().before(g.input(0), 0), g.upstream()});
  if (g.wants(0)) g.to(0, sent * way.before(g.output(), 0));
  if (g.wants(1)) g.to(1, sent);
}

}  // namespace

const OpDef kLinearRecurrence = {
    .name = "linear_recurrence",
    .arity = 2,
    .traits = Trait::Overwrites,
    .infer = ops::cumulative_types("linear_recurrence", 2),
    .evaluate = ops::walk_along_axis<Recurrence>,
    .gradient = recurrence_gradient,
    .variants = ops::cumulative_variants(),
    .doc =
        "y(i) = a(i) y(i-1) + b(i) along an axis, from 0 before its first element, or from its end "
        "(reverse). "
        "Floats are computed in f64 and rounded for each element, integers wrap.",
};

}  // namespace luminal
