#include "luminal/models/perplexity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "luminal/error.h"
#include "support/files.h"

namespace luminal::models {
namespace {

using test::error_of;
using testing::HasSubstr;

const std::string kTalker = std::string(LUMINAL_SOURCE_DIR) + "/tests/unit/models/data/families/llama";
const std::string kText =
    "Once upon a time there was a model of letters, and nobody knew what it would say next.";

/// -log of the share of a token, from logits, in f64.
double loss_of(std::span<const float> logits, text::TokenId token) {
  double top = -INFINITY, sum = 0;
  for (const float value : logits) top = std::max<double>(top, value);
  for (const float value : logits) sum += std::exp(value - top);
  return std::log(sum) + top - logits[static_cast<size_t>(token)];
}

// The logits are those of transformers (StoredModel); the definition is llama.cpp's.
TEST(Perplexity, IsThatOfTheLogits) {
  constexpr int64_t kChunk = 16;
  LanguageModel scores(kTalker, {.context = kChunk, .scores = true}), plain(kTalker, {.context = kChunk});
  std::vector<double> running;
  const Perplexity got = perplexity(scores, kText, kChunk, 0,
                                    [&](const Perplexity& so_far) { running.push_back(so_far.value()); });
  const std::vector<text::TokenId> tokens = plain.tokenizer().encode(kText);
  ASSERT_EQ(tokens.size(), kText.size());
  std::vector<double> losses, wanted_running;
  for (size_t chunk = 0; (chunk + 1) * kChunk <= tokens.size(); ++chunk) {
    const std::span<const text::TokenId> text(tokens.data() + chunk * kChunk, kChunk);
    double sum = 0;
    for (size_t i = kChunk / 2; i + 1 < kChunk; ++i)
      losses.push_back(loss_of(plain.logits(text.first(i + 1)), text[i + 1]));
    for (const double loss : losses) sum += loss;
    wanted_running.push_back(std::exp(sum / static_cast<double>(losses.size())));
  }
  double mean = 0, variance = 0;
  for (const double loss : losses) mean += loss / static_cast<double>(losses.size());
  for (const double loss : losses)
    variance += (loss - mean) * (loss - mean) / static_cast<double>(losses.size());
  EXPECT_EQ(got.tokens, std::ssize(losses));
  EXPECT_EQ(got.chunks, std::ssize(tokens) / kChunk);
  EXPECT_NEAR(got.value(), std::exp(mean), 1e-4 * std::exp(mean));
  EXPECT_NEAR(got.error(), std::exp(mean) * std::sqrt(variance / static_cast<double>(losses.size() - 1)),
              1e-3 * got.value());
  ASSERT_EQ(running.size(), wanted_running.size());
  for (size_t i = 0; i < running.size(); ++i)
    EXPECT_NEAR(running[i], wanted_running[i], 1e-4 * running[i]) << i;
  EXPECT_EQ(perplexity(scores, kText, kChunk, 2).chunks, 2);
}

TEST(Perplexity, ErrorsSayWhatIsMissing) {
  LanguageModel scores(kTalker, {.context = 64, .scores = true}), plain(kTalker, {.context = 64});
  EXPECT_THAT(error_of<Error>([&] { (void)perplexity(scores, kText, 64); }),
              HasSubstr("[perplexity] the text has 86 tokens; a context of 64 needs at least 128"));
  EXPECT_THAT(error_of<Error>([&] { (void)perplexity(scores, kText, 2); }),
              HasSubstr("give at least 4 tokens"));
  EXPECT_THAT(error_of<Error>([&] { (void)perplexity(plain, kText, 16); }),
              HasSubstr("it was opened for logits; open it with `scores`"));
  EXPECT_THAT(error_of<Error>([&] { (void)scores.logits(std::vector{1, 2}); }),
              HasSubstr("opened for losses"));
}

}  // namespace
}  // namespace luminal::models
