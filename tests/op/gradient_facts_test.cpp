#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "luminal/autograd.h"
#include "luminal/error.h"
#include "luminal/graph.h"
#include "luminal/ops.h"

/// Gradients at ties, zeros and repeated positions, where differences say nothing. Literals are PyTorch's
/// results (torch.maximum, torch.amax, torch.prod, torch.pow) or derived by hand where that is said.
namespace luminal {
namespace {

using Values = std::vector<double>;

class GradientFacts : public testing::Test {
 protected:
  GradientFacts() { cx.set_device("reference"); }

  GraphTensor input(std::vector<int64_t> dims, const Values& values) {
    GraphTensor tensor = cx.tensor(Shape(dims.begin(), dims.end()), Dtype::F64);
    tensor.set(TensorData::of<double>(dims, values));
    return tensor;
  }
  std::vector<Values> gradients(const std::vector<GraphTensor>& params, const GraphTensor& loss) {
    std::vector<GraphTensor> found = cx.run_pass(Autograd(params, loss));
    retrieve(found);
    cx.execute();
    std::vector<Values> result;
    for (const GraphTensor& gradient : found) result.push_back(gradient.data<double>());
    return result;
  }
  GraphTensor max_over(const GraphTensor& x, std::vector<int64_t> axes, const std::string& ties) {
    return cx.add_op(kMaxReduce).input(x).attribute("axes", std::move(axes)).attribute("ties", ties).finish();
  }
  GraphTensor max_of(const GraphTensor& a, const GraphTensor& b, const std::string& ties) {
    return cx.add_op(kMax).input(a).input(b).attribute("ties", ties).finish();
  }
  Graph cx;
};

TEST_F(GradientFacts, MaximumSplitsTiesAndFirstDoesNot) {
  const GraphTensor a = input({3}, {1, 2, 2}), b = input({3}, {2, 2, 1});
  const auto split = gradients({a, b}, max_of(a, b, "split").sum());
  EXPECT_EQ(split[0], (Values{0, 0.5, 1}));
  EXPECT_EQ(split[1], (Values{1, 0.5, 0}));
  const auto first = gradients({a, b}, max_of(a, b, "first").sum());
  EXPECT_EQ(first[0], (Values{0, 1, 1}));
  EXPECT_EQ(first[1], (Values{1, 0, 0}));
}

TEST_F(GradientFacts, MaxReduceSplitsTiesAndFirstDoesNot) {
  const GraphTensor x = input({2, 3}, {1, 3, 3, 2, 2, 2});
  EXPECT_EQ(gradients({x}, max_over(x, {1}, "split").sum())[0],
            (Values{0, 0.5, 0.5, 1.0 / 3, 1.0 / 3, 1.0 / 3}));
  EXPECT_EQ(gradients({x}, max_over(x, {1}, "first").sum())[0], (Values{0, 1, 0, 1, 0, 0}));
  // First means first in row-major order, over several axes too.
  const GraphTensor y = input({2, 2, 2}, {1, 5, 0, 7, 5, 5, 7, 7});
  EXPECT_EQ(gradients({y}, max_over(y, {0, 2}, "first").sum())[0], (Values{0, 1, 0, 1, 0, 0, 0, 0}));
}

TEST_F(GradientFacts, MaxReduceWithNaNOrMinusInfinityStaysFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const GraphTensor x = input({2, 2}, {nan, 1, -inf, -inf});
  for (const std::string ties : {"split", "first"}) {
    const Values found = gradients({x}, max_over(x, {1}, ties).sum())[0];
    for (const double g : found) EXPECT_TRUE(std::isfinite(g)) << ties;
  }
  EXPECT_EQ(gradients({x}, max_over(x, {1}, "first").sum())[0][2], 1);
}

TEST_F(GradientFacts, ProductThroughZeros) {
  const GraphTensor x = input({3, 3}, {2, 0, 3, 0, 0, 3, 2, 5, 3});
  const GraphTensor product =
      cx.add_op(kProdReduce).input(x).attribute("axes", std::vector<int64_t>{1}).finish();
  EXPECT_EQ(gradients({x}, product.sum())[0], (Values{0, 6, 0, 0, 0, 0, 15, 6, 10}));
}

TEST_F(GradientFacts, ProductThroughZerosTwice) {
  const GraphTensor x = input({3}, {2, 0, 3}), v = input({3}, {1, 10, 100});
  const GraphTensor product =
      cx.add_op(kProdReduce).input(x).attribute("axes", std::vector<int64_t>{0}).finish();
  const auto first = cx.run_pass(Autograd({x}, product));
  // s = v0 x1 x2 + v1 x0 x2 + v2 x0 x1, so ds = (v1 x2 + v2 x1, v0 x2 + v2 x0, v0 x1 + v1 x0)
  EXPECT_EQ(gradients({x}, (first[0] * v).sum())[0], (Values{30, 203, 20}));
}

TEST_F(GradientFacts, PowerAtZeroBaseAndZeroExponent) {
  const GraphTensor x = input({4}, {0, -2, 3, 0}), y = input({4}, {2, 3, 0, 0});
  const GraphTensor power = cx.add_op(kPow).input(x).input(y).finish();
  EXPECT_EQ(gradients({x}, power.sum())[0], (Values{0, 12, 0, 0}));
  const Values to_exponent = gradients({y}, power.sum())[0];
  EXPECT_EQ(to_exponent[0], 0);
  EXPECT_TRUE(std::isnan(to_exponent[1]));  // log of a negative base
  EXPECT_DOUBLE_EQ(to_exponent[2], std::log(3.0));
  EXPECT_EQ(to_exponent[3], 0);
}

TEST_F(GradientFacts, SquareTwiceAtZero) {
  const GraphTensor x = input({2}, {0, 3}), two = cx.full({2}, 2.0, Dtype::F64);
  const GraphTensor power = cx.add_op(kPow).input(x).input(two).finish();
  const auto first = cx.run_pass(Autograd({x}, power.sum()));
  EXPECT_EQ(gradients({x}, first[0].sum())[0], (Values{2, 2}));
}

TEST_F(GradientFacts, WhereKeepsNaNOfTheOtherSideOut) {
  const GraphTensor x = input({2}, {0, 4});
  const GraphTensor safe = where(x.gt(0), x, 1).log();
  EXPECT_EQ(gradients({x}, where(x.gt(0), safe, 0).sum())[0], (Values{0, 0.25}));
}

TEST_F(GradientFacts, CastCarriesGradientsBetweenFloats) {
  const GraphTensor x = input({2}, {1.5, -2});
  const GraphTensor half = x.cast(Dtype::F16);
  EXPECT_EQ(gradients({x}, (half * half).sum().cast(Dtype::F64))[0], (Values{3, -4}));
  // Integers carry none: what comes another way arrives alone, and nothing at all is an error.
  const GraphTensor through_integers = x.cast(Dtype::I32).cast(Dtype::F64);
  EXPECT_EQ(gradients({x}, (through_integers * x).sum())[0], (Values{1, -2}));
  EXPECT_THROW((void)gradients({x}, through_integers.sum()), Error);
}

TEST_F(GradientFacts, OpsWithoutGradientSayWhichAndWhatToDo) {
  const GraphTensor x = cx.tensor({2}, Dtype::F16);
  const GraphTensor bits = x.as_dtype(Dtype::BF16);
  EXPECT_THROW((void)cx.run_pass(Autograd({x}, bits.sum())), Error);
}

}  // namespace
}  // namespace luminal
