#include <gmock/gmock.h>

#include "run.h"

// Numbers at the ends of the range: what products and norms give where a sum or a partial product leaves it.
namespace luminal::composite_test {
namespace {

class Range : public ::testing::TestWithParam<const char*> {
 protected:
  Range() { cx.set_device(GetParam()); }
  Graph cx;
};

struct Row {
  std::vector<float> values;
  std::vector<double> products;  // PyTorch 2.15
};

constexpr float kInfinite = INFINITY;

const std::vector<Row>& rows() {
  static const std::vector<Row> kRows = {
      {{2, kInfinite, 0.5F, 3}, {2, kInf, kInf, kInf}},
      {{kInfinite, 0.5F, 3, 2}, {kInf, kInf, kInf, kInf}},
      {{2, 0.5F, kInfinite, 3}, {2, 1, kInf, kInf}},
      {{2, 0.5F, 3, kInfinite}, {2, 1, 3, kInf}},
      {{-kInfinite, 2, -3, 0.5F}, {-kInf, -kInf, kInf, kInf}},
      {{kInfinite, -kInfinite, kInfinite, -1}, {kInf, -kInf, -kInf, kInf}},
      {{kInfinite, 0, 2, 3}, {kInf, kNaN, kNaN, kNaN}},
      {{0, kInfinite, 2, 3}, {0, kNaN, kNaN, kNaN}},
      {{2, 0, 3, kInfinite}, {2, 0, 0, kNaN}},
      {{1, NAN, 2, 0}, {1, kNaN, kNaN, kNaN}},
      {{kInfinite, 1e-30F, 1e-30F, 1e30F}, {kInf, kInf, kInf, kInf}},
      {{kInfinite, 1e-30F, 1e-30F, -1e-30F}, {kInf, kInf, kInf, -kInf}},
      {{1e-30F, 1e-30F, kInfinite, 2}, {1e-30, 0, kInf, kInf}},
      {{1e-30F, 1e-30F, 1e-30F, kInfinite}, {1e-30, 0, 0, kInf}},
      {{1e30F, 1e30F, 1e-30F, 1e-30F}, {1e30, kInf, 1e30, 1}},
      {{1e-30F, 1e-30F, 1e30F, 1e30F}, {1e-30, 0, 1e-30, 1}},
      {{1e30F, 1e30F, 1e30F, 0}, {1e30, kInf, kInf, 0}},
  };
  return kRows;
}

TEST_P(Range, CumulativeProductsOfEachRow) {
  for (const bool symbolic : {false, true}) {
    const GraphTensor x = cx.tensor({symbolic ? Expression("s") : Expression(4)});
    const GraphTensor products = x.cumprod(0).retrieve();
    for (const Row& row : rows()) {
      GraphTensor(x).set_dyn(row.values, {4});
      cx.execute();
      EXPECT_TRUE(near(products.data<double>(), row.products))
          << (symbolic ? "s of " : "") << ::testing::PrintToString(row.values);
    }
  }
}

TEST(RangeOfModes, CumulativeProductsOfEachRow) {
  for (const MathMode math : {MathMode::Strict, MathMode::Relaxed})
    for (const CompilationMode& mode : {CompilationMode(Fast{}), CompilationMode(Optimal{})}) {
      Graph cx;
      cx.set_device("cpu");
      cx.set_search({.math = math});
      GraphTensor x = cx.tensor({4});
      const GraphTensor products = x.cumprod(0).cast(Dtype::F64).retrieve();
      Compiled compiled = cx.compile(mode);
      for (const Row& row : rows()) {
        x.set(row.values);
        compiled();
        EXPECT_TRUE(near(products.data<double>(), row.products))
            << name(math) << " " << ::testing::PrintToString(row.values);
      }
    }
}

// The partial products of 2000 halves underflow in every dtype; the infinity before them stays one.
TEST_P(Range, AnInfinityOutlastsWhatUnderflows) {
  for (const Dtype dtype : {Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::F64}) {
    std::vector<float> values(2000, 0.5F);
    values.front() = -kInfinite;
    values.back() = -1;
    const std::vector<double> products = run(input(cx, {2000}, values).cast(dtype).cumprod(0));
    std::vector<double> wanted(2000, -kInf);
    wanted.back() = kInf;
    EXPECT_TRUE(near(products, wanted)) << name(dtype);
  }
}

// Norms and variances are right while the sum of a row and that of its squared deviations fit in f32 ...
TEST_P(Range, NormsOfRowsWhoseSumsFit) {
  const double outer = std::sqrt(1.5);
  EXPECT_TRUE(near(run(input(cx, {3}, {1e18F, 2e18F, 3e18F}).layer_norm()), {-outer, 0, outer}, 1e-5, 1e-6));
  EXPECT_TRUE(near(run(input(cx, {3}, {1e18F, 2e18F, 3e18F}).var()), {1e36}, 1e-5));
  for (const int64_t size : {1, 2}) {
    const GraphTensor great = input(cx, {size}, std::vector<float>(static_cast<size_t>(size), 1e38F));
    EXPECT_TRUE(near(run(great.layer_norm()), std::vector<double>(static_cast<size_t>(size), 0)));
    EXPECT_TRUE(near(run(great.var(0, false, 0)), {0}));
  }
}

// ... Beyond that layer_norm is NaN, where squares alone overflow 0. PyTorch 2.15 gives NaN or 0, for rows of 1e38 as for
// {1e20, 2e20, 3e20}, by how long the row is.
TEST_P(Range, NormsOfRowsWhoseSumsOverflow) {
  for (const int64_t size : {10, 64, 1000}) {
    const GraphTensor x = input(cx, {size}, std::vector<float>(static_cast<size_t>(size), 1e38F));
    EXPECT_TRUE(near(run(x.layer_norm()), std::vector<double>(static_cast<size_t>(size), kNaN))) << size;
  }
  const GraphTensor squares = input(cx, {3}, {1e20F, 2e20F, 3e20F});
  EXPECT_TRUE(near(run(squares.var()), {kInf}));
  EXPECT_TRUE(near(run(squares.layer_norm()), {0, 0, 0}));
}

// The variance of one number is 0 however great it is, along whichever axes, and that of numbers far from 0 has all its
// digits: as PyTorch's rows.
TEST_P(Range, VariancesOfGreatNumbers) {
  for (const int64_t size : {10, 64, 1000}) {
    const GraphTensor x = input(cx, {2, size, 3}, std::vector<float>(static_cast<size_t>(6 * size), 1e38F));
    for (const Axes& axes : {Axes{1}, Axes{0, 2}, Axes{0, 1, 2}, Axes{2}}) {
      for (const double v : run(x.var(axes))) EXPECT_EQ(v, 0);
      for (const double v : run(x.std(axes, false, 0))) EXPECT_EQ(v, 0);
    }
  }
  EXPECT_TRUE(near(run(input(cx, {4}, {1e7F, 1e7F + 1, 1e7F + 2, 1e7F + 3}).var()), {5.0 / 3}, 1e-6));
}

TEST_P(Range, VariancesOfNamedSizes) {
  const GraphTensor x = cx.tensor({"s", 2});
  const GraphTensor columns = x.var(0).retrieve(), rows = x.var(1).retrieve();
  GraphTensor(x).set_dyn(std::vector<float>(6, 1e38F), {3, 2});
  cx.execute();
  EXPECT_THAT(columns.data<float>(), testing::ElementsAre(0, 0));
  EXPECT_THAT(rows.data<float>(), testing::ElementsAre(0, 0, 0));
  GraphTensor(x).set_dyn(std::vector<float>{}, {0, 2});
  cx.execute();
  EXPECT_THAT(columns.data<float>(), testing::Each(testing::IsNan()));
  EXPECT_EQ(columns.data<float>().size(), 2U);
  EXPECT_TRUE(rows.data<float>().empty());
}

INSTANTIATE_TEST_SUITE_P(Devices, Range, ::testing::Values("reference", "cpu"),
                         [](const auto& device) { return std::string(device.param); });

}  // namespace
}  // namespace luminal::composite_test
