#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "luminal/error.h"
#include "luminal/models/language_model.h"
#include "support/files.h"
#include "unit/models/stored_models.h"

// Caches whose keys and values are rounded to blocks of 8 bits, beside exact ones.
namespace luminal::models {
namespace {

using test::kModels;
using test::relative_error;
using text::TokenId;

constexpr int64_t kTokens = 64;

LanguageModel with_cache(const std::string& name, Dtype dtype, const std::string& device = {}) {
  return LanguageModel(kModels / name,
                       {.device = device, .context = kTokens, .cache = dtype, .sequences = 3});
}

class RoundedCache : public testing::TestWithParam<std::string> {
 protected:
  /// Rounding moves a number by at most 1/254 of the greatest of its block, that of bf16 by 1/512 of itself; the bound
  /// on what bf16 does to logits is 5e-2 (language_model_test.cpp).
  static constexpr double kBound = 5e-2 * 512 / 254;
  /// Numbers beside a tie may be rounded either way where a step adds in another order: a part of all rounding.
  static void expect_as(std::span<const float> got, std::span<const float> wanted,
                        std::span<const float> exact, const std::string& what) {
    EXPECT_LT(relative_error(got, wanted), 0.1 * relative_error(wanted, exact)) << what;
  }
  std::vector<TokenId> tokens_ = test::ExpectedLogits(kModels / GetParam()).tokens;
  [[nodiscard]] std::span<const TokenId> first(size_t count) const { return std::span(tokens_).first(count); }
};

TEST_P(RoundedCache, GivesNearlyWhatAnExactOneGives) {
  const test::ExpectedLogits expected(kModels / GetParam());
  LanguageModel model = with_cache(GetParam(), Dtype::I8);
  double most = 0;
  for (size_t step = 0; expected.prompt + step <= tokens_.size(); ++step) {
    const double error = relative_error(model.logits(first(expected.prompt + step)), expected.row(step));
    EXPECT_LT(error, kBound) << step;
    most = std::max(most, error);
  }
  EXPECT_GT(most, 1e-4);  // it does round
}

// A token sees its own rows and those of its step as those that are in the cache.
TEST_P(RoundedCache, DoesNotTellHowTextsWereComputed) {
  LanguageModel exact = with_cache(GetParam(), Dtype::F32), at_once = with_cache(GetParam(), Dtype::I8),
                one_by_one = with_cache(GetParam(), Dtype::I8);
  const auto wanted = at_once.logits(first(30));
  EXPECT_EQ(at_once.computed_tokens(), 30);
  for (size_t length = 1; length < 30; ++length) (void)one_by_one.logits(first(length));
  const auto got = one_by_one.logits(first(30));
  EXPECT_EQ(one_by_one.computed_tokens(), 1);
  expect_as(got, wanted, exact.logits(first(30)), "one by one");
}

TEST_P(RoundedCache, IsReusedCopiedAndSharedByJointSteps) {
  LanguageModel exact = with_cache(GetParam(), Dtype::F32), fresh = with_cache(GetParam(), Dtype::I8),
                model = with_cache(GetParam(), Dtype::I8);
  (void)model.logits(first(30));
  std::vector<TokenId> other(tokens_.begin(), tokens_.begin() + 24);
  other[20] = other[20] == 5 ? 6 : 5;
  const auto wanted = fresh.logits(other);
  const auto kept = model.logits(other);
  EXPECT_EQ(model.computed_tokens(), 4);
  expect_as(kept, wanted, exact.logits(other), "reused");
  model.copy_tokens(0, 2, 18);
  (void)model.logits(first(11), 1);
  const std::vector<LanguageModel::SequenceText> texts{{1, first(12)}, {2, first(19)}};
  const auto joint = model.joint_logits(texts);
  const std::vector<float> both(joint.begin(), joint.end());
  const size_t size = both.size() / 2;
  for (size_t i = 0; i < 2; ++i)
    expect_as(std::span(both).subspan(i * size, size), fresh.logits(texts[i].text),
              exact.logits(texts[i].text), "joint");
}

TEST_P(RoundedCache, IsTheSameOnAllDevices) {
  LanguageModel exact = with_cache(GetParam(), Dtype::F32),
                compiled = with_cache(GetParam(), Dtype::I8, "cpu"),
                interpreted = with_cache(GetParam(), Dtype::I8, "reference");
  for (const size_t length : {25, 26, 34}) {
    const auto wanted = interpreted.logits(first(length));
    expect_as(compiled.logits(first(length)), wanted, exact.logits(first(length)), std::to_string(length));
  }
}

TEST_P(RoundedCache, TakesAByteForANumberAndFourForABlock) {
  const LanguageModel exact = with_cache(GetParam(), Dtype::F32), model = with_cache(GetParam(), Dtype::I8);
  const int64_t numbers = exact.cache_bytes() / 4, head = model.sizes().head_size;
  EXPECT_EQ(model.cache_bytes(), numbers + 4 * numbers / std::gcd(head, 32));
}

// Heads of 8, 12 and 16 numbers, in blocks of 8, 4 and 16; windows, sinks and soft caps.
INSTANTIATE_TEST_SUITE_P(Families, RoundedCache,
                         testing::Values("llama", "mistral", "gptoss", "gemma2", "qwen3"),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace luminal::models
