#include "kernel/online.h"

#include <gtest/gtest.h>

#include "luminal/luminal.h"
#include "scalar/interpreter.h"
#include "unit/kernel/fuse.h"

namespace luminal::kernel::test {
namespace {

/// The whole graph behind `y` as one spec.
KernelSpec whole(const Graph& graph, const GraphTensor& y) {
  const auto fused = WholeFusion(graph, 3).run(y.edge().source);
  EXPECT_TRUE(fused.has_value());
  return fused ? fused->spec : KernelSpec();
}
int online_count(const KernelSpec& spec) {
  return static_cast<int>(std::ranges::count_if(spec.values(), &Value::online));
}

TEST(Online, MarksTheSumsOfASoftmaxAndItsProducts) {
  Graph cx;
  const GraphTensor x = cx.tensor({4, 9}), v = cx.tensor({9, 5});
  EXPECT_EQ(online_count(whole(cx, x.softmax(-1))), 1);
  const KernelSpec product = whole(cx, x.softmax(-1).matmul(v));
  EXPECT_EQ(online_count(product), 2) << product.to_string();
  EXPECT_NE(product.to_string().find("online sum"), std::string::npos);
  EXPECT_GE(online_count(whole(cx, x.logsumexp({1}))), 1);
}

/// Short floats round weights before they are multiplied; the sums go on without.
TEST(Online, TakesWeightsThatAreRounded) {
  for (const Dtype dtype : {Dtype::F16, Dtype::BF16}) {
    Graph cx;
    const GraphTensor x = cx.tensor({4, 9}, dtype), v = cx.tensor({9, 5}, dtype);
    const KernelSpec product = whole(cx, x.softmax(-1).matmul(v));
    EXPECT_EQ(online_count(product), 2) << product.to_string();
  }
}

TEST(Online, TakesScalesAndLeastMaxima) {
  Graph cx;
  const GraphTensor x = cx.tensor({4, 9}), sink = cx.tensor({4, 1});
  const auto sum = [&](const GraphTensor& from, const GraphTensor& most) {
    return online_count(whole(cx, (from - most).exp().sum({1})));
  };
  const GraphTensor scaled = x * 3.0;
  EXPECT_EQ(sum(scaled, scaled.max({1}, true)), 1);
  EXPECT_EQ(sum(scaled, x.max({1}, true) * 3.0), 1);
  EXPECT_EQ(sum(x, x.max({1}, true).maximum(sink)), 1);
  EXPECT_EQ(sum(x, x.max({1}, true).maximum(-5.0)), 1);
}

TEST(Online, LeavesAloneWhatMayOverflow) {
  Graph cx;
  const GraphTensor x = cx.tensor({4, 9}), z = cx.tensor({4, 9});
  const auto sum = [&](const GraphTensor& terms) { return online_count(whole(cx, terms.sum({1}))); };
  EXPECT_EQ(sum((z - x.max({1}, true)).exp()), 0);        // not what is maximised
  EXPECT_EQ(sum((x.max({1}, true) - x).exp()), 0);        // grows below the maximum
  EXPECT_EQ(sum((x - x.max({1}, true)).tanh()), 0);       // no exponential
  EXPECT_EQ(sum((x - x.max({1}, true)).exp() + 1.0), 0);  // no factor
  EXPECT_EQ(sum((x - x.max({1}, true).minimum(3.0)).exp()), 0);
  EXPECT_EQ(sum((x - x.max({1}, true)).exp() * x.max({1}, true)), 0);
}

/// A node that many others read stands in a body once, at the end of more ways than anyone could go.
TEST(Online, BodiesAreGraphs) {
  Graph cx;
  const GraphTensor x = cx.tensor({4, 9}), v = cx.tensor({4, 9});
  GraphTensor doubled = v, maximised = x;
  for (int i = 0; i < 40; ++i) {
    doubled = doubled + doubled * v;
    maximised = maximised.maximum(maximised * v);
  }
  EXPECT_EQ(online_count(whole(cx, (x.softmax(-1) * doubled).sum({1}))), 2);
  EXPECT_GE(online_count(whole(cx, (maximised.softmax(-1) * v).sum({1}))), 1);
  GraphTensor squared = x.softmax(-1);
  for (int i = 0; i < 12; ++i) squared = squared * squared;
  EXPECT_GE(online_count(whole(cx, squared.sum({1}))), 1);
}

/// What has been added below the old maximum, rescaled, is what would have been added below the new one.
TEST(Online, RescalesWhatHasBeenAdded) {
  Graph cx;
  const GraphTensor x = cx.tensor({4, 9});
  const KernelSpec spec = whole(cx, x.softmax(-1));
  for (size_t v = 0; v < spec.values().size(); ++v) {
    const auto online = online_of(spec.values(), static_cast<int>(v));
    if (!online) continue;
    const size_t operands = spec.values()[v].operands.size();
    const auto factor = [&](float before, float after) {
      const float none = 0;
      float result = 0;
      std::vector<const void*> inputs(operands, &none);
      inputs.push_back(&before);
      inputs.push_back(&after);
      void* out = &result;
      ScalarInterpreter(online->rescale)(1, inputs, {}, {&out, 1});
      return result;
    };
    EXPECT_NEAR(factor(-1, 2), std::exp(-3), 1e-6);
    EXPECT_EQ(factor(2, 2), 1);
    EXPECT_EQ(factor(-HUGE_VALF, -1000), 1);  // nothing has been added
    EXPECT_EQ(factor(0, HUGE_VALF), 0);
    return;
  }
  FAIL() << spec.to_string();
}

}  // namespace
}  // namespace luminal::kernel::test
