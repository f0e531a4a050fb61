#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "cases.h"
#include "codegen/schedules/families.h"
#include "support/effort.h"

namespace luminal::codegen {
namespace {

using namespace test_cases;

const Schedule& reduce() { return reduce_schedule(); }

Scalar plain(ScalarBuilder&, std::span<const Scalar> x) { return x[0]; }

/// Y[a,c] = f(fold b: A[a,b,c] * 2), of [a, b, c] by `monoid`.
KernelSpec middle(const Expression& a, const Expression& b, const Expression& c, Monoid monoid,
                  Dtype dtype = Dtype::F32) {
  SpecBuilder s;
  const Expression i = s.axis(a), k = s.axis(c), j = s.axis(b);
  const int x = s.slot(a * b * c, dtype);
  const int fold = s.value({0, 1}, {2}, monoid, {s.load(x, (i * b + j) * c + k)}, plain);
  s.output(fold, i * c + k, a * c);
  return s.finish().spec;
}

TEST(Reduce, EveryAxisAndMonoid) {
  for (const Monoid monoid : {Monoid::Add, Monoid::Mul, Monoid::Max, Monoid::Min})
    for (const auto& [a, b, c] :
         {std::array<int64_t, 3>{5, 7, 1}, {1, 83, 5}, {3, 9, 37}, {2, 300, 1}, {40, 2, 3}})
      for (const Target& target : {avx512(), avx2()})
        check_candidates(reduce(), middle(a, b, c, monoid, Dtype::I32), {}, target, {{}});
}

TEST(Reduce, Types) {
  for (const Dtype dtype : kPlainDtypes)
    for (const Monoid monoid : {Monoid::Max, Monoid::Min})
      check_candidates(reduce(), middle(6, 40, 3, monoid, dtype), {}, avx512(), {{}});
}

/// Totals that wait in memory: blocks that do not divide the results, rows left over, splits without rows,
/// and several reduced axes.
TEST(Reduce, TotalsHeldInMemory) {
  for (const int64_t held : {1, 3, 8})
    for (const int64_t splits : {1, 3})
      for (const int64_t task : {1, 2}) {
        const Parameters p{{"along", 0},   {"unroll", 2},      {"rows", 1},
                           {"task", task}, {"splits", splits}, {"held", held}};
        for (const Monoid monoid : {Monoid::Add, Monoid::Max})
          for (const auto& [a, b, c] :
               {std::array<int64_t, 3>{1, 29, 37}, {3, 8, 16}, {2, 2, 100}, {5, 7, 3}})
            for (const Target& target : {avx512(), avx2()})
              check_loops(reduce(), middle(a, b, c, monoid, Dtype::I32), p, {}, target, {{}});
        const Matmul vector{.m = 1, .n = 75, .k = 41};
        check_loops(reduce(), vector.spec().spec, p, {}, avx2(), {{}});
      }
}

/// Rows as long as a vector: all lanes read one element of A, and the last group has vectors without a row.
TEST(Reduce, VectorsBehindTheLastResultReadNothing) {
  const Parameters p{{"along", 0}, {"unroll", 8}, {"rows", 1}, {"task", 1}, {"splits", 1}, {"held", 0}};
  for (const Target& target : {avx512(), avx2()})
    for (const int64_t columns : {4, 8, 16})
      check_loops(reduce(),
                  Matmul{.m = 10, .n = columns, .k = 4, .turned_b = true, .epilogue = true}.spec().spec, p,
                  {}, target, {{}});
}

/// The least and the greatest divisor of `n` from 1 to 8.
std::set<int64_t> divisors(int64_t n) {
  std::set<int64_t> all{1};
  for (int64_t d = 8; d > 1 && all.size() < 2; --d)
    if (n % d == 0) all.insert(d);
  return all;
}

/// Rows of vectors that share what their windows read, narrower and wider than a vector, at odd strides and sizes.
TEST(Reduce, WindowsOfSeveralRowsTogether) {
  const std::array convolutions{
      Conv{.images = 3, .channels = 1, .height = 14, .width = 14, .filters = 2, .side = 5, .pad = 2},
      Conv{.images = 2, .channels = 1, .height = 7, .width = 7, .filters = 1, .side = 3, .pad = 1},
      Conv{.images = 2, .channels = 1, .height = 12, .width = 37, .filters = 1, .side = 3, .pad = 0},
      Conv{.images = 5,
           .channels = 1,
           .height = 13,
           .width = 29,
           .filters = 1,
           .side = 5,
           .pad = 2,
           .stride = 2},
      Conv{.images = Expression("n"),
           .channels = 2,
           .height = 6,
           .width = 70,
           .filters = 3,
           .side = 3,
           .pad = 1}};
  for (const Conv& c : convolutions)
    for (const KernelSpec& spec : {c.forward().spec, c.input_gradient().spec}) {
      const Bucket bucket = c.images.constant() ? Bucket{} : Bucket({{"n", {1, 4}}});
      const DimMap dims = c.images.constant() ? DimMap{} : DimMap{{"n", 3}};
      const std::vector<int>& axes = std::ranges::find_if(spec.values(), [](const kernel::Value& v) {
                                       return v.monoid.has_value();
                                     })->axes;
      const int64_t rows_of_results = *spec.extents()[static_cast<size_t>(axes[axes.size() - 2])].constant();
      for (const Target& target : {avx512(), avx2()}) {
        for (const int64_t rows : divisors(rows_of_results))
          for (const int64_t unroll : {1, 2})
            if (rows > 1)
              check_loops(reduce(), spec,
                          {{"along", 0},
                           {"unroll", unroll},
                           {"rows", rows},
                           {"task", 2 * unroll - 1},
                           {"splits", 1},
                           {"held", 0},
                           {"inner", 1}},
                          bucket, target, {dims});
      }
      check_candidates(reduce(), spec, bucket, avx512(), {dims});
    }
  const Conv narrow = convolutions[0];
  EXPECT_EQ(reduce().candidates(narrow.forward().spec, {}, avx512()).at(0).parameters.at("rows"), 7);
  for (const Conv& c : convolutions) {
    const KernelSpec spec = c.weight_gradient().spec;
    const Bucket bucket = c.images.constant() ? Bucket{} : Bucket({{"n", {1, 4}}});
    const DimMap dims = c.images.constant() ? DimMap{} : DimMap{{"n", 3}};
    for (const Target& target : {avx512(), avx2()}) {
      for (const int64_t rows : divisors(c.out(c.height)))
        for (const int64_t inner : {1, 2})
          check_loops(reduce(), spec,
                      {{"along", 1},
                       {"unroll", 1},
                       {"rows", rows},
                       {"task", inner + 1},
                       {"splits", 1},
                       {"held", 0},
                       {"inner", inner}},
                      bucket, target, {dims});
    }
  }
  const Parameters gradient =
      reduce().candidates(narrow.weight_gradient().spec, {}, avx512()).at(0).parameters;
  EXPECT_EQ(gradient.at("along"), 1);
  EXPECT_EQ(gradient.at("inner"), 2);
}

/// Every corner of the parameters at sizes below and around a vector.
TEST(Reduce, EveryParameterAtSmallSizes) {
  std::vector<Parameters> corners;
  for (const int64_t unroll : {1, 4, 8})
    for (const int64_t task : {1, 3})
      for (const int64_t splits : {1, 3}) {
        for (const int64_t rows : {1, 4})
          corners.push_back({{"along", 1},
                             {"unroll", unroll},
                             {"rows", rows},
                             {"task", task},
                             {"splits", splits},
                             {"held", 0}});
        for (const int64_t held : {0, 1, 8})
          corners.push_back({{"along", 0},
                             {"unroll", unroll},
                             {"rows", 1},
                             {"task", task},
                             {"splits", splits},
                             {"held", held}});
      }
  std::mt19937_64 random(effort::seed(5));
  const auto size = [&] { return static_cast<int64_t>(1 + random() % 9); };
  for (int64_t n = effort::cases(8, 300); n > 0; --n) {
    const int64_t a = size(), b = size(), c = n % 3 == 0 ? 16 : size();
    const std::array specs{Matmul{.m = a, .n = c, .k = b, .turned_b = true, .epilogue = true}.spec().spec,
                           middle(a, b, c, Monoid::Max)};
    for (const KernelSpec& spec : specs)
      for (const Parameters& p : corners)
        for (const Target& target : {avx512(), avx2()}) check_loops(reduce(), spec, p, {}, target, {{}});
    if (testing::Test::HasFailure()) return;
  }
}

/// Y[i,j] = sum k: X[i,k] W[j,k], with weights of any dtype.
KernelSpec against_weights(int64_t m, int64_t n, int64_t k, Dtype weights) {
  SpecBuilder s;
  const Expression i = s.axis(m), j = s.axis(n), r = s.axis(k);
  const int x = s.slot(m * k, Dtype::F32), w = s.slot(n * k, weights);
  const int sum = s.value(
      {0, 1}, {2}, Monoid::Add, {s.load(x, i * k + r), s.load(w, j * k + r)},
      [](ScalarBuilder& f, std::span<const Scalar> v) { return f.mul(v[0], f.convert(v[1], Dtype::F32)); });
  s.output(sum, i * n + j, m * n);
  return s.finish().spec;
}

/// Tiles of results that share vectors of both operands, cut at either end; a named number of shared rows.
TEST(Reduce, TilesOfFewRowsAndManyColumns) {
  for (const auto& [m, n, k] :
       {std::array<int64_t, 3>{2, 9, 40}, {3, 8, 33}, {7, 5, 16}, {8, 3, 70}, {5, 17, 5}})
    for (const int64_t across : {2, 3, 8})
      for (const int64_t rows : {1, 2, 3})
        for (const int64_t task : {1, 3})
          for (const auto& [splits, unroll] : {std::pair<int64_t, int64_t>{1, 1}, {3, 4}}) {
            const Parameters p{{"along", 1},   {"unroll", unroll}, {"rows", rows},
                               {"task", task}, {"splits", splits}, {"across", across}};
            const KernelSpec spec =
                Matmul{.m = m, .n = n, .k = k, .turned_b = true, .epilogue = true}.spec().spec;
            for (const Target& target : {avx512(), avx2()}) check_loops(reduce(), spec, p, {}, target, {{}});
          }
}

// The weights are read once for all rows, and in one stream as long as memory is what takes the time.
TEST(Reduce, FewRowsShareLargeWeights) {
  for (const Dtype dtype : {Dtype::F32, Dtype::BF16, Dtype::Q8_0, Dtype::Q4_K})
    for (const int64_t m : {2, 5, 8, 16}) {
      const Parameters p =
          best_of(reduce(), against_weights(m, 14336, 4096, dtype), {}, avx512())->parameters;
      EXPECT_GE(parameter_or(p, "across", 1), std::min<int64_t>(m, 3)) << m << ": " << to_string(p);
    }
}

TEST(Reduce, LongRowsAreReadAsTheyLie) {
  const auto first = [](const KernelSpec& spec) {
    return reduce().candidates(spec, {}, avx512()).at(0).parameters;
  };
  EXPECT_EQ(first(Matmul{.m = 1, .n = 4096, .k = 4096}.spec().spec).at("held"), 8);
  EXPECT_EQ(first(Matmul{.m = 1, .n = 4096, .k = 4096, .turned_b = true}.spec().spec).at("along"), 1);
  EXPECT_EQ(first(middle(1, 2048, 2048, Monoid::Add)).at("held"), 8);
}

// A matrix that comes from memory is one stream in either order: whole rows, one after the other.
TEST(Reduce, LargeMatricesAreReadInLongPieces) {
  for (const Dtype dtype : {Dtype::F32, Dtype::BF16}) {
    const auto chosen = [&](bool turned) {
      const KernelSpec spec =
          Matmul{.m = 1, .n = 14336, .k = 4096, .turned_b = turned, .dtype = dtype}.spec().spec;
      std::optional<Candidate> best;
      std::string name;
      for (const Schedule* s : schedules())
        if (const auto c = best_of(*s, spec, {}, avx512());
            c && (!best || c->predicted_us < best->predicted_us))
          best = c, name = s->name;
      EXPECT_EQ(name, "reduce");
      return best->parameters;
    };
    EXPECT_EQ(chosen(true).at("rows"), 1);
    EXPECT_EQ(chosen(true).at("unroll"), 4);
    const Parameters streamed = chosen(false);
    EXPECT_EQ(streamed.at("held"), 8);
    EXPECT_GE(streamed.at("task") * 32, 14336 / 2) << to_string(streamed);
  }
}

// Of a large product each row of results reads the whole right side again: such a kernel takes 30 times as long as a
// contraction, and to time one takes longer than the search may.
TEST(Reduce, RowsThatReadALargeSideAgainAreSlow) {
  constexpr double kMuchSlower = 3;
  for (const int64_t size : {2048, 4096}) {
    const KernelSpec spec = Matmul{.m = size, .n = size, .k = size}.spec().spec;
    const auto rows = best_of(reduce(), spec, {}, avx512());
    ASSERT_TRUE(rows);
    EXPECT_GT(rows->predicted_us,
              kMuchSlower * best_of(contract_schedule(), spec, {}, avx512())->predicted_us)
        << to_string(rows->parameters);
  }
}

/// Vectors along the innermost axes of the results alone; the last one of a row is cut.
TEST(Reduce, RowsOfResults) {
  for (const int64_t unroll : {1, 4})
    for (const int64_t task : {1, 3})
      for (const auto& [a, b, c] : {std::array<int64_t, 3>{3, 9, 37}, {5, 2, 16}, {40, 40, 3}})
        check_loops(
            reduce(), middle(a, b, c, Monoid::Add, Dtype::I32),
            {{"along", 0}, {"unroll", unroll}, {"rows", 1}, {"task", task}, {"splits", 1}, {"inner", 1}}, {},
            avx2(), {{}});
}

/// Y[i,j,k] = B[j] * (sum l: A[i,l,k]), with the sum itself stored as well.
TEST(Reduce, ResultsThatAreReadAlongFurtherAxes) {
  for (const bool whole : {false, true})
    for (const auto& [rows, further, columns, summed] :
         {std::array<int64_t, 4>{3, 5, 7, 9}, {1, 4, 1, 100}, {6, 2, 33, 2}}) {
      SpecBuilder s;
      const Expression i = s.axis(rows), j = s.axis(further), k = s.axis(columns), l = s.axis(summed);
      const int a = s.slot(rows * summed * columns), factor = s.slot(further);
      const int sum = s.value({0, 2}, {3}, Monoid::Add, {s.load(a, (i * summed + l) * columns + k)}, plain);
      const int scaled =
          s.value({0, 1, 2}, {}, {}, {s.read(sum), s.load(factor, j)},
                  [](ScalarBuilder& b, std::span<const Scalar> v) { return b.mul(v[0], v[1]); });
      s.output(scaled, (i * further + j) * columns + k, rows * further * columns);
      if (whole) s.output(sum, i * columns + k, rows * columns);
      const KernelSpec spec = s.finish().spec;
      for (const Target& target : {avx512(), avx2()})
        check_candidates(reduce(), spec, {}, target, {{}}, 1e-6);
    }
}

TEST(Reduce, AllElementsSplitOverTasks) {
  for (const int64_t n : {2, 31, 5000})
    check_candidates(reduce(), middle(1, n, 1, Monoid::Add), {}, avx2(), {{}});
}

/// A bias gradient: sum n, y, x: dY[n,o,y,x] where X > 0; and matrix times vector with a relu behind it.
TEST(Reduce, SeveralAxesBodiesAndEpilogues) {
  SpecBuilder s;
  const Expression o = s.axis(6), n = s.axis(5), y = s.axis(7), x = s.axis(6);
  const int dy = s.slot(5 * 6 * 42), image = s.slot(5 * 6 * 42);
  const Expression at = ((n * 6 + o) * 7 + y) * 6 + x;
  const int sum =
      s.value({0}, {1, 2, 3}, Monoid::Add, {s.load(dy, at), s.load(image, at)},
              [](ScalarBuilder& b, std::span<const Scalar> v) {
                return b.select(b.lt(b.constant(Dtype::F32, 0), v[1]), v[0], b.constant(Dtype::F32, 0));
              });
  s.output(sum, o, 6);
  check_candidates(reduce(), s.finish().spec, {}, avx512(), {{}});

  SpecBuilder v;
  const Expression i = v.axis(19), k = v.axis(45);
  const int a = v.slot(19 * 45), b = v.slot(45), c = v.slot(19);
  const int product_sum = v.value({0}, {1}, Monoid::Add, {v.load(a, i * 45 + k), v.load(b, k)}, product);
  const int relu = v.value({0}, {}, std::nullopt, {v.read(product_sum), v.load(c, i)},
                           [](ScalarBuilder& f, std::span<const Scalar> z) {
                             return f.maximum(f.add(z[0], z[1]), f.constant(Dtype::F32, 0));
                           });
  v.output(relu, i, 19);
  check_candidates(reduce(), v.finish().spec, {}, avx2(), {{}});
}

/// A max pool with padding: windows of 3 x 3 by stride 2, -inf outside.
TEST(Reduce, MasksWithFills) {
  SpecBuilder s;
  const Expression n = s.axis(3), y = s.axis(4), x = s.axis(5), u = s.axis(3), v = s.axis(3);
  const int image = s.slot(3 * 7 * 9);
  const Expression fy = y * 2 + u - 1, fx = x * 2 + v - 1;
  const int most = s.value({0, 1, 2}, {3, 4}, Monoid::Max,
                           {s.load(image, (n * 7 + fy) * 9 + fx,
                                   {{fy.gte(0) & fy.lt(7) & fx.gte(0) & fx.lt(9),
                                     Number(-std::numeric_limits<double>::infinity())}})},
                           plain);
  s.output(most, (n * 4 + y) * 5 + x, 60);
  const KernelSpec spec = s.finish().spec;
  for (const Target& target : {avx512(), avx2()}) check_candidates(reduce(), spec, {}, target, {{}});
}

TEST(Reduce, SymbolicDims) {
  const DimFacts facts{.min = 0, .max = 70};
  const Bucket bucket{{{"s", facts}}};
  const Expression s = Expression::dim("s", facts);
  const std::vector<DimMap> sizes{{{"s", 70}}, {{"s", 33}}, {{"s", 1}}, {{"s", 0}}};
  check_candidates(reduce(), middle(s, 20, 3, Monoid::Add), bucket, avx512(), sizes);
  check_candidates(reduce(), middle(3, s, 1, Monoid::Add), bucket, avx512(), sizes);
  check_candidates(reduce(), middle(3, s, 5, Monoid::Max, Dtype::I32), bucket, avx512(), sizes);
  check_candidates(reduce(), middle(2, 9, s, Monoid::Mul, Dtype::I64), bucket, avx2(), sizes);
}

}  // namespace
}  // namespace luminal::codegen
