#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "luminal/error.h"
#include "luminal/models/language_model.h"
#include "support/files.h"
#include "unit/models/stored_models.h"

// Logits of several tokens of a step beside those of transformers.
namespace luminal::models {
namespace {

using test::error_of;
using test::kModels;
using test::relative_error;
using text::TokenId;

// Each of the rows that a step gives is what a step of its own gives.
TEST(LastLogits, AreThoseOfEachToken) {
  for (const std::string& name : test::stored_models()) {
    const test::ExpectedLogits expected(kModels / name);
    LanguageModel model(kModels / name, {.context = 64, .decoded = Dtype::F32});
    const std::span<const TokenId> all(expected.tokens);
    size_t end = expected.prompt - 1;
    for (const size_t count : {8, 2, 3, 4, 1}) {
      end += std::min<size_t>(count, 5);  // the first are known already, but for the first time
      const auto got = model.last_logits(all.first(end), static_cast<int64_t>(count));
      const size_t first = end - count + 1, size = expected.row(0).size();
      ASSERT_EQ(got.size(), count * size);
      for (size_t i = 0; i < count; ++i)
        if (first + i >= expected.prompt) {
          const auto row = got.subspan(i * size, size);
          EXPECT_LT(relative_error(row, expected.row(first + i - expected.prompt)), 1e-4)
              << name << ", row " << i << " of " << count;
        }
    }
  }
}

TEST(LastLogits, AreComputedAnewFromWhereTheyBegin) {
  LanguageModel model(kModels / "llama", {.context = 64});
  const std::vector<TokenId> text{5, 17, 9, 40, 3, 22};
  (void)model.last_logits(text, 3);
  EXPECT_EQ(model.computed_tokens(), 6);
  (void)model.last_logits(text, 2);
  EXPECT_EQ(model.computed_tokens(), 2);
  EXPECT_EQ(model.known_tokens(text), 6);
  EXPECT_EQ(error_of<Error>([&] { (void)model.last_logits(text, 7); }),
            "[model] logits of the last 7 tokens are asked for, of 6; ask for 1 to 6");
  EXPECT_EQ(error_of<Error>([&] { (void)model.last_logits(std::vector<TokenId>(20, 5), 9); }),
            "[model] logits of the last 9 tokens are asked for, of 20; ask for 1 to 8");
  EXPECT_EQ(error_of<Error>([&] { (void)model.last_logits(text, 0); }),
            "[model] logits of the last 0 tokens are asked for, of 6; ask for 1 to 6");
}

}  // namespace
}  // namespace luminal::models
