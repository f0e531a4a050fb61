#include <array>

#include "luminal/gradient.h"
#include "luminal/graph.h"
#include "luminal/ops.h"
#include "ops/cumulative.h"
#include "ops/float_sums.h"

namespace luminal {
namespace {

template <class T>
struct Sums {
  using State = std::conditional_t<is_float(dtype_of<T>()), double, T>;
  static constexpr size_t kInputs = 1;

  static State start() { return {}; }
  static State step(State sum, const T* const* in, int64_t at) {
    return ops::add(sum, static_cast<State>(ops::widened_element(in[0][at])));
  }
  static State join(State before, State after) { return ops::add(before, after); }
  static void advance(State* sums, const T* const* in, int64_t at, int64_t count)
    requires std::is_same_v<T, float>
  {
    ops::add_floats(sums, in[0] + at, count);
  }
  static void advance(State* sums, const T* const* in, int64_t at, int64_t count, T* to)
    requires std::is_same_v<T, float>
  {
    ops::add_and_round_floats(sums, in[0] + at, count, to);
  }
};

void cumsum_gradient(Gradient& g) {
  g.to(0, ops::Walkway::of(g.attributes()).back().walk(kCumsum, std::array{g.upstream()}));
}

}  // namespace

const OpDef kCumsum = {
    .name = "cumsum",
    .arity = 1,
    .traits = Trait::Overwrites,
    .infer = ops::cumulative_types("cumsum", 1),
    .evaluate = ops::walk_along_axis<Sums>,
    .gradient = cumsum_gradient,
    .variants = ops::cumulative_variants(),
    .doc =
        "Sum of each element and all before it along an axis, or all behind it (reverse). Floats accumulate "
        "in f64 and are rounded for each element, integers wrap.",
};

}  // namespace luminal
