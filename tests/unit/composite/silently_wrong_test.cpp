#include "run.h"

// What tensor libraries have been seen to get wrong without a word, one test each.
namespace luminal::composite_test {
namespace {

TEST(SilentlyWrong, BiasOnASquareInput) {
  Graph cx;
  const GraphTensor x = cx.zeros({3, 3}), bias = input(cx, {3}, {1, 2, 3});
  EXPECT_TRUE(near(run(x + bias), {1, 2, 3, 1, 2, 3, 1, 2, 3}));
  EXPECT_TRUE(near(run(x + bias.unsqueeze(1)), {1, 1, 1, 2, 2, 2, 3, 3, 3}));
  const GraphTensor b = cx.tensor({"s"}), square = cx.tensor({"s", "s"});
  const GraphTensor sum = (square * 0 + b).retrieve();
  for (const int64_t s : {1, 2, 4}) {
    std::vector<float> values = random_values(s, 1);
    GraphTensor(b).set_dyn(values, {s});
    GraphTensor(square).set_dyn(random_values(s * s, 2), {s, s});
    cx.execute();
    for (int64_t i = 0; i < s * s; ++i)
      EXPECT_EQ(sum.data<float>()[static_cast<size_t>(i)], values[static_cast<size_t>(i % s)]);
  }
}

TEST(SilentlyWrong, SliceOfASlice) {
  Graph cx;
  const GraphTensor x = cx.arange(10, Dtype::F32);
  EXPECT_TRUE(near(run(x.slice({{2, 9}}).slice({{1, 5}}).slice({{-2, INT64_MAX}})), {5, 6}));
  EXPECT_TRUE(near(run(x.slice_along(0, 1, 10, 2).slice_along(0, 1, 4, 2)), {3, 7}));
}

TEST(SilentlyWrong, SliceAndPadAfterPermute) {
  Graph cx;
  const GraphTensor x = cx.arange(6, Dtype::F32).reshape({2, 3}).permute({1, 0});
  EXPECT_TRUE(near(run(x.slice({{1, 3}, {0, 2}})), {1, 4, 2, 5}));
  EXPECT_TRUE(near(run(x.slice({{1, 2}}).pad({{1, 0}, {0, 1}}, 9)), {9, 9, 9, 1, 4, 9}));
  EXPECT_TRUE(near(run(x.pad({{0, 1}}).permute({1, 0}).reshape({-1})), {0, 1, 2, 0, 3, 4, 5, 0}));
}

TEST(SilentlyWrong, PadOnBothSidesOfOneDim) {
  Graph cx;
  EXPECT_TRUE(near(run(cx.ones({2}).pad({{1, 2}}) + 1), {1, 2, 2, 1, 1}));
  EXPECT_TRUE(near(run(cx.ones({2}).pad({{1, 1}}).exp()), {1, std::exp(1.0), std::exp(1.0), 1}, 1e-6));
}

TEST(SilentlyWrong, PadByZeroThenByMinusInfinity) {
  Graph cx;
  const GraphTensor x = input(cx, {2}, {-5, -7}).pad({{1, 0}}, 0).pad({{1, 1}}, -INFINITY);
  EXPECT_TRUE(near(run(x), {-kInf, 0, -5, -7, -kInf}));
  EXPECT_TRUE(near(run(x.max()), {0}));
}

TEST(SilentlyWrong, WrongCountsAreErrors) {
  Graph cx;
  EXPECT_THROW((void)cx.zeros({2, 3}).reshape({7}), ShapeError);
  EXPECT_THROW((void)cx.zeros({2, 3}).matmul(cx.zeros({2, 3})), ShapeError);
  EXPECT_THROW((void)(cx.zeros({2, 3}) + cx.zeros({2})), ShapeError);
  EXPECT_THROW((void)run(cx.tensor({2}) + 1), Error);  // an input that is not set
  EXPECT_THROW((void)(cx.zeros({"s"}) + cx.zeros({"t"})), ShapeError);
}

TEST(SilentlyWrong, InfinitiesAndNaN) {
  Graph cx;
  const GraphTensor x = input(cx, {4}, {-INFINITY, INFINITY, NAN, -2.5});
  EXPECT_TRUE(near(run(x.relu()), {0, kInf, kNaN, 0}));
  EXPECT_TRUE(near(run(x.abs()), {kInf, kInf, kNaN, 2.5}));
  EXPECT_TRUE(near(run(x.clip(-1, 1)), {-1, 1, kNaN, -1}));
  EXPECT_TRUE(near(run(x.max()), {kNaN}));
  EXPECT_TRUE(near(run(x.min()), {kNaN}));
  EXPECT_TRUE(near(run(x.maximum(0)), {0, kInf, kNaN, 0}));
  EXPECT_TRUE(near(run(x.eq(x)), {1, 1, 0, 1}));
  EXPECT_TRUE(near(run(x.ne(x)), {0, 0, 1, 0}));
  EXPECT_TRUE(near(run(x.le(x)), {1, 1, 0, 1}));
  EXPECT_TRUE(near(run(x.floor()), {-kInf, kInf, kNaN, -3}));
  EXPECT_TRUE(near(run(x.softplus()), {0, kInf, kNaN, std::log1p(std::exp(-2.5))}, 1e-6));
}

TEST(SilentlyWrong, PowersOfNegativeBases) {
  Graph cx;
  const GraphTensor x = input(cx, {3}, {-2, -0.5, 3});
  EXPECT_TRUE(near(run(x.pow(3)), {-8, -0.125, 27}));
  EXPECT_TRUE(near(run(x.pow(cx.full({3}, 5))), {-32, -0.03125, 243}));
  EXPECT_TRUE(near(run(x.pow(0.5)), {kNaN, kNaN, std::sqrt(3.0)}));
  EXPECT_TRUE(near(run(pow(-2, cx.arange(4, Dtype::F32))), {1, -2, 4, -8}));
}

TEST(SilentlyWrong, AccurateFunctionsAtTheirHardPlaces) {
  Graph cx;
  const GraphTensor tiny = input(cx, {3}, {1e-20F, -3e-8F, 1e-4F}), large = input(cx, {2}, {1e6F, 3e10F});
  EXPECT_TRUE(near(run(tiny.tanh()), {1e-20, -3e-8, std::tanh(1e-4)}, 1e-6));
  EXPECT_TRUE(near(run(large.cos()), {std::cos(1e6), std::cos(static_cast<double>(3e10F))}, 1e-6));
  EXPECT_TRUE(near(run(tiny.log1p()), {1e-20, -3e-8, std::log1p(1e-4)}, 1e-6));
  EXPECT_TRUE(near(run(tiny.expm1()), {1e-20, -3e-8, std::expm1(1e-4)}, 1e-6));
}

TEST(SilentlyWrong, ProductsAndRunningMaximaOfNegatives) {
  Graph cx;
  const GraphTensor x = input(cx, {4}, {-4, -3, -5, -1});
  EXPECT_TRUE(near(run(x.prod()), {60}));
  EXPECT_TRUE(near(run(x.slice({{0, 3}}).prod()), {-60}));
  EXPECT_TRUE(near(run(x.cummax(0)), {-4, -3, -3, -1}));
  EXPECT_TRUE(near(run(x.max()), {-1}));
}

TEST(SilentlyWrong, IntegersBeyondTheDigitsOfFloats) {
  Graph cx;
  const int64_t odd24 = (1 << 24) + 1, odd53 = (int64_t{1} << 53) + 1;
  const GraphTensor x = cx.tensor({2}, Dtype::I64).set(std::vector<int64_t>{odd24, odd53});
  EXPECT_EQ(run<int64_t>(x * 3 - x), (std::vector<int64_t>{2 * odd24, 2 * odd53}));
  EXPECT_EQ(run<int64_t>(x.sum()), (std::vector<int64_t>{odd24 + odd53}));
  EXPECT_EQ(run<int64_t>(x.gather(cx.tensor({1}, Dtype::I64).set({1}))), (std::vector<int64_t>{odd53}));
  EXPECT_EQ(run<int64_t>(concat({x, x}, 0).max()), (std::vector<int64_t>{odd53}));
  EXPECT_EQ(run<int64_t>(cx.constant(odd53, Dtype::I64) + x),
            (std::vector<int64_t>{odd24 + odd53, 2 * odd53}));
}

TEST(SilentlyWrong, DimsOfSizeZero) {
  Graph cx;
  const GraphTensor x = cx.tensor({"s", 3});
  const GraphTensor total = x.sum(0).retrieve(), product = x.matmul(cx.ones({3, 2})).retrieve(),
                    joined = concat({x, cx.ones({1, 3})}, 0).retrieve(), soft = x.softmax().retrieve();
  for (const int64_t s : {2, 0, 1}) {
    GraphTensor(x).set_dyn(std::vector<float>(static_cast<size_t>(s * 3), 1), {s, 3});
    cx.execute();
    const auto size = static_cast<size_t>(s);
    EXPECT_TRUE(near(total.data<double>(), std::vector<double>(3, static_cast<double>(s))));
    EXPECT_TRUE(near(product.data<double>(), std::vector<double>(size * 2, 3)));
    EXPECT_TRUE(near(joined.data<double>(), std::vector<double>(size * 3 + 3, 1)));
    EXPECT_TRUE(near(soft.data<double>(), std::vector<double>(size * 3, 1.0 / 3), 1e-6));
  }
}

TEST(SilentlyWrong, OneViewWithSeveralConsumers) {
  Graph cx;
  const GraphTensor x = cx.arange(6, Dtype::F32).reshape({2, 3});
  const GraphTensor view = x.t().slice({{1, 3}});
  const GraphTensor sum = view.sum(1).retrieve(), shifted = (view + 1).retrieve(),
                    flipped = (view.flip(0) * 1).retrieve();
  cx.execute();
  EXPECT_TRUE(near(sum.data<double>(), {5, 7}));
  EXPECT_TRUE(near(shifted.data<double>(), {2, 5, 3, 6}));
  EXPECT_TRUE(near(flipped.data<double>(), {2, 5, 1, 4}));
}

TEST(SilentlyWrong, GradientsThroughViews) {
  Graph cx;
  const GraphTensor x = input(cx, {4}, {1, 2, 3, 4}), w = input(cx, {3}, {1, 10, 100});
  EXPECT_TRUE(near(slope(cx, x, x.slice({{1, 4}}) * w), {0, 1, 10, 100}));
  EXPECT_TRUE(near(slope(cx, w, w.pad({{1, 0}}) * x), {2, 3, 4}));
  EXPECT_TRUE(near(slope(cx, w, concat({w, w}, 0) * concat({x, x.slice({{0, 2}})}, 0)), {5, 3, 5}));
  EXPECT_TRUE(near(slope(cx, x, x.pool_last_dim(3).matmul(w)), {1, 11, 110, 100}));  // overlapping windows
  EXPECT_TRUE(near(slope(cx, x, x.pool_last_dim(2, 1, 2) * 2), {2, 2, 2, 2}));
  const GraphTensor index = cx.tensor({3}, Dtype::I64).set({3, 0, 3});
  EXPECT_TRUE(near(slope(cx, x, x.gather(index) * w), {10, 0, 0, 101}));
}

TEST(SilentlyWrong, MaxPoolOfAValueUsedElsewhere) {
  Graph cx;
  const GraphTensor x = input(cx, {1, 1, 2, 2}, {1, 4, 3, 2});
  const GraphTensor h = x * 2;
  EXPECT_TRUE(near(slope(cx, x, max_pool2d(h) * 10 + (h * h).sum()), {8, 52, 24, 16}));
}

TEST(SilentlyWrong, RowsThatAreMaskedWhole) {
  Graph cx;
  const GraphTensor x = input(cx, {2, 2}, {-INFINITY, -INFINITY, 0, 0});
  EXPECT_TRUE(near(run(x.softmax()), {kNaN, kNaN, 0.5, 0.5}));  // as in PyTorch: 0 / 0
  EXPECT_TRUE(near(run(x.logsumexp(1)), {-kInf, std::log(2.0)}));
  EXPECT_TRUE(near(slope(cx, x, x.logsumexp(1)), {0, 0, 0.5, 0.5}));  // and finite
  const GraphTensor q = input(cx, {2, 2}, {1, 2, 3, 4}), v = input(cx, {2, 1}, {5, 9});
  const GraphTensor mask = cx.tensor({2, 2}, Dtype::Bool).set(std::vector<bool>{false, false, true, false});
  const GraphTensor y = attention(q, q, v, mask);
  EXPECT_TRUE(near(run(y), {0, 5}));
  EXPECT_TRUE(near(slope(cx, v, y), {1, 0}));
  EXPECT_TRUE(near(slope(cx, q, y), {0, 0, 0, 0}));
  const GraphTensor bias = input(cx, {2, 2}, {-INFINITY, -INFINITY, 0, -INFINITY});
  EXPECT_TRUE(near(run(attention(q, q, v, bias)), {0, 5}));
  EXPECT_TRUE(near(slope(cx, q, attention(q, q, v, bias)), {0, 0, 0, 0}));
}

TEST(SilentlyWrong, SoftmaxGradientPassesTheMaximumBy) {
  Graph cx;
  const GraphTensor x = input64(cx, {3}, {3, 1, 3}), w = input64(cx, {3}, {1, 2, 4});
  const double a = std::exp(3), b = std::exp(1), total = 2 * a + b;
  const std::vector<double> p{a / total, b / total, a / total};
  const double mean = p[0] + 2 * p[1] + 4 * p[2];
  EXPECT_TRUE(
      near(slope(cx, x, x.softmax() * w), {p[0] * (1 - mean), p[1] * (2 - mean), p[2] * (4 - mean)}, 1e-13));
  EXPECT_TRUE(near(slope(cx, x, x.logsumexp(0)), p, 1e-13));
}

TEST(SilentlyWrong, GradientsOfGradients) {
  Graph cx;
  const GraphTensor x = input64(cx, {3}, {-1.5, 0.5, 2});
  const GraphTensor y = (x.pow(3) + x.sigmoid() + x.exp() * x).sum();
  const GraphTensor first = cx.run_pass(Autograd({x}, y)).at(0);
  const GraphTensor second = cx.run_pass(Autograd({x}, first.sum())).at(0);
  std::vector<double> wanted;
  for (const double v : {-1.5, 0.5, 2.0}) {
    const double s = 1 / (1 + std::exp(-v));
    wanted.push_back(6 * v + s * (1 - s) * (1 - 2 * s) + std::exp(v) * (v + 2));
  }
  EXPECT_TRUE(near(run(second), wanted, 1e-12));
}

TEST(SilentlyWrong, IntegerSimplificationWithNegativesAndFloors) {
  Graph cx;
  const Expression z = Expression::flat_index(), x = z - 4;
  const GraphTensor doubled = cx.iota((x * 2) / 2, {8}), halved = cx.iota(x / 2 * 2, {8}),
                    remainder = cx.iota(x % -3, {8}), odd = cx.iota((x * 2 + 1) / 2, {8});
  EXPECT_TRUE(near(run(doubled), {-4, -3, -2, -1, 0, 1, 2, 3}));
  EXPECT_TRUE(near(run(halved), {-4, -4, -2, -2, 0, 0, 2, 2}));
  EXPECT_TRUE(near(run(remainder), {-1, 0, -2, -1, 0, -2, -1, 0}));
  EXPECT_TRUE(near(run(odd), {-4, -3, -2, -1, 0, 1, 2, 3}));
}

}  // namespace
}  // namespace luminal::composite_test
