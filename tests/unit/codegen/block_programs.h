#pragma once
#include <vector>

#include "unit/codegen/nest_cases.h"

/// Targets with blocks of threads, and specs for the families that run on them.
namespace luminal::codegen::test_cases {

inline Target gpu() {
  return {.name = "gpu",
          .vector_bytes = 16,
          .threads = 16,
          .block_threads = 256,
          .block_bytes = 48 << 10,
          .block_width = 32};
}

inline std::vector<const Schedule*> block_families() {
  std::vector<const Schedule*> list;
  for (const Schedule* s : schedules())
    if (s->for_blocks) list.push_back(s);
  return list;
}

/// Folds over the inner axis of [m, k], or over the outer one, with a value behind the fold; of half floats in f32.
inline Case folded(Monoid monoid, Dtype dtype, const Expression& m, const Expression& k, bool inner,
                   std::vector<DimMap> sizes, Bucket bucket) {
  SpecBuilder s;
  const Expression i = s.axis(m), j = s.axis(k);
  const int x = s.slot(m * k, dtype), c = s.slot(m, dtype);
  const Dtype in = monoid == Monoid::Add ? accumulation_dtype(dtype) : dtype;
  const int total = s.value({0}, {1}, monoid, {s.load(x, inner ? i * k + j : j * m + i)},
                            [&](ScalarBuilder& b, std::span<const Scalar> v) { return b.convert(v[0], in); });
  const int y = s.value({0}, {}, std::nullopt, {s.read(total), s.load(c, i)},
                        [&](ScalarBuilder& b, std::span<const Scalar> v) {
                          return b.convert(b.add(v[0], b.convert(v[1], in)), dtype);
                        });
  s.output(y, i, m);
  return {fmt::format("{} of {} {}x{}", name(monoid), name(dtype), m.to_string(), k.to_string()),
          s.finish().spec, std::move(bucket), std::move(sizes), false};
}

/// Y[i,j] = max(A[j,i] * B[i,j] + B[i,j], 0) with fills around A.
inline Case masked_map(Dtype d, const Expression& rows, int64_t columns, std::vector<DimMap> sizes,
                       Bucket bucket) {
  SpecBuilder s;
  const Expression i = s.axis(rows), j = s.axis(columns);
  const int a = s.slot(rows * columns, d), c = s.slot(rows * columns, d);
  const int y = s.value({0, 1}, {}, std::nullopt,
                        {s.load(a, j * rows + i - 1, {{i.gte(1), 3}}), s.load(c, i * columns + j)},
                        [&](ScalarBuilder& b, std::span<const Scalar> v) {
                          const Scalar x = b.add(b.mul(v[0], v[1]), v[1]);
                          return b.maximum(x, b.constant(d, 0));
                        });
  s.output(y, i * columns + j, rows * columns);
  return {fmt::format("map of {} {}x{}", name(d), rows.to_string(), columns), s.finish().spec,
          std::move(bucket), std::move(sizes)};
}

/// Shaped as softmax is, and exact on whole numbers: m = max x, l = sum (x - m)^2 + 1, y = ((x - m)^2 + 1) * l; l is an
/// output of its own.
inline Case rows_of_squares(Dtype d, const Expression& rows, int64_t length, bool last,
                            std::vector<DimMap> sizes, Bucket bucket) {
  SpecBuilder s;
  const Expression r = s.axis(rows), j = s.axis(length);
  const int x = s.slot(rows * length, d);
  const Expression at = last ? r * length + j : j * rows + r;
  const Dtype in = accumulation_dtype(d);
  const auto square = [in](ScalarBuilder& b, Scalar value, Scalar most) {
    const Scalar distance = b.sub(b.convert(value, in), b.convert(most, in));
    return b.add(b.mul(distance, distance), b.constant(in, 1));
  };
  const int m = s.value({0}, {1}, Monoid::Max, {s.load(x, at)},
                        [](ScalarBuilder&, std::span<const Scalar> v) { return v[0]; });
  const int l = s.value({0}, {1}, Monoid::Add, {s.load(x, at), s.read(m)},
                        [&](ScalarBuilder& b, std::span<const Scalar> v) { return square(b, v[0], v[1]); });
  const int y = s.value({0, 1}, {}, std::nullopt, {s.load(x, at), s.read(m), s.read(l)},
                        [&](ScalarBuilder& b, std::span<const Scalar> v) {
                          return b.convert(b.mul(square(b, v[0], v[1]), v[2]), d);
                        });
  s.output(y, at, rows * length);
  s.output(l, r, rows);
  return {fmt::format("rows of {} {}x{}", name(d), rows.to_string(), length), s.finish().spec,
          std::move(bucket), std::move(sizes), false};
}

/// Y[i] = C[i] * sum over j of (X[i,j] + C[i]): the output may lie where C does, which all threads of a result read.
inline Case sums_in_place(int64_t rows, int64_t length) {
  SpecBuilder s;
  const Expression i = s.axis(rows), j = s.axis(length);
  const int x = s.slot(rows * length), c = s.slot(rows);
  const int total = s.value({0}, {1}, Monoid::Add, {s.load(x, i * length + j), s.load(c, i)},
                            [](ScalarBuilder& b, std::span<const Scalar> v) { return b.add(v[0], v[1]); });
  const int y = s.value({0}, {}, std::nullopt, {s.read(total), s.load(c, i)}, product);
  s.output(y, i, rows);
  return {fmt::format("sums in place {}x{}", rows, length), s.finish().spec, {}, {{}}, false};
}

inline Case product_of(Matmul m, std::vector<DimMap> sizes, Bucket bucket) {
  return {fmt::format("product of {} {}x{}x{}{}{}", name(m.dtype), m.m.to_string(), m.n.to_string(),
                      m.k.to_string(), m.turned_a ? " turned a" : "", m.turned_b ? " turned b" : ""),
          m.spec().spec, std::move(bucket), std::move(sizes), false};
}

/// Of every family for blocks, at sizes that leave tails; dims of known and of unknown sizes.
inline std::vector<Case> block_cases() {
  const Expression n = Expression::dim("n", {.min = 0, .max = 200});
  const Bucket bucket = bucket_of("n", 0, 200);
  std::vector<DimMap> sizes;
  for (const int64_t size : {0, 1, 7, 130}) sizes.push_back({{"n", size}});
  std::vector<Case> all;
  for (const Dtype d : {Dtype::F32, Dtype::F64, Dtype::F16, Dtype::BF16, Dtype::I32}) {
    all.push_back(folded(Monoid::Add, d, 5, 301, true, {{}}, {}));
    all.push_back(folded(Monoid::Max, d, 67, 19, false, {{}}, {}));
    all.push_back(folded(Monoid::Min, d, 1, 61, true, {{}}, {}));
    if (d != Dtype::F16 && d != Dtype::BF16) all.push_back(masked_map(d, 23, 29, {{}}, {}));
    all.push_back(rows_of_squares(d, 5, 41, true, {{}}, {}));
    all.push_back(rows_of_squares(d, 67, 9, false, {{}}, {}));
    all.push_back(product_of({.m = 19, .n = 37, .k = 21, .epilogue = true, .dtype = d}, {{}}, {}));
  }
  all.push_back(masked_map(Dtype::F32, n, 17, sizes, bucket));
  all.push_back(dtypes(Dtype::F16, Dtype::BF16));
  all.push_back(dtypes(Dtype::BF16, Dtype::I32));
  all.push_back(views());
  all.push_back(padded(3, 70, 7));
  all.push_back(repeats(5, 7, 2, {{}}, {}));
  all.push_back(softmax(true));
  all.push_back(sums_in_place(5, 70));
  all.push_back(rows_of_squares(Dtype::F32, n, 33, true, sizes, bucket));
  for (const bool a : {false, true})
    for (const bool b : {false, true})
      all.push_back(
          product_of({.m = 33, .n = 18, .k = 17, .batch = 2, .turned_a = a, .turned_b = b}, {{}}, {}));
  all.push_back(product_of({.m = n, .n = 20, .k = 9}, sizes, bucket));
  all.push_back(product_of({.m = 9, .n = n, .k = 16}, sizes, bucket));
  all.push_back(product_of({.m = 9, .n = 20, .k = n}, sizes, bucket));
  all.push_back(from(
      "conv", Conv{.images = 2, .channels = 3, .height = 7, .width = 6, .filters = 5}.forward(), {}, {{}}));
  all.push_back(folded(Monoid::Add, Dtype::F32, n, 33, true, sizes, bucket));
  all.push_back(folded(Monoid::Add, Dtype::F32, 33, n, false, sizes, bucket));
  all.push_back(folded(Monoid::Add, Dtype::F32, 3, n, true, sizes, bucket));
  return all;
}

/// Corners of a family's parameters, beyond what its candidates say.
inline std::vector<Parameters> corners_of(const Schedule& schedule) {
  std::vector<std::vector<std::pair<const char*, std::vector<int64_t>>>> spaces;
  if (schedule.name == "block_map") spaces = {{{"threads", {2, 64, 256}}, {"each", {1, 3, 4}}}};
  if (schedule.name == "block_reduce")
    for (const int64_t threads : {2, 64, 256})
      spaces.push_back({{"threads", {threads}},
                        {"results", {1, threads / 2, threads}},
                        {"along", {0, 1}},
                        {"splits", {1, 3, 16}}});
  if (schedule.name == "block_row")
    for (const int64_t threads : {2, 64, 256})
      spaces.push_back({{"threads", {threads}}, {"results", {1, threads / 2, threads}}, {"along", {0, 1}}});
  if (schedule.name == "block_contract")
    for (const auto& [m, n] : {std::pair<int64_t, int64_t>{1, 5}, {3, 2}, {4, 4}})
      spaces.push_back({{"tile_m", {m}},
                        {"tile_n", {n}},
                        {"threads_m", {4, 8}},
                        {"threads_n", {8, 16}},
                        {"depth", {3, 8}},
                        {"buffers", {1, 2}}});
  std::vector<Parameters> all;
  for (const auto& space : spaces) {
    std::vector<Parameters> points{{}};
    for (const auto& [name, values] : space) {
      std::vector<Parameters> longer;
      for (const Parameters& point : points)
        for (const int64_t value : values) (longer.emplace_back(point))[name] = value;
      points = std::move(longer);
    }
    all.insert(all.end(), points.begin(), points.end());
  }
  return all;
}

}  // namespace luminal::codegen::test_cases
