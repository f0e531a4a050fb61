#include "luminal/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "luminal/error.h"
#include "support/files.h"

namespace luminal::text {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

const std::filesystem::path kData = std::string(LUMINAL_SOURCE_DIR) + "/tests/unit/text/data";

/// LUMINAL_SOURCE_DIR/tools/text_tokenizers.py made these with the `tokenizers` package.
class StoredTokenizer : public testing::TestWithParam<const char*> {
 protected:
  Tokenizer tokenizer_{read_tokenizer(kData / (std::string(GetParam()) + ".json"))};
  nlohmann::json cases_ =
      nlohmann::json::parse(test::content_of(kData / (std::string(GetParam()) + ".cases.json")));
};

TEST_P(StoredTokenizer, EncodesAndDecodesAsTheTokenizersPackage) {
  ASSERT_GE(cases_.size(), 100U);
  for (const auto& entry : cases_) {
    const auto text = entry[0].get<std::string>();
    EXPECT_EQ(tokenizer_.encode(text), entry[1].get<std::vector<TokenId>>()) << entry[0];
    EXPECT_EQ(tokenizer_.decode(entry[1].get<std::vector<TokenId>>()), entry[2].get<std::string>())
        << entry[0];
  }
}

TEST_P(StoredTokenizer, StreamsWholeCharactersThatMakeTheSameText) {
  for (const auto& entry : cases_) {
    StreamDecoder decoder(tokenizer_);
    std::string text;
    for (const TokenId id : entry[1].get<std::vector<TokenId>>()) {
      const std::string piece = decoder.push(id);
      EXPECT_NO_THROW((void)nlohmann::json(piece).dump()) << "not UTF-8 by itself";
      text += piece;
    }
    EXPECT_EQ(text + decoder.finish(), entry[2].get<std::string>()) << entry[0];
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, StoredTokenizer,
                         testing::Values("gpt2", "gpt2_prefix", "llama3", "qwen2", "llama2", "metaspace_bpe",
                                         "unigram", "word_piece", "suffixed_bpe"),
                         [](const auto& name) { return name.param; });

TokenizerSpec letters() {
  TokenizerSpec spec;
  spec.vocabulary = {"<unk>", "a", "b", "aa", "ab", "aab", "<0x41>"};
  spec.scores = {0, -9, -9, -1, -2, -0.5, 0};
  spec.unknown = 0;
  return spec;
}

/// Worked out by hand: "aa" has the best score of all pairs, then "aa" and "b" join.
TEST(Tokenizer, JoinsByScoreWhereThereAreNoMerges) {
  const Tokenizer tokenizer(letters());
  EXPECT_THAT(tokenizer.encode("aab"), ElementsAre(5));
  EXPECT_THAT(tokenizer.encode("aaab"), ElementsAre(3, 4));
  EXPECT_THAT(tokenizer.encode("bxa"), ElementsAre(2, 0, 1));
}

TEST(Tokenizer, AMegabyteOfOneLetterTakesNoTime) {
  const Tokenizer tokenizer(letters());
  EXPECT_EQ(tokenizer.encode(std::string(1 << 20, 'a')).size(), 1U << 19);
}

TEST(Tokenizer, ControlTokensInTextFromOutsideAreText) {
  const Tokenizer tokenizer(read_tokenizer(kData / "llama3.json"));
  const TokenId end = tokenizer.find("<|end|>").value();
  EXPECT_THAT(tokenizer.encode("<|end|>", {.add_special = false}), ElementsAre(end));
  const auto ids = tokenizer.encode("<|end|>", {.add_special = false, .parse_special = false});
  EXPECT_THAT(ids, testing::Not(testing::Contains(end)));
  EXPECT_EQ(tokenizer.decode(ids), "<|end|>");
  EXPECT_EQ(tokenizer.decode(std::vector{end}), "");
  EXPECT_EQ(tokenizer.decode(std::vector{end}, false), "<|end|>");
}

TEST(Tokenizer, TheBytesOfTokensMakeTheText) {
  for (const char* name : {"llama3", "llama2"}) {
    const Tokenizer tokenizer(read_tokenizer(kData / (std::string(name) + ".json")));
    const auto bytes = tokenizer.token_bytes();
    std::string text;
    for (const TokenId id : tokenizer.encode("x 🤖 naïve\n", {.add_special = false}))
      text += bytes[static_cast<size_t>(id)];
    EXPECT_THAT(text, testing::EndsWith("x 🤖 naïve\n"));
    EXPECT_LE(text.size(), 16U);
  }
}

TEST(Tokenizer, ErrorsSayWhatIsWrong) {
  const Tokenizer tokenizer(letters());
  EXPECT_THAT([&] { (void)tokenizer.encode("ab\xff"); },
              ThrowsMessage<FormatError>(HasSubstr("byte 0xff at offset 2 is not UTF-8")));
  EXPECT_THAT([&] { (void)tokenizer.decode(std::vector<TokenId>{7}); },
              ThrowsMessage<Error>(HasSubstr("there is no token 7; ids go from 0 to 6")));
  EXPECT_THAT([] { (void)parse_tokenizer("{", "t.json"); },
              ThrowsMessage<FormatError>(HasSubstr("t.json: ")));
  EXPECT_THAT([] { (void)parse_tokenizer(R"({"model": {"type": "WordLevel", "vocab": {}}})", "t.json"); },
              ThrowsMessage<FormatError>(HasSubstr("the model \"WordLevel\" is not known")));
  EXPECT_THAT(
      [] { (void)parse_tokenizer(R"({"model": {"vocab": {"a": 99999999999}, "merges": []}})", "t.json"); },
      ThrowsMessage<FormatError>(HasSubstr("has the id 99999999999")));
  TokenizerSpec spec = letters();
  spec.merges = {{"a", "c"}};
  EXPECT_THAT([&] { (void)Tokenizer(spec); },
              ThrowsMessage<FormatError>(
                  HasSubstr("merge 0 joins 'a' and 'c' to 'ac', and 'c' is not in the vocabulary")));
  spec = letters();
  spec.pre_tokenizers = {{.pattern = {"(a", true}}};
  EXPECT_THAT([&] { (void)Tokenizer(spec); }, ThrowsMessage<FormatError>(HasSubstr("(a does not compile")));
}

/// Every expression that takes exponentially many steps ends with an error or a match.
TEST(Tokenizer, PatternsThatBacktrackForeverEnd) {
  TokenizerSpec spec = letters();
  spec.pre_tokenizers = {{.pattern = {"(a|aa)+$", true}}};
  EXPECT_THAT([&] { (void)Tokenizer(spec).encode(std::string(60, 'a') + "b"); },
              ThrowsMessage<FormatError>(HasSubstr("gives up at offset 0")));
}

}  // namespace
}  // namespace luminal::text
