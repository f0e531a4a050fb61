// The digit network's whole training step, forward, backward and optimizer in one graph, on the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "luminal/luminal.h"
#include "unit/search/numbering.h"
#include "unit/search/pipeline.h"

namespace luminal {
namespace {

struct Training {
  Graph cx;
  models::MnistCnn model;
  GraphTensor images, labels, loss;
  std::vector<GraphTensor> weights;
  std::unique_ptr<training::Adam> adam;

  explicit Training(const char* device, bool reversed = false) : model((cx.set_seed(1), cx)) {
    images = cx.named_tensor("images", {"batch", 1, 28, 28});
    labels = cx.named_tensor("labels", {"batch"}, Dtype::I32);
    loss = training::cross_entropy(model.forward(images), labels);
    weights = nn::params(model);
    if (reversed) std::ranges::reverse(weights);
    const auto gradients = cx.run_pass(Autograd(weights, loss));
    adam = std::make_unique<training::Adam>(cx, weights, gradients,
                                            training::Adam::Options{.learning_rate = 2e-3});
    loss.retrieve();
    cx.set_device(device);
  }
  void feed(int64_t batch, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<float> pixels(static_cast<size_t>(batch * 784));
    for (float& x : pixels) x = static_cast<float>(random() % 256) / 255;
    std::vector<int32_t> classes(static_cast<size_t>(batch));
    for (int32_t& c : classes) c = static_cast<int32_t>(random() % 10);
    images.set_dyn(pixels, {batch, 1, 28, 28});
    labels.set_dyn(classes, {batch});
  }
};

TEST(CompiledTraining, FollowsTheReference) {
  Training compiled("cpu"), reference("reference");
  for (uint64_t step = 0; step < 4; ++step) {
    const int64_t batch = step == 3 ? 5 : 8;  // another bucket
    compiled.feed(batch, step);
    reference.feed(batch, step);
    compiled.cx.execute();
    reference.cx.execute();
    EXPECT_NEAR(compiled.loss.data<float>()[0], reference.loss.data<float>()[0], 2e-3) << "step " << step;
  }
  // Adam divides by the size of a gradient: where that is all rounding, so is the step. Nearly all agree.
  int64_t count = 0, apart = 0;
  for (size_t w = 0; w < compiled.weights.size(); ++w) {
    const auto a = compiled.weights[w].data<float>(), b = reference.weights[w].data<float>();
    for (size_t i = 0; i < a.size(); ++i, ++count) apart += std::abs(a[i] - b[i]) > 1e-4 ? 1 : 0;
  }
  EXPECT_LE(static_cast<double>(apart), 0.01 * static_cast<double>(count));
}

TEST(CompiledTraining, IsOnePlanOfKernels) {
  Training t("cpu");
  t.feed(8, 0);
  auto step = t.cx.compile(Fast{});
  EXPECT_NE(step.report().find("ops_outside_plan: 0"), std::string::npos) << step.report();
}

TEST(CompiledTraining, SaturatesSoonAndStaysSmall) {
  Training t("cpu");
  const auto searched = search::test::search(t.cx);
  EXPECT_EQ(searched.report.stop, egraph::StopReason::Saturated);
  EXPECT_LT(searched.report.iterations, 10U);
  EXPECT_LT(searched.rows_after, 3 * searched.rows_before);
}

TEST(CompiledTraining, HasRealChoicesWhenThePlanIsChosen) {
  Training t("cpu");
  const auto searched = search::test::search(t.cx);
  const auto cover = search::find_cover(searched.saturated.cover, *searched.store,
                                        search::test::roofline({{"batch", 64}}), {});
  EXPECT_GE(std::ranges::count_if(cover.fusion_counts, [](int fusions) { return fusions >= 3; }), 20);
  EXPECT_GT(cover.flips, 5);
  EXPECT_GT(cover.merges, 5);
}

/// The scale of a mean leaves the sums of its gradients.
TEST(CompiledTraining, LawsChangeTheEGraphOfAWeightedMean) {
  Graph cx;
  const GraphTensor x = cx.tensor({32, 16}), weight = cx.tensor({32, 4});
  const GraphTensor w = cx.tensor({16, 4}), b = cx.tensor({4});
  const GraphTensor loss = ((x.matmul(w) + b.expand_dim(0, 32)) * weight).mean();
  auto gradients = cx.run_pass(Autograd({w, b}, loss));
  for (GraphTensor& gradient : gradients) gradient.retrieve();
  const auto all = search::test::search(cx);
  const auto without = search::test::search(cx, {.rules_off = {"sum-factor-leaves-producer"}});
  EXPECT_GT(all.rows_after, without.rows_after);
  EXPECT_EQ(without.rule("sum-factor-leaves-producer"), nullptr);
}

/// The gradient of the cross entropy stands in choices beside zero, since labels may say that they do not
/// count. Its scale is one by the number of those that do, a tensor: it leaves the sum over the classes in
/// fast mode alone.
TEST(CompiledTraining, LawsChangeTheEGraphOfTheNetwork) {
  Training t("cpu");
  const std::string law = "sum-factor-leaves-unbounded-producer";
  const auto all = search::test::search(t.cx, {.math = MathMode::Fast});
  const auto without = search::test::search(t.cx, {.math = MathMode::Fast, .rules_off = {law}});
  ASSERT_NE(all.rule(law), nullptr);
  EXPECT_GT(all.rule(law)->applied, 0U);
  EXPECT_GT(all.rows_after, without.rows_after);
  EXPECT_EQ(search::test::search(t.cx).rule(law), nullptr);
}

search::Cover cover_of(const search::test::Searched& searched) {
  return search::find_cover(searched.saturated.cover, *searched.store,
                            search::test::roofline({{"batch", 64}}), {});
}

TEST(CompiledTraining, HasTheSamePlanForAnyOrderOfCreation) {
  // Gradients and updates are made in the order of the weights.
  Training first("cpu"), second("cpu", true);
  const auto one = search::test::search(first.cx), other = search::test::search(second.cx);
  const search::Cover a = cover_of(one), b = cover_of(other);
  EXPECT_EQ(search::test::launches(a, *one.store), search::test::launches(b, *other.store));
  EXPECT_DOUBLE_EQ(a.cost_us, b.cost_us);
}

TEST(CompiledTraining, HasTheSamePlanForAnyNumbering) {
  Training t("cpu");
  const auto searched = search::test::search(t.cx);
  const search::Cover cover = cover_of(searched);
  std::vector<int> order(searched.saturated.cover.classes.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::shuffle(order, std::mt19937_64(3));
  const search::Cover other =
      search::find_cover(search::test::renumbered(searched.saturated.cover, order), *searched.store,
                         search::test::roofline({{"batch", 64}}), {});
  EXPECT_EQ(search::test::launches(other, *searched.store), search::test::launches(cover, *searched.store));
  EXPECT_DOUBLE_EQ(other.cost_us, cover.cost_us);
}

TEST(CompiledTraining, EightFusionsLoseLittle) {
  Training t("cpu");
  const auto searched = search::test::search(t.cx);
  const auto cost = search::test::roofline({{"batch", 64}});
  const auto& problem = searched.saturated.cover;
  const double eight = search::find_cover(problem, *searched.store, cost, {.fusions = 8}).cost_us;
  const double many = search::find_cover(problem, *searched.store, cost, {.fusions = 64}).cost_us;
  EXPECT_LE(eight, 1.02 * many);
}

}  // namespace
}  // namespace luminal
