#pragma once
#include <limits>

#include "luminal/scalar_math.h"
#include "unit/codegen/specs.h"

namespace luminal::codegen::test_cases {

/// softmax(Q K^T * scale + mask) V as one spec, spelled as it comes out of composing its parts.
struct Attention {
  Expression heads, queries, keys, size, columns;
  enum class Mask : uint8_t { None, Causal, Additive, Nothing, Window } mask = Mask::None;
  /// How a mask of coordinates hides a score: in its place stands `hidden`, or that is added to it.
  enum class Hides : uint8_t { InPlace, Added, AddedProduct } hides = Hides::InPlace;
  double hidden = -std::numeric_limits<double>::infinity();  ///< score of a masked key
  bool normalise_inside = true;  ///< weights divided by their sum before they are multiplied with V
  bool clamped = false;          ///< max(m, least) is subtracted: a row masked whole gives zeros
  Dtype dtype = Dtype::F32;

  [[nodiscard]] kernel::Canonical spec() const {
    SpecBuilder s;
    const Expression h = s.axis(heads), i = s.axis(queries), d = s.axis(columns), j = s.axis(keys),
                     e = s.axis(size);
    const int q = s.slot(heads * queries * size, dtype), k = s.slot(heads * keys * size, dtype),
              v = s.slot(heads * keys * columns, dtype), bias = s.slot(queries * keys, dtype);
    const int score =
        s.value({0, 1, 3}, {4}, Monoid::Add,
                {s.load(q, (h * queries + i) * size + e), s.load(k, (h * keys + j) * size + e)}, product);
    std::vector<Operand> x{s.read(score)};
    if (mask == Mask::Additive) x.push_back(s.load(bias, i * keys + j));
    if (mask == Mask::Causal) x.push_back(SpecBuilder::number((i + keys - queries).gte(j)));
    if (mask == Mask::Nothing) x.push_back(SpecBuilder::number(i.lt(1)));  // row 0 sees no key
    if (mask == Mask::Window) x.push_back(SpecBuilder::number(i.gte(j) & (i - j).lt(8)));
    const auto scaled = [this](ScalarBuilder& b, std::span<const Scalar> in) {
      const Scalar y = b.mul(in[0], b.constant(dtype, 0.125));
      if (mask == Mask::None) return y;
      if (mask == Mask::Additive) return b.add(y, in[1]);
      const Scalar low = b.constant(dtype, hidden), holds = b.convert(in[1], Dtype::Bool);
      const Scalar zero = b.constant(dtype, 0), seen = mask == Mask::Nothing ? b.bit_not(holds) : holds;
      if (hides == Hides::Added) return b.add(y, b.select(seen, zero, low));
      if (hides == Hides::AddedProduct)  // y + (1 - seen) * low
        return b.add(b.mul(b.sub(b.constant(dtype, 1), b.convert(seen, dtype)), low), y);
      return b.select(seen, y, low);
    };
    const int m = s.value({0, 1}, {3}, Monoid::Max, x, scaled);
    const auto with = [&](std::vector<Operand> more) {
      std::vector<Operand> all = x;
      all.insert(all.end(), more.begin(), more.end());
      return all;
    };
    const auto weight = [&](ScalarBuilder& b, std::span<const Scalar> in) {
      const Scalar most = in[x.size()];
      const Scalar u =
          clamped ? b.maximum(most, b.constant(dtype, std::numeric_limits<float>::lowest())) : most;
      return math::exp2(b, b.mul(b.sub(scaled(b, in), u), b.constant(dtype, 1.44269504)));
    };
    const int l = s.value({0, 1}, {3}, Monoid::Add, with({s.read(m)}), weight);
    const auto share = [&](ScalarBuilder& b, Scalar total) {
      return math::reciprocal(b, clamped ? b.maximum(total, b.constant(dtype, 0.5)) : total);
    };
    const Operand load_v = s.load(v, (h * keys + j) * columns + d);
    int result = s.value({0, 1, 2}, {3}, Monoid::Add, with({s.read(m), load_v, s.read(l)}),
                         [&](ScalarBuilder& b, std::span<const Scalar> in) {
                           Scalar w = weight(b, in);
                           if (normalise_inside) w = b.mul(w, share(b, in[x.size() + 2]));
                           return b.mul(w, in[x.size() + 1]);
                         });
    if (!normalise_inside)
      result = s.value(
          {0, 1, 2}, {}, std::nullopt, {s.read(result), s.read(l)},
          [&](ScalarBuilder& b, std::span<const Scalar> in) { return b.mul(in[0], share(b, in[1])); });
    s.output(result, (h * queries + i) * columns + d, heads * queries * columns);
    return s.finish();
  }
};

}  // namespace luminal::codegen::test_cases
