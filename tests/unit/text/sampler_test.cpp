#include "luminal/text/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "luminal/error.h"
#include "support/files.h"

namespace luminal::text {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<TokenId> ids_of(const std::vector<Candidate>& candidates) {
  std::vector<TokenId> ids;
  for (const Candidate& candidate : candidates) ids.push_back(candidate.id);
  return ids;
}

SamplerOptions options_of(const nlohmann::json& json) {
  SamplerOptions options{.temperature = json.value("temperature", 1.0),
                         .top_k = json.value("top_k", int64_t{0}),
                         .top_p = json.value("top_p", 1.0),
                         .min_p = json.value("min_p", 0.0),
                         .typical_p = json.value("typical_p", 1.0),
                         .repetition_penalty = json.value("repetition_penalty", 1.0),
                         .presence_penalty = json.value("presence_penalty", 0.0),
                         .frequency_penalty = json.value("frequency_penalty", 0.0)};
  if (json.contains("logit_bias"))
    for (const auto& entry : json["logit_bias"]) options.logit_bias.emplace_back(entry[0], entry[1]);
  return options;
}

/// tools/text_samplers.py made the cases with `transformers`.
TEST(Sampler, LeavesTheTokensAndProbabilitiesOfTransformers) {
  const auto cases = nlohmann::json::parse(
      test::content_of(std::string(LUMINAL_SOURCE_DIR) + "/tests/unit/text/data/samplers.json"));
  ASSERT_GE(cases.size(), 50U);
  for (const auto& entry : cases) {
    Sampler sampler(options_of(entry["options"]));
    sampler.accept_prompt(entry["prompt"].get<std::vector<TokenId>>());
    for (const TokenId id : entry["generated"].get<std::vector<TokenId>>()) sampler.accept(id);
    std::vector<Candidate> left = sampler.candidates(entry["logits"].get<std::vector<float>>());
    EXPECT_TRUE(std::ranges::is_sorted(left, std::ranges::greater(), &Candidate::probability));
    std::ranges::sort(left, {}, &Candidate::id);
    ASSERT_EQ(ids_of(left), entry["ids"].get<std::vector<TokenId>>()) << entry["options"];
    for (size_t i = 0; i < left.size(); ++i)
      EXPECT_NEAR(left[i].probability, entry["probabilities"][i].get<double>(), 1e-12) << entry["options"];
  }
}

TEST(Sampler, TemperatureZeroTakesTheFirstOfTheBest) {
  Sampler sampler({.temperature = 0});
  EXPECT_EQ(sampler.sample(std::vector<float>{1, 3, 3, 2}), 1);
  EXPECT_EQ(sampler.sample(std::vector<float>{-kInfinity, -kInfinity, -5}), 2);
  EXPECT_EQ(ids_of(Sampler({.top_k = 2}).candidates(std::vector<float>{1, 3, 3, 3})),
            (std::vector<TokenId>{1, 2}));
}

/// Pearson's statistic over 11 tokens has 10 degrees of freedom: 35.6 is exceeded once in 10'000 seeds.
TEST(Sampler, DrawsAsOftenAsTheProbabilitiesSay) {
  std::vector<float> logits;
  for (int i = 0; i < 11; ++i) logits.push_back(static_cast<float>(i % 4) * 0.5F);
  Sampler sampler({.temperature = 0.8, .seed = 7});
  const auto expected = sampler.candidates(logits);
  constexpr int kDraws = 100'000;
  std::vector<int> counts(logits.size());
  for (int i = 0; i < kDraws; ++i) ++counts[static_cast<size_t>(sampler.sample(logits))];
  double statistic = 0;
  for (const Candidate& candidate : expected) {
    const double mean = candidate.probability * kDraws, count = counts[static_cast<size_t>(candidate.id)];
    statistic += (count - mean) * (count - mean) / mean;
  }
  EXPECT_LT(statistic, 35.6);
}

TEST(Sampler, EqualSeedsDrawEqualTokens) {
  const std::vector<float> logits(1000, 0.0F);
  const auto draw = [&](uint64_t seed) {
    Sampler sampler({.seed = seed});
    std::vector<TokenId> ids;
    for (int i = 0; i < 20; ++i) ids.push_back(sampler.sample(logits));
    return ids;
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
  EXPECT_NE(draw(1), draw(uint64_t{1} << 32));
}

TEST(Sampler, PenaltiesCountWhatItSampled) {
  Sampler sampler({.temperature = 0, .frequency_penalty = 1});
  const std::vector<float> logits{0, 1.5F, 1};
  std::vector<TokenId> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(sampler.sample(logits));
  EXPECT_EQ(ids, (std::vector<TokenId>{1, 2, 1, 0, 2}));  // worked out by hand
}

TEST(Sampler, TheMaskComesBeforeAllElse) {
  std::vector<float> logits(70, 5);
  logits[65] = -8, logits[3] = -9;
  Sampler sampler({.temperature = 1, .top_k = 1});
  const std::vector<uint64_t> allowed{uint64_t{1} << 3, uint64_t{1} << 1};
  EXPECT_EQ(sampler.sample(logits, allowed), 65);
  EXPECT_THAT([&] { (void)sampler.sample(logits, std::vector<uint64_t>{0, 0}); },
              ThrowsMessage<Error>(HasSubstr("no token is left: of 70 each is outside the mask")));
  EXPECT_THAT([&] { (void)sampler.sample(logits, std::vector<uint64_t>{1}); },
              ThrowsMessage<Error>("[sampler] the mask has 1 words; 70 logits need 2"));
}

TEST(Sampler, ExtremeLogitsStayProbabilities) {
  for (const double temperature : {1e-300, 1e-3, 1e300}) {
    Sampler sampler({.temperature = temperature, .top_p = 0.999, .min_p = 1e-9, .typical_p = 0.999});
    double sum = 0;
    for (const Candidate& candidate : sampler.candidates(std::vector<float>{3e38F, -3e38F, 0, -kInfinity})) {
      EXPECT_GE(candidate.probability, 0);
      sum += candidate.probability;
    }
    EXPECT_NEAR(sum, 1, 1e-12);
    EXPECT_NE(sampler.sample(std::vector<float>{3e38F, -3e38F, 0, -kInfinity}), 3);
  }
}

TEST(Sampler, ErrorsNameTheValue) {
  const auto option_error = [](const SamplerOptions& options, const char* message) {
    EXPECT_THAT([&] { Sampler{options}; }, ThrowsMessage<Error>(message));
  };
  option_error({.temperature = -1}, "[sampler] temperature is -1; it must be 0 or more, and finite");
  option_error({.temperature = std::nan("")},
               "[sampler] temperature is nan; it must be 0 or more, and finite");
  option_error({.top_k = -1}, "[sampler] top_k is -1; it must be 0 (all tokens) or more");
  option_error({.top_p = 0}, "[sampler] top_p is 0; it must be above 0 and at most 1");
  option_error({.min_p = 1.5}, "[sampler] min_p is 1.5; it must be from 0 to 1");
  option_error({.typical_p = 2}, "[sampler] typical_p is 2; it must be above 0 and at most 1");
  option_error({.repetition_penalty = 0},
               "[sampler] repetition_penalty is 0; it must be above 0, and finite");
  option_error({.presence_penalty = kInfinity}, "[sampler] presence_penalty is inf; it must be finite");
  option_error({.logit_bias = {{3, kInfinity}}},
               "[sampler] the bias of token 3 is inf; it must be finite, or minus infinity");
  EXPECT_THAT([] { Sampler().accept(-1); }, ThrowsMessage<Error>("[sampler] token id -1 is negative"));
  EXPECT_THAT([] { (void)Sampler().sample({}); }, ThrowsMessage<Error>("[sampler] there are no logits"));
  EXPECT_THAT([] { (void)Sampler().sample(std::vector<float>{0, std::nanf("")}); },
              ThrowsMessage<Error>(HasSubstr("the logit of token 1 is nan")));
  EXPECT_THAT([] { (void)Sampler({.logit_bias = {{2, 1}}}).sample(std::vector<float>{0, 1}); },
              ThrowsMessage<Error>("[sampler] logit_bias names token 2, and there are 2 logits"));
}

}  // namespace
}  // namespace luminal::text
