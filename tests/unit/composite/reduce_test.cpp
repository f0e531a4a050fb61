#include "run.h"

// Reductions, cumulative ops, norms and rows, against loops or PyTorch's documented results.
namespace luminal::composite_test {
namespace {

TEST(Reduce, OverEveryChoiceOfAxes) {
  const std::vector<float> values = random_values(24, 1);
  Graph cx;
  const GraphTensor x = input(cx, {2, 3, 4}, values);
  for (unsigned set = 0; set < 8; ++set) {
    std::vector<int> axes;
    for (int axis = 0; axis < 3; ++axis)
      if (set >> axis & 1U) axes.push_back(axis - 3);
    std::vector<double> sums(24, 0), most(24, -kInf), least(24, kInf), products(24, 1);
    size_t outputs = 0;
    for (size_t i = 0; i < 24; ++i) {
      const std::array<size_t, 3> at{i / 12, i / 4 % 3, i % 4}, sizes{2, 3, 4};
      size_t place = 0;
      for (unsigned axis = 0; axis < 3; ++axis)
        if (!(set >> axis & 1U)) place = place * sizes[axis] + at[axis];
      outputs = std::max(outputs, place + 1);
      sums[place] += values[i];
      products[place] *= values[i];
      most[place] = std::max(most[place], static_cast<double>(values[i]));
      least[place] = std::min(least[place], static_cast<double>(values[i]));
    }
    for (auto* list : {&sums, &most, &least, &products}) list->resize(outputs);
    std::vector<double> means = sums;
    for (double& mean : means) mean /= 24.0 / static_cast<double>(outputs);
    EXPECT_TRUE(near(run(x.sum(axes)), sums, 1e-5, 1e-6));
    EXPECT_TRUE(near(run(x.mean(axes)), means, 1e-5, 1e-6));
    EXPECT_TRUE(near(run(x.max(axes)), most));
    EXPECT_TRUE(near(run(x.min(axes)), least));
    EXPECT_TRUE(near(run(x.prod(axes)), products, 1e-5));
    EXPECT_EQ(x.sum(axes, true).rank(), 3);
  }
  EXPECT_EQ(x.sum().rank(), 0);
}

TEST(Reduce, ThreeSizesOfOneGraph) {
  Graph cx;
  const GraphTensor x = cx.tensor({"s", 3});
  const GraphTensor mean = x.mean(0).retrieve(), var = x.var(0).retrieve(), top = x.argmax(0).retrieve(),
                    soft = x.softmax(0).retrieve(), lse = x.logsumexp(0).retrieve();
  for (const int64_t size : {2, 5, 17}) {
    const std::vector<float> values = random_values(size * 3, 7);
    GraphTensor(x).set_dyn(values, {size, 3});
    cx.execute();
    for (size_t column = 0; column < 3; ++column) {
      double sum = 0, squares = 0, exponentials = 0, most = -kInf;
      int64_t place = 0;
      for (int64_t i = 0; i < size; ++i) {
        const double v = values[static_cast<size_t>(i) * 3 + column];
        sum += v;
        exponentials += std::exp(v);
        if (v > most) place = i;
        most = std::max(most, v);
      }
      const double n = static_cast<double>(size);
      for (int64_t i = 0; i < size; ++i)
        squares += std::pow(values[static_cast<size_t>(i) * 3 + column] - sum / n, 2);
      EXPECT_NEAR(mean.data<double>()[column], sum / n, 1e-6);
      EXPECT_NEAR(var.data<double>()[column], squares / (n - 1), 1e-5);
      EXPECT_EQ(top.data<int64_t>()[column], place);
      EXPECT_NEAR(soft.data<double>()[column], std::exp(values[column]) / exponentials, 1e-6);
      EXPECT_NEAR(lse.data<double>()[column], std::log(exponentials), 1e-6);
    }
  }
}

TEST(Reduce, VarianceAndDeviation) {
  Graph cx;
  const GraphTensor x = input(cx, {3}, {1, 2, 4});
  EXPECT_TRUE(near(run(x.var()), {7.0 / 3}));
  EXPECT_TRUE(near(run(x.var({}, false, 0)), {14.0 / 9}));
  EXPECT_TRUE(near(run(x.std()), {std::sqrt(7.0 / 3)}));
  EXPECT_TRUE(near(run(input(cx, {1}, {5}).var()), {kNaN}));
}

TEST(Reduce, AnyAndAll) {
  Graph cx;
  const GraphTensor x = input(cx, {3, 2}, {0, 0, 0, NAN, 1, 2});
  EXPECT_TRUE(near(run(x.any(1)), {0, 1, 1}));
  EXPECT_TRUE(near(run(x.all(1)), {0, 0, 1}));
  EXPECT_TRUE(near(run(x.gt(0).max(1)), {0, 0, 1}));
  EXPECT_TRUE(near(run(x.gt(0).min(1)), {0, 0, 1}));
}

TEST(Reduce, ArgmaxTakesTheFirstAndNaNFirst) {
  Graph cx;
  const GraphTensor x = input(cx, {2, 4}, {1, 3, 3, 2, 1, NAN, INFINITY, NAN});
  EXPECT_EQ(run<int64_t>(x.argmax(1)), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(run<int64_t>(x.argmin(1)), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(x.argmax(-1, true).dims(), (Shape{2, 1}));
  EXPECT_EQ(run<int64_t>(input(cx, {2}, {-INFINITY, -INFINITY}).argmax(0)), (std::vector<int64_t>{0}));
}

TEST(Reduce, Norms) {
  Graph cx;
  const GraphTensor x = input(cx, {2, 2}, {3, -4, 0, 0});
  EXPECT_TRUE(near(run(x.norm(2, 1)), {5, 0}));
  EXPECT_TRUE(near(run(x.norm(1, 1)), {7, 0}));
  EXPECT_TRUE(near(run(x.norm(3, 1)), {std::cbrt(91.0), 0}));
  EXPECT_TRUE(near(run(x.norm(0, 1)), {2, 0}));
  EXPECT_TRUE(near(run(x.norm(INFINITY, 1)), {4, 0}));
  EXPECT_TRUE(near(run(x.norm(-INFINITY, 1)), {3, 0}));
  EXPECT_TRUE(near(slope(cx, x, x.norm(2, 1)), {0.6, -0.8, 0, 0}));  // 0 at the origin, as in PyTorch
  EXPECT_TRUE(near(run(x.normalize()), {0.6, -0.8, 0, 0}));
  EXPECT_TRUE(near(run(input(cx, {2}, {NAN, 1}).norm()), {kNaN}));
}

TEST(Reduce, Normalisations) {
  const std::vector<float> values = random_values(12, 3, -2, 5);
  Graph cx;
  const GraphTensor x = input(cx, {3, 4}, values);
  std::vector<double> layer, rms, centered;
  for (size_t row = 0; row < 3; ++row) {
    double mean = 0, squares = 0, deviations = 0;
    for (size_t i = 0; i < 4; ++i) mean += values[row * 4 + i] / 4;
    for (size_t i = 0; i < 4; ++i) squares += std::pow(values[row * 4 + i], 2) / 4;
    for (size_t i = 0; i < 4; ++i) deviations += std::pow(values[row * 4 + i] - mean, 2) / 4;
    for (size_t i = 0; i < 4; ++i) {
      const double v = values[row * 4 + i];
      layer.push_back((v - mean) / std::sqrt(deviations + 1e-5));
      rms.push_back(v / std::sqrt(squares + 1e-6));
      centered.push_back(v - mean);
    }
  }
  EXPECT_TRUE(near(run(x.layer_norm()), layer, 1e-5, 1e-6));
  EXPECT_TRUE(near(run(x.mean_norm().std_norm()), layer, 1e-5, 1e-6));
  EXPECT_TRUE(near(run(x.rms_norm()), rms, 1e-5));
  EXPECT_TRUE(near(run(x.mean_norm()), centered, 1e-5, 1e-6));
  EXPECT_TRUE(near(run(x.flatten().layer_norm()), run(x.layer_norm({0, 1})), 1e-6));
}

TEST(Reduce, SoftmaxAtTheExtremes) {
  Graph cx;
  const GraphTensor x = input(cx, {4, 2}, {1000, 999, -1000, -INFINITY, 0, -1e30F, 1e30F, 1e30F});
  const double e = std::exp(-1.0);
  EXPECT_TRUE(near(run(x.softmax()), {1 / (1 + e), e / (1 + e), 1, 0, 1, 0, 0.5, 0.5}));
  EXPECT_TRUE(near(run(x.log_softmax()),
                   {-std::log1p(e), -1 - std::log1p(e), 0, -kInf, 0, -1e30, std::log(0.5), std::log(0.5)}));
  EXPECT_TRUE(near(run(x.logsumexp(1)), {1000 + std::log1p(e), -1000, 0, 1e30}));
  const GraphTensor y = input(cx, {2, 2, 2}, random_values(8, 5));
  EXPECT_TRUE(near(run(y.softmax({0, 2}).sum({0, 2})), {1, 1}));  // several axes at once
}

TEST(Reduce, EmptyAxes) {
  Graph cx;
  const GraphTensor x = cx.zeros({2, 0});
  EXPECT_TRUE(near(run(x.sum(1)), {0, 0}));
  EXPECT_TRUE(near(run(x.prod(1)), {1, 1}));
  EXPECT_TRUE(near(run(x.max(1)), {-kInf, -kInf}));
  EXPECT_TRUE(near(run(x.min(1)), {kInf, kInf}));
  EXPECT_TRUE(near(run(x.mean(1)), {kNaN, kNaN}));
  EXPECT_TRUE(near(run(x.any(1)), {0, 0}));
  EXPECT_TRUE(near(run(x.all(1)), {1, 1}));
  EXPECT_TRUE(near(run(x.logsumexp(1)), {-kInf, -kInf}));
  EXPECT_TRUE(near(run(x.softmax(1)), {}));
  EXPECT_TRUE(near(run(x.cumsum(1)), {}));
  EXPECT_TRUE(near(run(x.sum(0)), {}));
}

// --- Cumulative ops, along axes of known and unknown size

std::vector<double> scanned(const std::vector<float>& values, size_t inner, char what) {
  std::vector<double> result(values.begin(), values.end());
  for (size_t i = inner; i < result.size(); ++i) {
    const double before = result[i - inner];
    if (what == '+') result[i] += before;
    if (what == '*') result[i] *= before;
    if (what == 'm')
      result[i] = std::isnan(before) || std::isnan(result[i]) ? kNaN : std::max(before, result[i]);
  }
  return result;
}

TEST(Scan, AlongKnownAndUnknownSizes) {
  Graph cx;
  const GraphTensor x = cx.tensor({"s", 2});
  const GraphTensor bounded = cx.tensor({Expression::dim("t", {.min = 1, .max = 300}), 2});
  std::vector<std::array<GraphTensor, 2>> results;
  for (const GraphTensor& from : {x, bounded})
    for (const auto& scan : {&GraphTensor::cumsum, &GraphTensor::cummax, &GraphTensor::cumprod})
      results.push_back({(from.*scan)(0, Where::current()).retrieve(), from});
  for (const int64_t size : {1, 5, 128, 129, 300}) {
    const std::vector<float> values = random_values(size * 2, static_cast<uint32_t>(size), -1.02F, -0.9F);
    GraphTensor(x).set_dyn(values, {size, 2});
    GraphTensor(bounded).set_dyn(values, {size, 2});
    cx.execute();
    for (size_t i = 0; i < results.size(); ++i)
      EXPECT_TRUE(near(results[i][0].data<double>(), scanned(values, 2, "+m*"[i % 3]), 1e-4))
          << "scan " << "+m*"[i % 3] << " of size " << size << (i < 3 ? "" : " with a bound");
    const GraphTensor fixed = input(cx, {size, 2}, values);
    EXPECT_TRUE(near(run(fixed.cumsum(0)), scanned(values, 2, '+'), 1e-4));
    EXPECT_TRUE(near(run(fixed.cumprod(-2)), scanned(values, 2, '*'), 1e-4));
  }
}

TEST(Scan, MaximaOfNegativesAndNaN) {
  Graph cx;
  const GraphTensor x = input(cx, {5}, {-3, -5, -1, NAN, 2});
  EXPECT_TRUE(near(run(x.cummax(0)), {-3, -3, -1, kNaN, kNaN}));
  EXPECT_TRUE(near(run(cx.tensor({3}, Dtype::I32).set({-7, -9, -2}).cummax(0)), {-7, -7, -2}));
  EXPECT_TRUE(near(run(input(cx, {3}, {1, INFINITY, 2}).cumsum(0)), {1, kInf, kInf}));
}

// The slopes of x + 0 y are those of a loop: d cumprod has no division, so zeros are no trouble.
TEST(Scan, Gradients) {
  for (const bool symbolic : {false, true}) {
    Graph cx;
    const Expression size = symbolic ? Expression("s") : Expression(4);
    const GraphTensor x = cx.tensor({size}).set(std::vector<float>{1, 3, 3, 2});
    const GraphTensor z = cx.tensor({size}).set(std::vector<float>{2, 0, 5, 0});
    EXPECT_TRUE(near(slope(cx, x, x.cumsum(0)), {4, 3, 2, 1}));
    EXPECT_TRUE(near(slope(cx, x, x.cummax(0)), {1, 1, 2, 0}));  // the latest of equals, as in PyTorch
    EXPECT_TRUE(near(slope(cx, z, z.cumprod(0)), {1, 12, 0, 0}));
  }
}

}  // namespace
}  // namespace luminal::composite_test
