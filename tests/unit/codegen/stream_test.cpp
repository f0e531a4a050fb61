#include "codegen/schedules/stream.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "attention_specs.h"
#include "cases.h"
#include "codegen/schedules/families.h"

namespace luminal::codegen {
namespace {

using namespace test_cases;
using Mask = Attention::Mask;

constexpr double kTolerance = 2e-6;

/// The best candidate for each kind of registers, and the worst.
void check_stream(const KernelSpec& spec, const Bucket& bucket = {}, const std::vector<DimMap>& sizes = {{}},
                  double tolerance = kTolerance) {
  for (const Target& target : {avx512(), avx2()}) {
    const auto list = stream_schedule().candidates(spec, bucket, target);
    ASSERT_FALSE(list.empty()) << spec.to_string();
    for (const Candidate* c : {&list.front(), &list.back()})
      check_loops(stream_schedule(), spec, c->parameters, bucket, target, sizes, tolerance);
  }
}

TEST(Stream, FindsTheParts) {
  const KernelSpec spec = Attention{2, 5, 7, 4, 3}.spec().spec;
  const auto s = stream::stream_of(spec);
  ASSERT_TRUE(s.has_value()) << spec.to_string();
  EXPECT_EQ(s->batch, std::vector<int>{0});
  EXPECT_EQ(s->rows, std::vector<int>{1});
  EXPECT_EQ(s->inner.size(), 1U);
  ASSERT_EQ(s->folds.size(), 2U);
  EXPECT_FALSE(s->folds[0].online);
  EXPECT_TRUE(s->folds[1].online);
  ASSERT_EQ(s->columns.size(), 1U);
  EXPECT_TRUE(s->columns[0].online);
  EXPECT_FALSE(s->columns[0].read_varies);
}

TEST(Stream, TheDivisionLeavesTheSum) {
  EXPECT_EQ(
      (Attention{2, 5, 7, 4, 3}.spec().spec),
      (Attention{.heads = 2, .queries = 5, .keys = 7, .size = 4, .columns = 3, .normalise_inside = false}
           .spec()
           .spec));
}

TEST(Stream, AttentionAtRaggedSizes) {
  for (const auto& [queries, keys, size, columns] :
       {std::array{33, 70, 9, 11}, std::array{1, 65, 8, 8}, std::array{64, 64, 16, 16},
        std::array{5, 2, 3, 17}, std::array{70, 300, 5, 2}})
    check_stream(Attention{2, queries, keys, size, columns}.spec().spec);
}

/// Every mask, hidden by minus infinity and by a large number, with and without a bound on the maximum.
std::vector<KernelSpec> masked(int queries, int keys) {
  std::vector<KernelSpec> specs;
  for (const Mask mask : {Mask::Causal, Mask::Additive, Mask::Nothing})
    for (const double hidden : {-HUGE_VAL, -1e9})
      for (const bool clamped : {false, true})
        specs.push_back(Attention{.heads = 2,
                                  .queries = queries,
                                  .keys = keys,
                                  .size = 6,
                                  .columns = 5,
                                  .mask = mask,
                                  .hidden = hidden,
                                  .clamped = clamped}
                            .spec()
                            .spec);
  return specs;
}

/// Candidates of the form for few rows: each number of parts that is offered.
void check_few_rows(const KernelSpec& spec, const Bucket& bucket = {},
                    const std::vector<DimMap>& sizes = {{}}) {
  for (const Target& target : {avx512(), avx2()}) {
    int64_t most = 0;
    for (const Candidate& c : stream_schedule().candidates(spec, bucket, target)) {
      if (!c.parameters.contains("splits")) continue;
      most = std::max(most, c.parameters.at("splits"));
      check_loops(stream_schedule(), spec, c.parameters, bucket, target, sizes, kTolerance);
    }
    EXPECT_GE(most, 1) << spec.to_string();
  }
}

TEST(Stream, FewRowsAtRaggedSizes) {
  for (const auto& [queries, keys, size, columns] :
       {std::array{1, 65, 8, 8}, std::array{4, 300, 16, 33}, std::array{7, 70, 9, 11},
        std::array{5, 2, 3, 17}, std::array{3, 330, 33, 150}, std::array{2, 16, 16, 16},
        std::array{16, 64, 5, 2}})
    check_few_rows(Attention{2, queries, keys, size, columns}.spec().spec);
}

TEST(Stream, FewRowsMasked) {
  for (const KernelSpec& spec : masked(3, 150)) check_few_rows(spec);
}

TEST(Stream, FewRowsOfDoubles) {
  Attention a{2, 3, 140, 5, 4};
  a.dtype = Dtype::F64;
  check_few_rows(a.spec().spec);
}

/// A cache of any length; parts beyond its end have nothing to add.
TEST(Stream, FewRowsOfNamedLength) {
  Bucket bucket;
  bucket.facts["t"] = {.min = 1, .max = 700};
  const Expression t = Expression::dim("t", bucket.facts["t"]);
  for (const Mask mask : {Mask::None, Mask::Additive})
    check_few_rows(Attention{2, 3, t, 8, 6, mask}.spec().spec, bucket,
                   {{{"t", 1}}, {{"t", 17}}, {{"t", 256}}, {{"t", 700}}});
}

/// More rows than fill a few lanes stay with lanes along rows.
TEST(Stream, ManyRowsAreNotFew) {
  for (const Candidate& c :
       stream_schedule().candidates(Attention{2, 17, 70, 9, 11}.spec().spec, {}, avx512()))
    EXPECT_FALSE(c.parameters.contains("splits"));
}

TEST(Stream, Masks) {
  for (const KernelSpec& spec : masked(37, 75)) check_stream(spec);
}

/// sum_j (sum_e A[i,e] B[j,e]) C[j,d]; with `gradient` the weights are exp2(s - L[i]) * (s - D[j]), as those of
/// attention's gradients are.
KernelSpec chained(int64_t rows, int64_t length, int64_t size, int64_t columns, bool gradient) {
  SpecBuilder s;
  const Expression i = s.axis(rows), d = s.axis(columns), j = s.axis(length), e = s.axis(size);
  const int a = s.slot(rows * size), c = s.slot(length * size), v = s.slot(length * columns),
            l = s.slot(rows), delta = s.slot(length);
  const int inner =
      s.value({0, 2}, {3}, Monoid::Add, {s.load(a, i * size + e), s.load(c, j * size + e)}, product);
  const int y = s.value(
      {0, 1}, {2}, Monoid::Add, {s.read(inner), s.load(v, j * columns + d), s.load(l, i), s.load(delta, j)},
      [&](ScalarBuilder& b, std::span<const Scalar> in) {
        if (!gradient) return b.mul(in[0], in[1]);
        const Scalar p = math::exp2(b, b.mul(b.sub(in[0], in[2]), b.constant(Dtype::F32, 0.01)));
        return b.mul(b.mul(p, b.sub(in[0], in[3])), in[1]);
      });
  s.output(y, i * columns + d, rows * columns);
  return s.finish().spec;
}

TEST(Stream, ChainedContractions) {
  for (const bool gradient : {false, true})
    for (const auto& [rows, length] : {std::pair{37, 75}, std::pair{16, 64}, std::pair{3, 9}})
      check_stream(chained(rows, length, 7, 10, gradient), {}, {{}}, gradient ? 3e-5 : 0);  // terms cancel
}

/// (s * (t * 1e-30)) * v of two inner products: s * t alone might overflow. In ((s * v) * t) both sides are mixed.
TEST(Stream, ProductsKeepTheirOrder) {
  const auto spec = [](bool is_mixed) {
    SpecBuilder s;
    const Expression i = s.axis(5), d = s.axis(3), j = s.axis(7), e = s.axis(4);
    const int a = s.slot(20), b = s.slot(28), c = s.slot(20), v = s.slot(21);
    const auto inner = [&](int left) {
      return s.read(
          s.value({0, 2}, {3}, Monoid::Add, {s.load(left, i * 4 + e), s.load(b, j * 4 + e)}, product));
    };
    const int y = s.value({0, 1}, {2}, Monoid::Add, {inner(a), inner(c), s.load(v, j * 3 + d)},
                          [&](ScalarBuilder& f, std::span<const Scalar> in) {
                            if (is_mixed) return f.mul(f.mul(in[0], in[2]), in[1]);
                            const Scalar small = f.mul(in[1], f.constant(Dtype::F32, 1e-30));
                            return f.mul(f.mul(in[0], small), in[2]);
                          });
    s.output(y, i * 3 + d, 15);
    return s.finish().spec;
  };
  const auto found = stream::stream_of(spec(false));
  ASSERT_TRUE(found);
  ASSERT_EQ(found->columns.size(), 1U);
  const ScalarFunction& weight = found->columns[0].weight;
  const ScalarNode& root = weight[weight.outputs()[0]];
  ASSERT_EQ(root.op, ScalarOp::Mul);
  const auto is_scaled = [&](Scalar s) {
    const ScalarNode& n = weight[s];
    return n.op == ScalarOp::Mul &&
           (weight[n.operands[0]].op == ScalarOp::Constant || weight[n.operands[1]].op == ScalarOp::Constant);
  };
  EXPECT_NE(is_scaled(root.operands[0]), is_scaled(root.operands[1]));
  EXPECT_FALSE(stream::stream_of(spec(true)));
  check_stream(spec(false));
}

/// max_j and log sum_j exp of scores that are products: a cross entropy over classes without logits in memory.
TEST(Stream, LogSumOfExponentialsOfProducts) {
  SpecBuilder s;
  const int64_t rows = 37, classes = 150, size = 6;
  const Expression i = s.axis(rows), j = s.axis(classes), e = s.axis(size);
  const int x = s.slot(rows * size), w = s.slot(classes * size);
  const int logit =
      s.value({0, 1}, {2}, Monoid::Add, {s.load(x, i * size + e), s.load(w, j * size + e)}, product);
  const int m = s.value({0}, {1}, Monoid::Max, {s.read(logit)},
                        [](ScalarBuilder&, std::span<const Scalar> in) { return in[0]; });
  const int l =
      s.value({0}, {1}, Monoid::Add, {s.read(logit), s.read(m)},
              [](ScalarBuilder& b, std::span<const Scalar> in) { return math::exp(b, b.sub(in[0], in[1])); });
  const int y =
      s.value({0}, {}, std::nullopt, {s.read(l), s.read(m)},
              [](ScalarBuilder& b, std::span<const Scalar> in) { return b.add(math::log(b, in[0]), in[1]); });
  s.output(y, i, rows);
  check_stream(s.finish().spec);
}

TEST(Stream, NamedDims) {
  Bucket bucket;
  bucket.facts["s"] = {.min = 1, .max = 80};
  bucket.facts["t"] = {.min = 1, .max = 80};
  const Expression s = Expression::dim("s", bucket.facts["s"]), t = Expression::dim("t", bucket.facts["t"]);
  check_stream(Attention{2, s, t, 8, 6, Mask::Causal}.spec().spec, bucket,
               {{{"s", 1}, {"t", 1}}, {{"s", 17}, {"t", 80}}, {{"s", 80}, {"t", 33}}});
}

TEST(Stream, DoublePrecision) {
  Attention a{2, 9, 40, 5, 4};
  a.dtype = Dtype::F64;
  check_stream(a.spec().spec);
}

TEST(Stream, StrictSpecsAreNotMarked) {
  const KernelSpec relaxed = Attention{2, 5, 7, 4, 3}.spec().spec;
  const KernelSpec strict = kernel::canonical(relaxed.parts(), {}, MathMode::Strict).spec;
  EXPECT_TRUE(std::ranges::any_of(relaxed.values(), &kernel::Value::online));
  EXPECT_TRUE(std::ranges::none_of(strict.values(), &kernel::Value::online));
  EXPECT_NE(relaxed, strict);
  EXPECT_TRUE(stream_schedule().candidates(strict, {}, avx512()).empty());
  EXPECT_EQ(KernelSpec::parse_json(relaxed.to_json()), relaxed);
}

}  // namespace
}  // namespace luminal::codegen
