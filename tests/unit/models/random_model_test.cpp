#include "luminal/models/random_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <string>

#include "luminal/error.h"
#include "luminal/models/language_model.h"
#include "support/files.h"

namespace luminal::models {
namespace {

using test::error_of;

TEST(RandomModel, HasTheShapeItIsNamedAfterAndFiniteLogits) {
  const test::TemporaryFolder folder;
  const auto file = folder.path() / "random.gguf";
  int64_t last = 0, of = 0;
  write_random_model("smollm2-135m", file, {.layers = 1, .progress = [&](int64_t number, int64_t count) {
                                              last = number, of = count;
                                            }});
  EXPECT_EQ(last, of);
  LanguageModel model(file, {.context = 64});
  const DecoderOptions& sizes = model.sizes();
  EXPECT_EQ(sizes.layers, 1);
  EXPECT_EQ(sizes.size, 576);
  EXPECT_EQ(sizes.heads, 9);
  EXPECT_EQ(sizes.kv_heads, 3);
  EXPECT_EQ(sizes.hidden, 1536);
  EXPECT_EQ(sizes.vocabulary, 49152);
  const auto ids = model.tokenizer().encode("words");
  EXPECT_EQ(ids.size(), 5U);  // a token for each byte
  const auto logits = model.logits(ids);
  EXPECT_TRUE(std::ranges::all_of(logits, [](float x) { return std::isfinite(x); }));
  const auto [least, most] = std::ranges::minmax(logits);
  EXPECT_GT(most - least, 0.1F) << "the weights say something of the text";
}

std::string content_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(RandomModel, IsDecidedByItsSeed) {
  const test::TemporaryFolder folder;
  const auto written = [&](uint64_t seed) {
    write_random_model("smollm2-135m", folder.path() / "random.gguf", {.layers = 1, .seed = seed});
    return std::hash<std::string>()(content_of(folder.path() / "random.gguf"));
  };
  const size_t first = written(1);
  EXPECT_EQ(written(1), first);
  EXPECT_NE(written(2), first);
}

TEST(RandomModel, NamesTheShapesThatThereAre) {
  const test::TemporaryFolder folder;
  EXPECT_THAT(error_of<Error>([&] { write_random_model("tinylama-1.1b", folder.path() / "x.gguf", {}); }),
              testing::AllOf(testing::HasSubstr("there is no shape 'tinylama-1.1b'; there are llama-3.1-8b"),
                             testing::HasSubstr("did you mean 'tinyllama-1.1b'")));
  EXPECT_EQ(
      error_of<Error>([&] { write_random_model("smollm2-135m", folder.path() / "x.gguf", {.layers = -1}); }),
      "[model] -1 layers are asked for; give 1 or more");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace luminal::models
