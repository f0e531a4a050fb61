#include "codegen/schedules/row.h"

#include <gtest/gtest.h>

#include "cases.h"
#include "codegen/schedules/families.h"

namespace luminal::codegen {
namespace {

using namespace test_cases;

const Schedule& row() { return row_schedule(); }

/// Shaped as softmax is, but exact on whole numbers: m = max x; l = sum e(x, m); y = e(x, m) * l, with
/// e(x, m) = max((x - m)^2 + 1, |x|) + x + 2. `weights`: x times a vector along the row first.
KernelSpec softmax_like(const Expression& rows, const Expression& length, Dtype dtype, bool weights = false,
                        bool last = true) {
  SpecBuilder s;
  const Expression r = s.axis(rows), j = s.axis(length);
  const int x = s.slot(rows * length, dtype), w = s.slot(length, dtype);
  const Expression at = last ? r * length + j : j * rows + r;
  std::vector<Operand> loads{s.load(x, at)};
  if (weights) loads.push_back(s.load(w, j));
  const auto scaled = [&](ScalarBuilder& b, std::span<const Scalar> v) {
    return weights ? b.mul(v[0], v[1]) : v[0];
  };
  const int m = s.value({0}, {1}, Monoid::Max, loads, scaled);
  const auto with = [&](int value) {
    std::vector<Operand> operands = loads;
    operands.push_back(s.read(value));
    return operands;
  };
  const auto e = [&](ScalarBuilder& b, std::span<const Scalar> v, Scalar most) {
    const Scalar z = scaled(b, v), d = b.sub(z, most);
    return b.add(b.add(b.maximum(b.add(b.mul(d, d), b.constant(dtype, 1)), b.abs(z)), z),
                 b.constant(dtype, 2));
  };
  const int l = s.value({0}, {1}, Monoid::Add, with(m),
                        [&](ScalarBuilder& b, std::span<const Scalar> v) { return e(b, v, v.back()); });
  std::vector<Operand> all = with(m);
  all.push_back(s.read(l));
  const int y = s.value({0, 1}, {}, std::nullopt, all, [&](ScalarBuilder& b, std::span<const Scalar> v) {
    return b.mul(e(b, v, v[v.size() - 2]), v.back());
  });
  s.output(y, at, rows * length);
  return s.finish().spec;
}

TEST(Row, FindsPassesAndWhatToKeep) {
  const KernelSpec spec = softmax_like(5, 40, Dtype::F32);
  const auto rows = rows_of(spec);
  ASSERT_TRUE(rows.has_value());
  EXPECT_EQ(rows->passes.size(), 2U);
  const KeptParts kept = kept_parts(spec, *rows, 6);
  EXPECT_EQ(kept.parts.size(), 1U);
  EXPECT_EQ(kept.bodies.size(), 1U);
  EXPECT_LE(kept.bodies.begin()->second.function.cost().weight(), 1);
  EXPECT_TRUE(kept_parts(spec, *rows, 100).parts.empty());
}

/// The same with e(x, m) a value of its own, which both the sum and the results read; perhaps an output too.
KernelSpec shared_softmax(int64_t rows, int64_t length, bool exported) {
  SpecBuilder s;
  const Expression r = s.axis(rows), j = s.axis(length);
  const int x = s.slot(rows * length, Dtype::I32);
  const Expression at = r * length + j;
  const auto same = [](ScalarBuilder&, std::span<const Scalar> v) { return v[0]; };
  const int m = s.value({0}, {1}, Monoid::Max, {s.load(x, at)}, same);
  const int e = s.value({0, 1}, {}, std::nullopt, {s.load(x, at), s.read(m)},
                        [](ScalarBuilder& b, std::span<const Scalar> v) {
                          const Scalar d = b.sub(v[0], v[1]), two = b.constant(Dtype::I32, 2);
                          return b.add(b.mul(b.add(b.mul(d, d), two), d), b.maximum(d, b.mul(v[0], two)));
                        });
  const int l = s.value({0}, {1}, Monoid::Add, {s.read(e)}, same);
  const int least = s.value({0}, {1}, Monoid::Max, {s.read(e)}, same);
  const int y =
      s.value({0, 1}, {}, std::nullopt, {s.read(e), s.read(l), s.read(least)},
              [](ScalarBuilder& b, std::span<const Scalar> v) { return b.add(b.mul(v[0], v[1]), v[2]); });
  s.output(y, at, rows * length);
  if (exported) s.output(e, at, rows * length);
  return s.finish().spec;
}

TEST(Row, ValuesThatSeveralPassesReadAreKept) {
  for (const bool exported : {false, true}) {
    const KernelSpec spec = shared_softmax(5, 43, exported);
    const auto rows = rows_of(spec);
    ASSERT_TRUE(rows.has_value());
    const KeptValues kept = kept_values(spec, *rows, 6);
    EXPECT_EQ(kept.values.size(), exported ? 1U : 0U) << spec.to_string();  // otherwise it is part of bodies
    EXPECT_EQ(kept_parts(spec, *rows, 6).parts.empty(), exported);
    EXPECT_TRUE(kept_values(spec, *rows, 100).values.empty());
    for (const Target& target : {avx512(), avx2()}) {
      check_candidates(row(), spec, {}, target, {{}});
      for (const int64_t along : {0, 1})
        for (const int64_t far : {0, 1})
          check_loops(row(), spec, {{"along", along}, {"unroll", 1}, {"keep", 1}, {"task", 2}, {"far", far}},
                      {}, target, {{}});
    }
  }
}

/// Tensors larger than the caches: the next row is fetched while one is computed, past the last one too.
TEST(Row, LargeTensorsFetchAhead) {
  Target small = avx512();
  small.l2_bytes = 256, small.l1_bytes = 128;
  const KernelSpec spec = softmax_like(7, 83, Dtype::F64);
  EXPECT_EQ(row().candidates(spec, {}, small).at(0).parameters.at("far"), 1);
  EXPECT_EQ(row().candidates(spec, {}, avx512()).at(0).parameters.at("far"), 0);
  check_candidates(row(), spec, {}, small, {{}});
  check_candidates(row(), softmax_like(3, 64, Dtype::I32, true), {}, small, {{}});
}

TEST(Row, SoftmaxAtOddSizes) {
  for (const auto& [rows, length] : {std::array<int64_t, 2>{5, 40}, {17, 10}, {3, 129}, {33, 3}, {2, 64}})
    for (const Target& target : {avx512(), avx2()})
      for (const bool last : {true, false}) {
        check_candidates(row(), softmax_like(rows, length, Dtype::I32, false, last), {}, target, {{}});
        check_candidates(row(), softmax_like(rows, length, Dtype::F64, true, last), {}, target, {{}});
      }
}

/// Mean and variance, then (x - mean) * (variance + g[j]) + x, and both statistics stored as well.
TEST(Row, StatisticsAsExports) {
  SpecBuilder s;
  const Expression r = s.axis(7), j = s.axis(32);
  const int x = s.slot(7 * 32, Dtype::F64), g = s.slot(32, Dtype::F64);
  const Operand load = s.load(x, r * 32 + j);
  const auto half = [](ScalarBuilder& b, std::span<const Scalar> v) {
    return b.mul(v[0], b.constant(Dtype::F64, 1.0 / 32));
  };
  const int sum =
      s.value({0}, {1}, Monoid::Add, {load}, [](ScalarBuilder&, std::span<const Scalar> v) { return v[0]; });
  const int mean = s.value({0}, {}, std::nullopt, {s.read(sum)}, half);
  const int squares =
      s.value({0}, {1}, Monoid::Add, {load, s.read(mean)}, [](ScalarBuilder& b, std::span<const Scalar> v) {
        const Scalar d = b.sub(v[0], v[1]);
        return b.mul(d, d);
      });
  const int variance = s.value({0}, {}, std::nullopt, {s.read(squares)}, half);
  const int y = s.value({0, 1}, {}, std::nullopt, {load, s.read(mean), s.read(variance), s.load(g, j)},
                        [](ScalarBuilder& b, std::span<const Scalar> v) {
                          return b.add(b.mul(b.sub(v[0], v[1]), b.add(v[2], v[3])), v[0]);
                        });
  s.output(y, r * 32 + j, 7 * 32);
  s.output(mean, r, 7);
  s.output(variance, r, 7);
  const KernelSpec spec = s.finish().spec;
  for (const Target& target : {avx512(), avx2()}) check_candidates(row(), spec, {}, target, {{}}, 1e-12);
}

TEST(Row, SymbolicDims) {
  const DimFacts facts{.min = 0, .max = 50};
  const Bucket bucket{{{"s", facts}}};
  const Expression s = Expression::dim("s", facts);
  const std::vector<DimMap> sizes{{{"s", 50}}, {{"s", 17}}, {{"s", 1}}, {{"s", 0}}};
  check_candidates(row(), softmax_like(s, 20, Dtype::I32), bucket, avx512(), sizes);
  check_candidates(row(), softmax_like(4, s, Dtype::I64, true), bucket, avx512(), sizes);
}

/// A batch of one, of a named size or not.
TEST(Row, OneRowOfANamedDimIsOneRow) {
  const DimFacts one{.min = 1, .max = 1};
  const Bucket bucket{{{"s", one}}};
  const KernelSpec spec = softmax_like(Expression::dim("s", {.min = 1, .max = 50}), 40, Dtype::I32);
  const auto named = row().candidates(spec, bucket, avx512()),
             fixed = row().candidates(softmax_like(1, 40, Dtype::I32), {}, avx512());
  ASSERT_FALSE(fixed.empty());
  ASSERT_EQ(named.size(), fixed.size());
  for (size_t i = 0; i < named.size(); ++i) {
    EXPECT_EQ(named[i].parameters, fixed[i].parameters);
    EXPECT_EQ(named[i].predicted_us, fixed[i].predicted_us);
  }
  check_candidates(row(), spec, bucket, avx512(), {{{"s", 1}}});
}

TEST(Row, LeavesPlainReductionsAlone) {
  SpecBuilder s;
  const Expression i = s.axis(4), k = s.axis(8);
  const int a = s.slot(32);
  s.output(s.value({0}, {1}, Monoid::Add, {s.load(a, i * 8 + k)},
                   [](ScalarBuilder&, std::span<const Scalar> x) { return x[0]; }),
           i, 4);
  EXPECT_TRUE(row().candidates(s.finish().spec, {}, avx512()).empty());
}

}  // namespace
}  // namespace luminal::codegen
