#include "run.h"

// Markers and random numbers.
namespace luminal::composite_test {
namespace {

TEST(Marker, PrintReturnsItsInputAndStaysAlive) {
  Graph cx;
  const GraphTensor x = input(cx, {2}, {1, 2});
  (void)(x * 3).print("tripled");
  ::testing::internal::CaptureStdout();
  cx.execute();
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "tripled: f32[2] [3, 6]\n");
  EXPECT_TRUE(near(slope(cx, x, x.print("x").graph_break() * 2), {2, 2}));
}

TEST(Marker, DropoutZeroesAndScales) {
  Graph cx;
  const GraphTensor x = cx.ones({1000}), y = x.dropout(0.25);
  const std::vector<double> got = run(y);
  size_t zeros = 0;
  for (const double v : got) {
    EXPECT_TRUE(v == 0 || std::abs(v - 4.0 / 3) < 1e-6) << v;
    zeros += v == 0;
  }
  EXPECT_NEAR(static_cast<double>(zeros), 250, 60);  // 4.4 standard deviations
  EXPECT_NE(run(y), got);                            // each run draws anew
  EXPECT_EQ(x.dropout(0).node(), x.node());
  EXPECT_TRUE(near(run(cx.full({2}, NAN).dropout(1)), {0, 0}));
}

TEST(Random, StreamsDifferAndSeedsRepeat) {
  const auto draw = [](uint64_t seed) {
    Graph cx;
    cx.set_seed(seed);
    const GraphTensor a = cx.uniform({8}).retrieve(), b = cx.uniform({8}).retrieve();
    cx.execute();
    EXPECT_NE(a.data<float>(), b.data<float>());
    return a.data<float>();
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
}

TEST(Random, MomentsOfBothDistributions) {
  Graph cx;
  cx.set_seed(5);
  const GraphTensor u = cx.uniform({20000}, -2, 6), n = cx.normal({20000}, 1, 3, Dtype::F64);
  for (const double v : run(u)) ASSERT_TRUE(v >= -2 && v <= 6);
  // Standard errors: 8 / sqrt(12 n) and 3 / sqrt(n); 5 of each allowed.
  EXPECT_NEAR(run(u.mean())[0], 2, 5 * 0.0163);
  EXPECT_NEAR(run(n.mean())[0], 1, 5 * 0.0212);
  EXPECT_NEAR(run(n.std())[0], 3, 5 * 0.015);
  EXPECT_EQ(n.dtype(), Dtype::F64);
  EXPECT_TRUE(near(run(cx.normal({2}, 7, 0)), {7, 7}));
}

TEST(Origin, NodesKnowTheUsersLineAndTheChain) {
  Graph cx;
  const GraphTensor x = cx.tensor({2, 2});
  const GraphTensor y = x.softmax(1);
  const uint32_t line = __LINE__ - 1;
  const auto origin = cx.node(y.node()).origin;
  ASSERT_TRUE(origin);
  EXPECT_EQ(origin->line, line);
  EXPECT_EQ(origin->file, "marker_test.cpp");
  EXPECT_EQ(origin->ops.front(), "softmax");
  const GraphTensor sum = 1 - x;
  EXPECT_EQ(cx.node(sum.node()).origin->to_string(),
            "sub > add at marker_test.cpp:" + std::to_string(__LINE__ - 2));
}

}  // namespace
}  // namespace luminal::composite_test
