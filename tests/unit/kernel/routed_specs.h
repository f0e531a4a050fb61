#pragma once
#include "one_term_specs.h"

/// Specs of sums of which an index names the one term, a product.
namespace luminal::kernel::test {

///   s = sum i: W[e,o,i] * X[b,r,i]
///   Y[b,r,o] = (sum e: e == C[b] ? s + B[e,o] : 0) + D[o]
struct RoutedProducts {
  Expression blocks = 9, rows = 2;
  int64_t experts = 3, out = 20, in = 64;
  Dtype weights = Dtype::F32;
  /// What the sum is made of, where it is not as above.
  std::function<Scalar(ScalarBuilder&, Scalar place, Scalar named, Scalar term)> choice = chosen;
  bool is_shared = false;                             ///< W[o,i], of one sum for all experts
  bool is_one_row = false;                            ///< X[r,i], the same for all blocks
  bool exports_terms = false, exports_shift = false;  ///< s, or D[o] + 1, is a second output

  enum Slot { kWeights, kRows, kNames, kBias, kShift };

  [[nodiscard]] KernelSpec spec() const {
    SpecBuilder s;
    const Expression b = s.axis(blocks), r = s.axis(rows), o = s.axis(out), e = s.axis(experts),
                     i = s.axis(in);
    const int w = s.slot((is_shared ? 1 : experts) * out * in, weights), x = s.slot(blocks * rows * in),
              c = s.slot(blocks, Dtype::I32), bias = s.slot(experts * out), shift = s.slot(out);
    const Expression row = is_shared ? o : e * out + o;
    std::vector<int> axes{0, 1, 2, 3};
    if (is_shared) std::erase(axes, 3);
    if (is_one_row) std::erase(axes, 0);
    const Expression read = is_one_row ? r : b * rows + r;
    const int product = s.value(
        axes, {4}, Monoid::Add, {s.load(w, row * in + i), s.load(x, read * in + i)},
        [](ScalarBuilder& f, std::span<const Scalar> v) { return f.mul(f.convert(v[0], Dtype::F32), v[1]); });
    const int sum =
        s.value({0, 1, 2}, {3}, Monoid::Add,
                {SpecBuilder::number(e), s.load(c, b), s.read(product), s.load(bias, e * out + o)},
                [&](ScalarBuilder& f, std::span<const Scalar> v) {
                  return choice(f, f.convert(v[0], Dtype::I32), v[1], f.add(v[2], v[3]));
                });
    const int all = s.value({0, 1, 2}, {}, std::nullopt, {s.read(sum), s.load(shift, o)},
                            [](ScalarBuilder& f, std::span<const Scalar> v) { return f.add(v[0], v[1]); });
    s.output(all, (b * rows + r) * out + o, blocks * rows * out);
    if (exports_terms)
      s.output(product, ((b * rows + r) * out + o) * experts + e, blocks * rows * out * experts);
    if (exports_shift)
      s.output(s.value({2}, {}, std::nullopt, {s.load(shift, o)},
                       [](ScalarBuilder& f, std::span<const Scalar> v) {
                         return f.add(v[0], f.constant(Dtype::F32, 1));
                       }),
               o, out);
    return s.plain();
  }
};

}  // namespace luminal::kernel::test
