#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "luminal/compile_report.h"
#include "luminal/luminal.h"
#include "luminal/nn.h"
#include "luminal/training.h"

// `nn::Linear` and `training::cross_entropy` over many classes: the logits, tokens x vocabulary, are never in memory,
// neither forward nor backward.
namespace luminal::training {
namespace {

constexpr int64_t kTokens = 300, kWidth = 12, kVocabulary = 2000;

struct HeadCase {
  const char* name;
  bool has_bias = false;
  CrossEntropyOptions options = {};
};

class LargeVocabularyLoss : public testing::TestWithParam<HeadCase> {};

TEST_P(LargeVocabularyLoss, KeepsNoLogitsInEitherDirection) {
  Graph cx;
  const nn::Linear head(cx, kWidth, kVocabulary, {.bias = GetParam().has_bias});
  GraphTensor x = cx.tensor({kTokens, kWidth}), target = cx.tensor({kTokens}, Dtype::I32);
  const GraphTensor loss = cross_entropy(head.forward(x), target, GetParam().options);
  std::vector<GraphTensor> weights{x, head.weight}, results{loss};
  if (head.bias) weights.push_back(*head.bias);
  for (const GraphTensor& gradient : cx.run_pass(Autograd(weights, loss))) results.push_back(gradient);
  for (GraphTensor& each : results) each.retrieve();

  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  for (GraphTensor& each : weights) {
    std::vector<float> data(static_cast<size_t>(*element_count(each.dims()).constant()));
    for (float& number : data) number = normal(random);
    each.set(data);
  }
  std::vector<int32_t> classes(kTokens);
  for (int32_t& c : classes) c = static_cast<int32_t>(random() % kVocabulary);
  classes[3] = -100;  // ignored
  target.set(classes);

  const auto values_on = [&](const char* device) {
    cx.set_device(device);
    cx.execute();
    std::vector<std::vector<float>> values;
    for (GraphTensor& each : results) values.push_back(each.data<float>());
    return values;
  };
  cx.set_search({.large_bytes = 0});
  cx.set_device("cpu");
  const CompileReport report = cx.compile(Fast{}).details();
  EXPECT_LT(report.arena_bytes, 4 * kTokens * kVocabulary) << to_text(report);
  const auto got = values_on("cpu"), want = values_on("reference");
  for (size_t k = 0; k < got.size(); ++k) {
    const float greatest =
        std::abs(std::ranges::max(want[k], {}, [](float number) { return std::abs(number); }));
    EXPECT_THAT(got[k], testing::Pointwise(testing::FloatNear(1e-5F * std::max(1.0F, greatest)), want[k]))
        << "result " << k;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, LargeVocabularyLoss,
                         testing::Values(HeadCase{"plain"}, HeadCase{"with_a_bias", true},
                                         HeadCase{"smoothed", false, {.label_smoothing = 0.1}},
                                         HeadCase{"summed", false, {.reduce = Reduce::Sum}}),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace luminal::training
