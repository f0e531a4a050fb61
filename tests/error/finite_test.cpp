#include <cmath>
#include <limits>

#include "error/mistake.h"
#include "luminal/training.h"
#include "support/environment.h"

// LUMINAL_CHECK=finite: the first tensor with a NaN or an infinity is named, alike on every device that
// computes.
namespace luminal::error_test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

class Finite : public testing::TestWithParam<const char*> {
 protected:
  /// What the run of a graph that `build` makes tells.
  static std::function<void()> run(const std::function<GraphTensor(Graph&)>& build) {
    return [=] {
      Graph cx;
      cx.set_device(GetParam());
      (void)build(cx).retrieve();
      cx.execute();
    };
  }
  const test::EnvironmentVariable check_{"LUMINAL_CHECK", "finite"};
};

TEST_P(Finite, TheFirstTensorIsNamed) {
  expect_told({
      {"a root of a negative number", run([](Graph& cx) {
         GraphTensor x = cx.named_tensor("x", {2, 2}).set({{1, 4}, {9, -2}});
         GraphTensor roots = x.sqrt().set_name("roots");
         return (roots * 2 + 1).sum(1).tanh();
       }),
       "[finite] 'roots' f32[2, 2] (made at `GraphTensor roots = x.sqrt().set_name(\"roots\");`) is the "
       "first tensor "
       "that is not finite: sqrt gives nan at [1, 1], of -2; keep its operands where the op is defined "
       "(maximum, clip, "
       "where)"},
      {"a logarithm inside a sum", run([](Graph& cx) {
         GraphTensor x = cx.named_tensor("x", {3}).set({1, 2, -1});
         return x.log2().sum();
       }),
       "[finite] #N f32[3] (made at `return x.log2().sum();`) is the first tensor that is not finite: log2 "
       "gives nan at "
       "row 2, of -1; keep its operands where the op is defined (maximum, clip, where)"},
      {"a quotient by 0", run([](Graph& cx) {
         GraphTensor x = cx.named_tensor("x", {2}).set({1, 0});
         return (3 / x).exp();
       }),
       "[finite] #N f32[2] (made at `return (3 / x).exp();`) is the first tensor that is not finite: div "
       "gives inf at "
       "row 1, of 3 and 0; bound its operands (clip), or compute in a wider dtype"},
      {"a sum beyond f16", run([](Graph& cx) {
         GraphTensor x = cx.named_tensor("x", {2}, Dtype::F16).set({60000, 60000});
         return x.sum() * 1;
       }),
       "[finite] #N f16[] (made at `return x.sum() * 1;`) is the first tensor that is not finite: sum > "
       "sum_reduce gives "
       "inf; bound its operands (clip), or compute in a wider dtype"},
      {"data that are not", run([](Graph& cx) {
         GraphTensor x = cx.named_tensor("x", {2}).set(std::vector<float>{1, kNaN});
         return x.square();
       }),
       "[finite] 'x' f32[2] (made at `GraphTensor x = cx.named_tensor(\"x\", {2}).set(std::vector<float>{1, "
       "kNaN});`) is "
       "set to nan at row 1; give it finite numbers (minus infinity passes, for masks)"},
      {"data that are infinite", run([](Graph& cx) {
         GraphTensor x = cx.named_tensor("x", {1, 2}).set(std::vector<float>{kInf, 1});
         return x.square();
       }),
       "[finite] 'x' f32[1, 2] (made at `GraphTensor x = cx.named_tensor(\"x\", {1, "
       "2}).set(std::vector<float>{kInf, "
       "1});`) is set to inf at [0, 0]; give it finite numbers (minus infinity passes, for masks)"},
      {"a mask of everything", run([](Graph& cx) {
         GraphTensor mask = cx.named_tensor("mask", {2}).set(std::vector<float>{-kInf, -kInf});
         return (cx.ones({2}) + mask).softmax();
       }),
       "[finite] #N f32[2] (made at `return (cx.ones({2}) + mask).softmax();`) is the first tensor that is "
       "not finite: "
       "softmax > sub > add gives nan at row 0, of -inf and inf; keep its operands where the op is defined "
       "(maximum, "
       "clip, where)"},
  });
}

