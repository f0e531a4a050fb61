#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "luminal/autograd.h"
#include "luminal/error.h"
#include "luminal/nn.h"
#include "luminal/ops.h"
#include "luminal/training.h"
#include "support/files.h"
#include "support/recurrences.h"
#include "unit/training/expectations.h"

namespace luminal::training {
namespace {

using test::error_of;
using testing::HasSubstr;

/// The products that a pass over `make`'s graph changes.
int64_t contractions(const std::function<GraphTensor(Graph&)>& make) {
  Graph cx;
  const GraphTensor y = make(cx);
  return cx.run_pass(AMPContext(), y);
}

TEST(AMPContext, FindsContractionsAndNothingElse) {
  const auto x = [](Graph& cx) { return cx.tensor({2, 3, 8, 8}); };
  EXPECT_EQ(contractions([&](Graph& cx) { return x(cx).matmul(cx.tensor({8, 5})); }), 1);
  EXPECT_EQ(contractions([&](Graph& cx) { return einsum("bchw,ow->bcho", {x(cx), cx.tensor({4, 8})}); }), 1);
  EXPECT_EQ(
      contractions([&](Graph& cx) { return conv2d(x(cx), cx.tensor({4, 3, 3, 3}), {.padding = {1, 1}}); }),
      1);
  EXPECT_EQ(contractions([&](Graph& cx) { return attention(x(cx), x(cx), x(cx)); }), 2);
  EXPECT_EQ(contractions([&](Graph& cx) { return x(cx).layer_norm(); }), 0);
  EXPECT_EQ(contractions([&](Graph& cx) { return x(cx).softmax().square().sum(); }), 0);
  EXPECT_EQ(contractions([&](Graph& cx) { return (x(cx) * x(cx)).sum(); }), 0);
  EXPECT_EQ(contractions([&](Graph& cx) { return (x(cx) * 2).sum(1); }), 0);
  EXPECT_EQ(contractions([&](Graph& cx) {
              return cx.tensor({2, 3}, Dtype::F64).matmul(cx.tensor({3, 4}, Dtype::F64));
            }),
            0);
  EXPECT_THAT(error_of<Error>([] { (void)AMPContext(Dtype::F32); }), HasSubstr("choose f16 or bf16"));
}

/// A product whose operands round: (1 + 2^-9) is 1 in bf16.
TEST(AMPContext, RoundsOperandsAndSumsInSingle) {
  Graph cx;
  GraphTensor a = cx.tensor({1, 512}).set(std::vector<float>(512, 1 + 0x1p-9F));
  GraphTensor b = cx.tensor({512, 2}).set(std::vector<float>(1024, 1));
  GraphTensor y = a.matmul(b);
  EXPECT_EQ(cx.run_pass(AMPContext(), y), 1);
  y.retrieve();
  cx.execute();
  EXPECT_THAT(y.data<float>(), testing::Each(512));  // a sum in bf16 would stop at 256
}

/// Against torch.autocast in bf16: the same roundings, sums in another order. The last bit of bf16 is 2^-8.
/// What a loop's body computes is rounded as the same steps laid out are.
TEST(AMPContext, RoundsInsideLoops) {
  const auto values = [](const test::Recurrence& r, const test::Loop& loop) {
    Graph cx;
    cx.set_device("reference");
    test::Tensors in;
    for (const auto& sizes : r.inputs) {
      in.push_back(cx.tensor(Shape(sizes.begin(), sizes.end())));
      std::vector<float> numbers(static_cast<size_t>(element_count(in.back().dims()).constant().value()));
      for (size_t i = 0; i < numbers.size(); ++i)
        numbers[i] = std::sin(static_cast<float>(3 * i + in.size()));
      in.back().set(numbers);
    }
    GraphTensor all = test::in_a_row(r.make(in, loop, {}), Dtype::F32);
    const int64_t changed = cx.run_pass(AMPContext(Dtype::BF16), all);
    all.retrieve();
    auto slope = cx.run_pass(Autograd(in, all.square().sum()))[0].retrieve();
    cx.execute();
    return std::tuple(changed > 0, all.data<float>(), slope.data<float>());
  };
  bool any = false;
  for (const test::Recurrence& r : test::recurrences()) {
    const auto [changed, loop, slope] = values(r, test::as_scan);
    const auto [changed_steps, steps, slope_of_steps] = values(r, test::step_by_step);
    EXPECT_EQ(changed, changed_steps) << r.name;
    EXPECT_EQ(loop, steps) << r.name;
    ASSERT_EQ(slope.size(), slope_of_steps.size());
    for (size_t i = 0; i < slope.size(); ++i)
      EXPECT_NEAR(slope[i], slope_of_steps[i], 2e-5 * (1 + std::abs(slope[i]))) << r.name;
    any |= changed;
  }
  EXPECT_TRUE(any);
}

TEST(AMPContext, FollowsAutocast) {
  Graph cx;
  const GraphTensor x = test::input(cx, "amp/x"), y = test::input(cx, "amp/y");
  const GraphTensor w1 = test::input(cx, "amp/w1"), w2 = test::input(cx, "amp/w2");
  GraphTensor out = x.matmul(w1.t()).relu().matmul(w2.t()), loss = mse(out, y);
  EXPECT_EQ(cx.run_pass(AMPContext(), loss, out), 2);
  auto gradients = cx.run_pass(Autograd({w1, w2}, loss));
  retrieve(std::vector{out, loss});
  out.retrieve();
  loss.retrieve();
  retrieve(gradients);
  cx.execute();
  const auto compare = [](const GraphTensor& got, const std::string& name) {
    const auto wanted_data = test::expectations().read("amp/" + name);
    const auto wanted = wanted_data.as<float>();
    double largest = 0;
    for (const float value : wanted) largest = std::max(largest, std::abs(static_cast<double>(value)));
    const auto values = got.data<float>();
    ASSERT_EQ(values.size(), wanted.size());
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(values[i], wanted[i], largest * 0x1p-8) << name << i;
  };
  compare(out, "out");
  compare(loss, "loss");
  compare(gradients[0], "g1");
  compare(gradients[1], "g2");
}

TEST(GradScaler, FollowsPyTorch) {
  Graph cx;
  GraphTensor p = cx.tensor({2}, Dtype::F64).set({1, 1}), factor = cx.tensor({}, Dtype::F64).set({1});
  GradScaler scaler(cx, {.init_scale = 8, .growth_factor = 4, .backoff_factor = 0.25, .growth_interval = 3});
  const GraphTensor loss = (p * factor).sum();
  const auto gradients = scaler.unscale(cx.run_pass(Autograd({p}, scaler.scale(loss))));
  SGD sgd(cx, {p}, gradients, {.learning_rate = 0.1, .apply_if = scaler.finite()});
  const auto scales = test::expected("scaler/scales"), values = test::expected("scaler/values");
  for (size_t i = 0; i < scales.size(); ++i) {
    const bool overflow = i == 4 || i == 5 || i == 9;
    factor.set({overflow ? std::numeric_limits<double>::infinity() : 1.0 + static_cast<double>(i)});
    cx.execute();
    EXPECT_EQ(scaler.factor().data<double>()[0], scales[i]) << "step " << i;
    EXPECT_NEAR(p.data<double>()[0], values[2 * i], 1e-12) << "step " << i;
  }
  EXPECT_EQ(sgd.steps(), 9);
}

/// Gradients of 1e-7 vanish in f16, whose least number is 6e-8 (and halves of it), unless they are scaled.
TEST(GradScaler, KeepsSmallGradientsInHalfPrecision) {
  const auto gradient = [](double scale) {
    Graph cx;
    GraphTensor x = cx.tensor({1, 4}).set({1, 1, 1, 1}),
                w = cx.tensor({4, 2}).set(std::vector<float>(8, 0.5F));
    const GraphTensor loss = x.matmul(w).sum() * 1e-8;
    cx.run_pass(AMPContext(Dtype::F16), loss);
    GradScaler scaler(cx, {.init_scale = scale});
    GraphTensor g = scaler.unscale(cx.run_pass(Autograd({w}, scaler.scale(loss))))[0].retrieve();
    cx.execute();
    return g.data<double>()[0];
  };
  EXPECT_EQ(gradient(1), 0);
  EXPECT_NEAR(gradient(65536), 1e-8, 1e-11);
}

TEST(GradScaler, RefusesWhatMakesNoSense) {
  Graph cx;
  EXPECT_THAT(error_of<Error>([&] { GradScaler(cx, {.growth_factor = 1}); }), HasSubstr("[GradScaler]"));
  GradScaler scaler(cx);
  EXPECT_THAT(error_of<Error>([&] { (void)scaler.finite(); }), HasSubstr("nothing was unscaled yet"));
  EXPECT_THAT(error_of<Error>([&] { (void)scaler.unscale({}); }), HasSubstr("there are no gradients"));
}

/// A model with f16 weights: f32 masters in the optimizer, the loss scaled, all in one graph.
TEST(MixedPrecision, AHalfPrecisionModelTrains) {
  Graph cx;
  cx.set_seed(3);
  const nn::Linear model(cx, 4, 1, {.dtype = Dtype::F16});
  std::vector<double> rows;
  for (int i = 0; i < 128; ++i) rows.push_back(std::sin(0.37 * i * i));
  GraphTensor x = cx.tensor({32, 4}, Dtype::F16).set(rows);
  const GraphTensor y = (x * cx.tensor({4}, Dtype::F16).set({0.5, -1, 2, 0.25})).sum(1, true);
  GraphTensor loss = mse(model.forward(x), y);
  GradScaler scaler(cx);
  const auto weights = nn::params(model);
  const auto gradients = scaler.unscale(cx.run_pass(Autograd(weights, scaler.scale(loss))));
  Adam adam(cx, weights, gradients, {.learning_rate = 0.03, .apply_if = scaler.finite()});
  loss.retrieve();
  double first = 0;
  for (int i = 0; i < 200; ++i) {
    cx.execute();
    if (i == 0) first = loss.data<double>()[0];
  }
  EXPECT_LT(loss.data<double>()[0], first * 1e-3);
  EXPECT_NEAR(model.weight.data<double>()[2], 2, 0.05);
}

}  // namespace
}  // namespace luminal::training
