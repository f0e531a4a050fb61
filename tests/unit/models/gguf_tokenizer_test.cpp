#include "luminal/models/gguf_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "luminal/error.h"
#include "support/files.h"

namespace luminal::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

const std::filesystem::path kStored = std::string(LUMINAL_SOURCE_DIR) + "/tests/unit/models/data";

/// tools/gguf_tokenizers.py made these. The cases are by the `tokenizers` package and by SentencePiece ("sp_...").
class StoredGgufTokenizer : public testing::TestWithParam<const char*> {};

TEST_P(StoredGgufTokenizer, EncodesAndDecodesAsItsOwnPackage) {
  const std::string name = GetParam();
  const GgufFile file(kStored / (name + ".gguf"));
  const text::Tokenizer tokenizer(gguf_tokenizer(file.metadata()));
  const auto cases = nlohmann::json::parse(test::content_of(kStored / (name + ".cases.json")));
  ASSERT_GE(cases.size(), 80U);
  for (const auto& entry : cases) {
    const auto ids = entry[1].get<std::vector<text::TokenId>>();
    EXPECT_EQ(tokenizer.encode(entry[0].get<std::string>()), ids) << entry[0];
    EXPECT_EQ(tokenizer.decode(ids), entry[2].get<std::string>()) << entry[0];
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, StoredGgufTokenizer,
                         testing::Values("gpt2", "llama3", "qwen2", "word_piece", "sp_bpe", "sp_unigram"),
                         [](const auto& name) { return name.param; });

/// A small vocabulary with all kinds of tokens.
GgufMetadata letters() {
  const auto texts = [](std::vector<std::string> list) {
    GgufArray array{GgufKind::Text, {}};
    for (std::string& text : list) array.values.emplace_back(std::move(text));
    return array;
  };
  GgufArray scores{GgufKind::F32, {}}, types{GgufKind::I32, {}};
  for (const float score : {0.F, 0.F, 0.F, -3.F, -2.F, -1.F, -4.F, 0.F, 0.F})
    scores.values.emplace_back(score);
  for (const int32_t type : {2, 3, 3, 1, 1, 1, 1, 4, 5}) types.values.emplace_back(type);
  return {
      {"general.architecture", std::string("llama")},
      {"tokenizer.ggml.model", std::string("llama")},
      {"tokenizer.ggml.tokens", texts({"<unk>", "<s>", "</s>", "a", "b", "ab", "\u2581", "<|x|>", "[PAD]"})},
      {"tokenizer.ggml.scores", std::move(scores)},
      {"tokenizer.ggml.token_type", std::move(types)},
      {"tokenizer.chat_template", std::string("{{ bos_token }}")}};
}

void set(GgufMetadata& metadata, const std::string& key, GgufValue value) {
  std::erase_if(metadata, [&](const auto& entry) { return entry.first == key; });
  metadata.emplace_back(key, std::move(value));
}

TEST(GgufTokenizer, KindsOfTokensAndDefaultsOfTheModel) {
  const text::Tokenizer tokenizer(gguf_tokenizer(letters()));
  EXPECT_THAT(tokenizer.encode("ab<|x|>ab</s>"), ElementsAre(1, 6, 5, 7, 6, 5, 2));
  EXPECT_THAT(tokenizer.encode("</s>", {.parse_special = false}), testing::Not(testing::Contains(2)));
  EXPECT_THAT(tokenizer.encode("[PAD]"), testing::Not(testing::Contains(8))) << "unused ids are no text";
  EXPECT_TRUE(tokenizer.is_special(1));
  EXPECT_FALSE(tokenizer.is_special(7));
  EXPECT_EQ(tokenizer.decode(std::vector<text::TokenId>{1, 6, 5, 7}), "ab<|x|>");
  EXPECT_EQ(tokenizer.spec().chat_template, "{{ bos_token }}");
  EXPECT_EQ(tokenizer.spec().begin_token, "<s>");
  EXPECT_EQ(tokenizer.spec().end_token, "</s>");
}

TEST(GgufTokenizer, KeysOverrideDefaults) {
  GgufMetadata metadata = letters();
  set(metadata, "tokenizer.ggml.add_bos_token", false);
  set(metadata, "tokenizer.ggml.add_eos_token", true);
  set(metadata, "tokenizer.ggml.eos_token_id", uint32_t{1});
  set(metadata, "tokenizer.ggml.add_space_prefix", false);
  EXPECT_THAT(text::Tokenizer(gguf_tokenizer(metadata)).encode("ab"), ElementsAre(5, 1));
}

TEST(GgufTokenizer, ControlTokensOfPhi3TakeTheBlanksBehindThem) {
  GgufMetadata metadata = letters();
  set(metadata, "general.architecture", std::string("phi3"));
  EXPECT_THAT(text::Tokenizer(gguf_tokenizer(metadata)).encode("a</s> \na"), ElementsAre(1, 6, 3, 2, 6, 3));
}

TEST(GgufTokenizer, StopTokensComeFromKeysAndKnownTexts) {
  GgufMetadata metadata = letters();
  EXPECT_THAT(gguf_stop_tokens(metadata), ElementsAre(2));
  set(metadata, "tokenizer.ggml.eot_token_id", uint32_t{7});
  EXPECT_THAT(gguf_stop_tokens(metadata), ElementsAre(2, 7));
}

TEST(GgufTokenizer, ErrorsSayWhatIsWrong) {
  const auto error_with = [](const std::string& key, GgufValue value) {
    GgufMetadata metadata = letters();
    set(metadata, key, std::move(value));
    try {
      (void)text::Tokenizer(gguf_tokenizer(metadata));
    } catch (const FormatError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT([] { (void)gguf_tokenizer({}); },
              ThrowsMessage<FormatError>(HasSubstr("the file has no tokenizer.ggml.tokens")));
  EXPECT_THAT(error_with("tokenizer.ggml.model", std::string("rwkv")),
              HasSubstr("the model 'rwkv' is not known; there are gpt2, llama, t5 and bert"));
  EXPECT_THAT(error_with("tokenizer.ggml.model", int32_t{3}),
              HasSubstr("tokenizer.ggml.model is 3; it must be a text"));
  EXPECT_THAT(error_with("tokenizer.ggml.bos_token_id", int32_t{-1}),
              HasSubstr("tokenizer.ggml.bos_token_id is -1, which is no id of the 9 tokens"));
  EXPECT_THAT(error_with("tokenizer.ggml.scores", GgufArray{GgufKind::F32, {1.F}}),
              HasSubstr("tokenizer.ggml.scores has 1 entries for 9 tokens"));
  EXPECT_THAT(error_with("tokenizer.ggml.token_type", GgufArray{GgufKind::I32, {int32_t{7}}}),
              HasSubstr("tokenizer.ggml.token_type is 7; it must be numbers from 0 to 6"));
  EXPECT_THAT(error_with("tokenizer.ggml.precompiled_charsmap", GgufArray{GgufKind::U8, {uint8_t{1}}}),
              HasSubstr("precompiled normalisers are not read"));
  GgufMetadata metadata = letters();
  set(metadata, "tokenizer.ggml.model", std::string("gpt2"));
  set(metadata, "tokenizer.ggml.pre", std::string("qwen3"));
  EXPECT_THAT([&] { (void)gguf_tokenizer(metadata); },
              ThrowsMessage<FormatError>(HasSubstr("'qwen3' is not known; did you mean 'qwen2'?")));
  set(metadata, "tokenizer.ggml.pre", std::string("qwen2"));
  set(metadata, "tokenizer.ggml.merges", GgufArray{GgufKind::Text, {std::string("ab")}});
  EXPECT_THAT([&] { (void)gguf_tokenizer(metadata); },
              ThrowsMessage<FormatError>(HasSubstr("the merge 'ab' has no blank between two pieces")));
  set(metadata, "tokenizer.ggml.merges", GgufArray{GgufKind::Text, {}});
  EXPECT_THAT([&] { (void)gguf_tokenizer(metadata); },
              ThrowsMessage<FormatError>(HasSubstr("merges is empty, and tokens have several characters")));
}

}  // namespace
}  // namespace luminal::models