TEST_P(Finite, MasksAndPaddingPass) {
  Graph cx;
  cx.set_device(GetParam());
  const auto values = [&](Shape dims) { return cx.arange(24, Dtype::F32).reshape(std::move(dims)) * 0.1; };
  GraphTensor seen =
      attention(values({1, 4, 6}), values({1, 4, 6}), values({1, 4, 6}), {.causal = true}).retrieve();
  GraphTensor most = max_pool2d(values({1, 1, 4, 6}), {.kernel = {2, 2}, .padding = {1, 1}}).retrieve();
  GraphTensor mask = cx.tensor({4}).set(std::vector<float>{0, -kInf, 0, -kInf});
  GraphTensor share = (values({6, 4}) + mask).softmax().retrieve();
  for (int i = 0; i < 2; ++i) cx.execute();
  for (const GraphTensor& result : {seen, most, share})
    for (const float value : result.data<float>()) EXPECT_TRUE(std::isfinite(value));
}

TEST_P(Finite, ARunThatStopsLeavesStatesAndRepeatsNoSideEffect) {
  Graph cx;
  cx.set_device(GetParam());
  GraphTensor w = cx.named_tensor("w", {2}).set({1, 4}), x = cx.tensor({2}).set({1, 1});
  int calls = 0;
  const GraphTensor counted =
      function(cx, "count", {x}, {x.type()}, [&](const auto& inputs, const auto& outputs) {
        ++calls;
        outputs[0].bytes = inputs[0]->bytes;
      })[0];
  const GraphTensor loss = (w.sqrt() * counted).sum();
  training::SGD sgd(cx, {w}, cx.run_pass(Autograd({w}, loss)), {.learning_rate = 10});
  cx.execute();
  const auto before = w.data<float>();
  EXPECT_LT(before[0], 0);
  EXPECT_THROW(cx.execute(), Error);
  EXPECT_EQ(w.data<float>(), before);
  EXPECT_EQ(sgd.steps(), 1);
  EXPECT_EQ(calls, 2);
}

INSTANTIATE_TEST_SUITE_P(Devices, Finite, testing::Values("reference", "cpu"));

/// f32 sums of the reference are made in f64.
TEST(FiniteKernel, IsNamedWhereItsNodesAreFinite) {
  const test::EnvironmentVariable check("LUMINAL_CHECK", "finite");
  // Two of one sign, two of the other: whether terms are added one by one or in lanes, some of one sign meet.
  std::vector<float> values(128);
  for (size_t i = 0; i < values.size(); ++i) values[i] = i % 4 < 2 ? 3e38F : -3e38F;
  Graph cx;
  GraphTensor x = cx.named_tensor("x", {128}).set(values), total = x.sum().set_name("total").retrieve();
  try {
    cx.execute();
    FAIL() << total.item();
  } catch (const Error& error) {
    const std::regex wanted(
        "\\[finite\\] 'total' f32\\[\\] \\(made at .*\\) is the first tensor that is not finite: "
        "kernel .* gives -?(inf|nan), and its nodes give finite numbers when they are interpreted: "
        "sum > sum_reduce at .*; compute in a wider dtype");
    EXPECT_TRUE(std::regex_match(error.what(), wanted)) << error.what();
  }
}

TEST(FiniteKernel, NothingIsLookedAtUnlessAskedFor) {
  const auto run = [](Graph& cx) {
    GraphTensor y = (cx.tensor({1}).set({-1})).sqrt().retrieve();
    cx.execute();
    return y.item();
  };
  Graph before, after;
  EXPECT_TRUE(std::isnan(run(before)));
  const test::EnvironmentVariable check("LUMINAL_CHECK", "all");
  expect_told(
      {{"another value", [&] { run(after); },
        "[environment] LUMINAL_CHECK='all' is invalid, expected finite; unset it or give such a value"}});
}

}  // namespace
}  // namespace luminal::error_test
