#pragma once
#include <fmt/format.h>

#include "unit/codegen/attention_specs.h"
#include "unit/codegen/cases.h"

/// Specs of every shape that `nest` and `map` must lower right, with sizes that leave tails.
namespace luminal::codegen::test_cases {

struct Case {
  std::string name;
  KernelSpec spec;
  Bucket bucket;
  std::vector<DimMap> sizes;
  bool elementwise = true;
  double tolerance = 0;
};

inline Bucket bucket_of(const std::string& dim, int64_t min, int64_t max) {
  return {{{dim, {.min = min, .max = max}}}};
}

inline Case bias_and_relu() {
  SpecBuilder s;
  const Expression n = Expression::dim("n", {.max = 100}), i = s.axis(n), j = s.axis(19);
  const int x = s.slot(n * 19), c = s.slot(19);
  const int y = s.value({0, 1}, {}, std::nullopt, {s.load(x, i * 19 + j), s.load(c, j)},
                        [](ScalarBuilder& b, std::span<const Scalar> v) {
                          return b.maximum(b.add(v[0], v[1]), b.constant(Dtype::F32, 0));
                        });
  s.output(y, i * 19 + j, n * 19);
  return {"bias_and_relu",
          s.finish().spec,
          bucket_of("n", 0, 100),
          {{{"n", 0}}, {{"n", 1}}, {{"n", 37}}, {{"n", 100}}}};
}

/// Zero or one around an image, or a fill of 7.
inline Case padded(int64_t height, int64_t width, double fill) {
  SpecBuilder s;
  const Expression n = s.axis(3), y = s.axis(height + 3), x = s.axis(width + 2);
  const int image = s.slot(3 * height * width);
  const Expression iy = y - 1, ix = x - 1;
  const int v = s.value({0, 1, 2}, {}, std::nullopt,
                        {s.load(image, (n * height + iy) * width + ix,
                                {{iy.gte(0) & iy.lt(height), fill}, {ix.gte(0) & ix.lt(width), 2 * fill}})},
                        [](ScalarBuilder& b, std::span<const Scalar> u) { return b.mul(u[0], u[0]); });
  s.output(v, (n * (height + 3) + y) * (width + 2) + x, 3 * (height + 3) * (width + 2));
  return {fmt::format("padded_{}x{}_{}", height, width, fill), s.finish().spec, {}, {{}}};
}

/// Y[i,j] = A[j,i] * B[i,j] + A2[j,i], in some dtype.
inline Case transposed(const Expression& rows, int64_t columns, Dtype d, std::vector<DimMap> sizes,
                       Bucket bucket) {
  SpecBuilder s;
  const Expression i = s.axis(rows), j = s.axis(columns);
  const int a = s.slot(rows * columns, d), c = s.slot(rows * columns, d), e = s.slot(rows * columns, d);
  const int y =
      s.value({0, 1}, {}, std::nullopt,
              {s.load(a, j * rows + i), s.load(c, i * columns + j), s.load(e, j * rows + i)},
              [](ScalarBuilder& b, std::span<const Scalar> v) { return b.add(b.mul(v[0], v[1]), v[2]); });
  s.output(y, i * columns + j, rows * columns);
  return {"transposed_" + std::string(name(d)), s.finish().spec, std::move(bucket), std::move(sizes)};
}

/// Y[i,j] = sum k: max(sum l: A[i,l] * B[l,k], 0) * C[k,j], and if `sums` the sum over k of what is in between as well.
inline Case two_products(const Expression& rows, int64_t inner, int64_t hidden, int64_t columns, bool sums,
                         std::vector<DimMap> sizes, Bucket bucket) {
  SpecBuilder s;
  const Expression i = s.axis(rows), j = s.axis(columns), k = s.axis(hidden), l = s.axis(inner);
  const int a = s.slot(rows * inner), c = s.slot(inner * hidden), e = s.slot(hidden * columns);
  const auto product = [](ScalarBuilder& b, std::span<const Scalar> v) { return b.mul(v[0], v[1]); };
  const auto of_positive = [](ScalarBuilder& b, std::span<const Scalar> v) {
    return b.mul(b.maximum(v[0], b.constant(Dtype::F32, 0)), v[1]);
  };
  const int h =
      s.value({0, 2}, {3}, Monoid::Add, {s.load(a, i * inner + l), s.load(c, l * hidden + k)}, product);
  const int y = s.value({0, 1}, {2}, Monoid::Add, {s.read(h), s.load(e, k * columns + j)}, of_positive);
  s.output(y, i * columns + j, rows * columns);
  if (sums) {
    const int total = s.value({0}, {2}, Monoid::Add, {s.read(h)},
                              [](ScalarBuilder&, std::span<const Scalar> v) { return v[0]; });
    s.output(total, i, rows);
  }
  return {fmt::format("two_products_{}x{}x{}{}", inner, hidden, columns, sums ? "_sums" : ""),
          s.finish().spec, std::move(bucket), std::move(sizes), false};
}

/// Strided, reversed and scattered reads, a window of a view, and the coordinates themselves.
inline Case views() {
  SpecBuilder s;
  const Expression i = s.axis(5), j = s.axis(53);
  const int a = s.slot(5 * 106), c = s.slot(53), e = s.slot(13), f = s.slot(400);
  const int y = s.value({0, 1}, {}, std::nullopt,
                        {s.load(a, i * 106 + j * 2), s.load(c, 52 - j), s.load(e, (i * 7 + j * 5) % 13),
                         s.load(f, i * 3 + j * 7), SpecBuilder::number(i * 100 - j / 3)},
                        [](ScalarBuilder& b, std::span<const Scalar> v) {
                          const Scalar sum = b.add(b.add(v[0], v[1]), b.mul(v[2], v[3]));
                          return b.add(sum, b.convert(v[4], Dtype::F32));
                        });
  s.output(y, i * 53 + j, 5 * 53);
  return {"views", s.finish().spec, {}, {{}}};
}

/// Two outputs of other dtypes than the input, one of them bool.
inline Case dtypes(Dtype from, Dtype to) {
  SpecBuilder s;
  const Expression i = s.axis(131);
  const int a = s.slot(131, from);
  const int wide =
      s.value({0}, {}, std::nullopt, {s.load(a, i)}, [&](ScalarBuilder& b, std::span<const Scalar> v) {
        return b.convert(b.add(b.convert(v[0], Dtype::F32), b.constant(Dtype::F32, 1)), to);
      });
  const int test = s.value({0}, {}, std::nullopt, {s.load(a, 130 - i), s.read(wide)},
                           [&](ScalarBuilder& b, std::span<const Scalar> v) {
                             return b.lt(b.convert(v[0], Dtype::F32), b.convert(v[1], Dtype::F32));
                           });
  s.output(wide, i, 131);
  s.output(test, i, 131);
  return {fmt::format("{}_to_{}", name(from), name(to)), s.finish().spec, {}, {{}}};
}

/// Elements that hold for `times` neighbours: of rows that follow each other, of every second place, of one
/// row for all, of rows that are masked as a whole, and of places that are masked one by one.
inline Case repeats(const Expression& rows, int64_t columns, int64_t times, std::vector<DimMap> sizes,
                    Bucket bucket) {
  SpecBuilder s;
  const Expression i = s.axis(rows), k = s.axis(columns), l = s.axis(times);
  const Expression at = i * columns + k;
  const int a = s.slot(rows * columns), c = s.slot(rows * columns * 2), e = s.slot(columns),
            f = s.slot(rows * columns, Dtype::I64), g = s.slot(rows * columns);
  const int y = s.value({0, 1, 2}, {}, std::nullopt,
                        {s.load(a, at), s.load(c, 2 * at), s.load(e, k), s.load(f, at, {{i.gte(1), 3}}),
                         s.load(g, at, {{(k + l).lt(columns), 0}}), SpecBuilder::number(at * 3 - l)},
                        [](ScalarBuilder& b, std::span<const Scalar> v) {
                          const Scalar sum = b.add(b.add(v[0], v[1]), b.mul(v[2], v[4]));
                          return b.add(sum, b.convert(b.add(v[3], v[5]), Dtype::F32));
                        });
  s.output(y, at * times + l, rows * columns * times);
  return {fmt::format("repeats_{}x{}", columns, times), s.finish().spec, std::move(bucket), std::move(sizes)};
}

// --- with reductions ---

/// The gradient of a maximum over windows of 2 by `width`: what came for the window goes to where it was
/// reached.
inline Case windows(int64_t rows, int64_t columns, int64_t width) {
  SpecBuilder s;
  const Expression i = s.axis(rows), j = s.axis(2), k = s.axis(columns), l = s.axis(width), j2 = s.axis(2),
                   l2 = s.axis(width);
  const auto at = [&](const Expression& row, const Expression& column) {
    return ((i * 2 + row) * columns + k) * width + column;
  };
  const int a = s.slot(rows * 2 * columns * width), c = s.slot(rows * columns);
  const int most = s.value({0, 2}, {4, 5}, Monoid::Max, {s.load(a, at(j2, l2))},
                           [](ScalarBuilder&, std::span<const Scalar> v) { return v[0]; });
  const int y =
      s.value({0, 1, 2, 3}, {}, std::nullopt, {s.load(a, at(j, l)), s.read(most), s.load(c, i * columns + k)},
              [](ScalarBuilder& b, std::span<const Scalar> v) {
                return b.select(b.lt(v[0], v[1]), b.constant(Dtype::F32, 0), v[2]);
              });
  s.output(y, at(j, l), rows * 2 * columns * width);
  return {fmt::format("windows_{}x{}", columns, width), s.finish().spec, {}, {{}}, false};
}

inline Case softmax(bool exports) {
  SpecBuilder s;
  const Expression n = Expression::dim("n", {.min = 1, .max = 50}), r = s.axis(n), j = s.axis(37),
                   j2 = s.axis(37), j3 = s.axis(37);
  const int x = s.slot(n * 37);
  const int m = s.value({0}, {2}, Monoid::Max, {s.load(x, r * 37 + j2)},
                        [](ScalarBuilder&, std::span<const Scalar> v) { return v[0]; });
  const auto weight = [](ScalarBuilder& b, std::span<const Scalar> v) {
    const Scalar d = b.sub(v[0], v[1]);
    return b.add(b.mul(d, d), b.constant(Dtype::F32, 1));
  };
  const int l = s.value({0}, {3}, Monoid::Add, {s.load(x, r * 37 + j3), s.read(m)}, weight);
  const int y =
      s.value({0, 1}, {}, std::nullopt, {s.load(x, r * 37 + j), s.read(m), s.read(l)},
              [&](ScalarBuilder& b, std::span<const Scalar> v) { return b.div(weight(b, v), v[2]); });
  s.output(y, r * 37 + j, n * 37);
  if (exports) s.output(l, r, n);
  return {exports ? "softmax_with_export" : "softmax",
          s.finish().spec,
          bucket_of("n", 1, 50),
          {{{"n", 1}}, {{"n", 33}}},
          false,
          1e-6};
}

/// Each column less its sum, and the sum of all.
inline Case columns() {
  SpecBuilder s;
  const Expression i = s.axis(23), j = s.axis(41), k = s.axis(23), p = s.axis(23), q = s.axis(41);
  const int x = s.slot(23 * 41);
  const auto same = [](ScalarBuilder&, std::span<const Scalar> v) { return v[0]; };
  const int column = s.value({1}, {2}, Monoid::Add, {s.load(x, k * 41 + j)}, same);
  const int all = s.value({}, {3, 4}, Monoid::Add, {s.load(x, p * 41 + q)}, same);
  const int y =
      s.value({0, 1}, {}, std::nullopt, {s.load(x, i * 41 + j), s.read(column), s.read(all)},
              [](ScalarBuilder& b, std::span<const Scalar> v) { return b.add(b.sub(v[0], v[1]), v[2]); });
  s.output(y, i * 41 + j, 23 * 41);
  return {"columns", s.finish().spec, {}, {{}}, false};
}

inline Case everything(Monoid monoid, Dtype d) {
  SpecBuilder s;
  const Expression p = s.axis(7), q = s.axis(31);
  const int x = s.slot(7 * 31, d);
  const int all = s.value({}, {0, 1}, monoid, {s.load(x, p * 31 + q)},
                          [](ScalarBuilder&, std::span<const Scalar> v) { return v[0]; });
  s.output(all, 0, 1);
  return {fmt::format("{}_of_{}", name(monoid), name(d)), s.finish().spec, {}, {{}}, false};
}

/// Y[i] = sum over j of the greater of 0 and (sum over k of Q[i,k] K[j,k]): a sum within a sum.
inline Case nested() {
  SpecBuilder s;
  const Expression i = s.axis(21), j = s.axis(13), k = s.axis(6);
  const int q = s.slot(21 * 6), key = s.slot(13 * 6);
  const int score =
      s.value({0, 1}, {2}, Monoid::Add, {s.load(q, i * 6 + k), s.load(key, j * 6 + k)}, product);
  const int y = s.value(
      {0}, {1}, Monoid::Add, {s.read(score)},
      [](ScalarBuilder& b, std::span<const Scalar> v) { return b.maximum(v[0], b.constant(Dtype::F32, 0)); });
  s.output(y, i, 21);
  return {"nested", s.finish().spec, {}, {{}}, false};
}

inline Case from(std::string name, kernel::Canonical c, Bucket bucket, std::vector<DimMap> sizes) {
  return {std::move(name), std::move(c.spec), std::move(bucket), std::move(sizes), false};
}

inline Case attention(const Attention& a) {
  Case c{"attention", a.spec().spec, {}, {{}}};
  c.elementwise = false;
  c.tolerance = 2e-6;
  return c;
}

inline std::vector<Case> nest_cases() {
  std::vector<Case> all{bias_and_relu(),
                        padded(5, 14, 0),
                        padded(3, 70, 7),
                        padded(1, 1, 1),
                        views(),
                        transposed(33, 47, Dtype::F32, {{}}, {}),
                        transposed(64, 32, Dtype::I32, {{}}, {}),
                        transposed(Expression::dim("n", {.max = 70}), 21, Dtype::F32,
                                   {{{"n", 0}}, {{"n", 1}}, {{"n", 16}}, {{"n", 67}}}, bucket_of("n", 0, 70)),
                        repeats(5, 7, 2, {{}}, {}),
                        repeats(3, 8, 4, {{}}, {}),
                        repeats(2, 3, 16, {{}}, {}),
                        repeats(4, 5, 3, {{}}, {}),
                        repeats(Expression::dim("n", {.max = 9}), 20, 2, {{{"n", 0}}, {{"n", 1}}, {{"n", 8}}},
                                bucket_of("n", 0, 9)),
                        windows(6, 14, 2),
                        windows(5, 9, 2),
                        windows(6, 7, 2),
                        windows(4, 5, 4),
                        windows(3, 20, 3),
                        softmax(false),
                        softmax(true),
                        columns(),
                        nested(),
                        two_products(5, 6, 37, 70, false, {{}}, {}),
                        two_products(Expression::dim("n", {.max = 9}), 3, 70, 19, true,
                                     {{{"n", 0}}, {{"n", 1}}, {{"n", 8}}}, bucket_of("n", 0, 9)),
                        attention({2, 37, 75, 6, 5, Attention::Mask::Causal}),
                        attention({3, 5, 40, 9, 18, Attention::Mask::Additive})};
  for (const Dtype d : kPlainDtypes) {
    all.push_back(dtypes(d, Dtype::F16));
    if (d != Dtype::F32) all.push_back(dtypes(Dtype::F32, d));
  }
  for (const Dtype d : {Dtype::F32, Dtype::F64, Dtype::I32, Dtype::I64, Dtype::U8, Dtype::U16})
    for (const Monoid c : {Monoid::Add, Monoid::Mul, Monoid::Max, Monoid::Min})
      if (c != Monoid::Mul || d != Dtype::F32) all.push_back(everything(c, d));
  all.push_back(everything(Monoid::Max, Dtype::Bool));
  all.push_back(from("matmul", Matmul{.m = 17, .n = 35, .k = 9, .epilogue = true}.spec(), {}, {{}}));
  all.push_back(from("matmul_bf16", Matmul{.m = 6, .n = 20, .k = 5, .dtype = Dtype::BF16}.spec(), {}, {{}}));
  const Expression n = Expression::dim("n", {.min = 1, .max = 3});
  const Conv conv{.images = n, .channels = 2, .height = 7, .width = 9, .filters = 3};
  const Conv strided{.images = 2, .channels = 2, .height = 8, .width = 8, .filters = 3, .stride = 2};
  const Bucket images = bucket_of("n", 1, 3);
  all.push_back(from("conv", conv.forward(), images, {{{"n", 1}}, {{"n", 3}}}));
  all.push_back(from("conv_weights", conv.weight_gradient(), images, {{{"n", 2}}}));
  all.push_back(from("conv_inputs", conv.input_gradient(), images, {{{"n", 2}}}));
  all.push_back(from("strided_inputs", strided.input_gradient(), {}, {{}}));
  return all;
}

}  // namespace luminal::codegen::test_cases
