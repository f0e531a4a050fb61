#include "luminal/text/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>

#include "luminal/error.h"

namespace luminal::text {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::ThrowsMessage;

/// Logits of the probabilities 0.5, 0.25, 0.125, 0.125.
const std::vector<float> kLogits{std::log(0.5F), std::log(0.25F), std::log(0.125F), std::log(0.125F)};
constexpr double kClose = 1e-6;

auto likely(TokenId token, double probability) { return Pair(token, DoubleNear(probability, kClose)); }

TEST(Sampler, KeepsWhatEachOptionSays) {
  EXPECT_THAT(Sampler({}).distribution(kLogits),
              ElementsAre(likely(0, 0.5), likely(1, 0.25), likely(2, 0.125), likely(3, 0.125)));
  EXPECT_THAT(Sampler({.temperature = 0}).distribution(kLogits), ElementsAre(likely(0, 1)));
  // Squares of the probabilities, over their sum 11/32.
  EXPECT_THAT(Sampler({.temperature = 0.5F}).distribution(kLogits),
              ElementsAre(likely(0, 8 / 11.), likely(1, 2 / 11.), likely(2, 0.5 / 11), likely(3, 0.5 / 11)));
  EXPECT_THAT(Sampler({.top_k = 3}).distribution(kLogits),
              ElementsAre(likely(0, 4 / 7.), likely(1, 2 / 7.), likely(2, 1 / 7.)));
  EXPECT_THAT(Sampler({.top_p = 0.6F}).distribution(kLogits),
              ElementsAre(likely(0, 2 / 3.), likely(1, 1 / 3.)));
  EXPECT_THAT(Sampler({.top_p = 0}).distribution(kLogits), ElementsAre(likely(0, 1)));
  EXPECT_THAT(Sampler({.min_p = 0.4F}).distribution(kLogits),
              ElementsAre(likely(0, 2 / 3.), likely(1, 1 / 3.)));
  // The entropy is 1.75 bits; surprises are 1, 2, 3, 3: token 1 is the most typical, then token 0.
  EXPECT_THAT(Sampler({.typical_p = 0.2F}).distribution(kLogits), ElementsAre(likely(1, 1)));
  EXPECT_THAT(Sampler({.typical_p = 0.5F}).distribution(kLogits),
              ElementsAre(likely(0, 2 / 3.), likely(1, 1 / 3.)));
  EXPECT_THAT(Sampler({.bias = {{3, std::log(4.F)}}, .seed = 1}).distribution(kLogits),
              ElementsAre(likely(0, 4 / 11.), likely(3, 4 / 11.), likely(1, 2 / 11.), likely(2, 1 / 11.)));
}

TEST(Sampler, PenaltiesCountWhatWasSeen) {
  const std::vector<float> logits{2, 1, -1};
  Sampler repeated({.temperature = 0, .repetition_penalty = 4});
  EXPECT_EQ(repeated.sample(logits), 0);  // then 2 / 4 is less than 1
  EXPECT_EQ(repeated.sample(logits), 1);
  EXPECT_EQ(repeated.sample(logits), 0);  // 0.5 against 0.25
  Sampler frequent(
      {.temperature = 0, .presence_penalty = 0.1F, .frequency_penalty = 0.5F, .penalty_window = 2});
  frequent.accept(0), frequent.accept(0);
  EXPECT_EQ(frequent.sample(logits), 1);  // 2 - 0.1 - 1 = 0.9
  EXPECT_EQ(frequent.sample(logits), 0);  // the window holds 0 and 1: 1.4 against 0.4
}

TEST(Sampler, DrawsAsOftenAsLikely) {
  Sampler sampler({.seed = 3}), same({.seed = 3}), other({.seed = 4});
  std::map<TokenId, int> counts;
  constexpr int kDraws = 20'000;
  int differ = 0;
  for (int i = 0; i < kDraws; ++i) {
    const TokenId token = sampler.sample(kLogits);
    ++counts[token];
    EXPECT_EQ(same.sample(kLogits), token);
    differ += other.sample(kLogits) != token;
  }
  EXPECT_GT(differ, kDraws / 4);
  // Five standard deviations of a binomial count.
  for (const auto& [token, p] : Sampler({}).distribution(kLogits))
    EXPECT_NEAR(counts[token], kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p))) << token;
}

TEST(Sampler, DrawsOnlyWhatIsAllowed) {
  Sampler sampler({.bias = {{0, 100}}});
  const std::array<bool, 4> allowed{false, false, true, false};
  for (int i = 0; i < 20; ++i) EXPECT_EQ(sampler.sample(kLogits, allowed), 2);
}

TEST(Sampler, ErrorsSayWhatIsWrong) {
  EXPECT_THAT([] { (void)Sampler({.top_p = 1.5F}); },
              ThrowsMessage<Error>(HasSubstr("top_p is 1.5; it goes from 0 to 1")));
  EXPECT_THAT([] { (void)Sampler({.temperature = NAN}); },
              ThrowsMessage<Error>(HasSubstr("temperature is nan")));
  EXPECT_THAT([] { (void)Sampler({}).sample(std::vector<float>{0, NAN}); },
              ThrowsMessage<Error>(HasSubstr("the logit of token 1 is NaN")));
  EXPECT_THAT([] { (void)Sampler({}).sample(std::vector<float>{-INFINITY}); },
              ThrowsMessage<Error>(HasSubstr("no token of 1 may be drawn")));
  EXPECT_THAT([] { (void)Sampler({}).sample({}); },
              ThrowsMessage<Error>(HasSubstr("no token of 0 may be drawn")));
  EXPECT_THAT([] { (void)Sampler({.bias = {{9, 1}}}).sample(kLogits); },
              ThrowsMessage<Error>(HasSubstr("a bias is for token 9; there are 4 logits")));
  EXPECT_THAT([] { (void)Sampler({}).sample(kLogits, std::array<bool, 1>{true}); },
              ThrowsMessage<Error>(HasSubstr("4 logits, and a mask for 1")));
}

}  // namespace
}  // namespace luminal::text
