#include "luminal/models/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "luminal/error.h"
#include "luminal/gguf.h"
#include "luminal/model_folder.h"
#include "luminal/models/gguf_tokenizer.h"
#include "luminal/models/language_model.h"
#include "luminal/safetensors.h"
#include "support/files.h"

// Conversions beside GGUF files that the `gguf` package wrote of the same weights, and beside what transformers
// computes with them (tools/language_models.py).
namespace luminal::models {
namespace {

using test::error_of;
using testing::HasSubstr;
namespace fs = std::filesystem;

const fs::path kData = std::string(LUMINAL_SOURCE_DIR) + "/tests/unit/models/data";

/// The folders of all families; or those that have a GGUF file beside.
std::vector<std::string> stored_folders(bool with_gguf) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kData / "families"))
    if (entry.is_directory() && (!with_gguf || exists(entry.path() / "model.gguf")))
      names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}
std::string plain_name(const testing::TestParamInfo<std::string>& each) { return each.param; }

/// A copy without the tokenizer, whose kind GGUF files do not know.
void copy_weights(const fs::path& from, const fs::path& to) {
  create_directories(to);
  for (const char* name : {"config.json", "model.safetensors"}) copy(from / name, to / name);
}

/// The logits behind the prompt and behind one more token beside those of transformers.
void expect_stored_logits(const fs::path& model_path, const std::string& family) {
  const SafetensorsFile file(kData / "families" / family / "expected.safetensors");
  const TensorData ids = file.read("tokens"), logits = file.read("logits");
  const std::vector<text::TokenId> tokens(ids.as<int32_t>().begin(), ids.as<int32_t>().end());
  const auto size = static_cast<size_t>(logits.dims[1]);
  const size_t prompt = tokens.size() - static_cast<size_t>(logits.dims[0]) + 1;
  LanguageModel model(model_path, {.context = 64, .decoded = Dtype::F32});
  for (const size_t step : {0, 1}) {
    const auto wanted = logits.as<float>().subspan(step * size, size);
    const auto got = model.logits(std::span(tokens).first(prompt + step));
    ASSERT_EQ(got.size(), size);
    float most = 0;
    for (const float value : wanted) most = std::max(most, std::abs(value));
    for (size_t i = 0; i < size; ++i) ASSERT_NEAR(got[i], wanted[i], 1e-4 * most) << step << " " << i;
  }
}

class FolderToGguf : public testing::TestWithParam<std::string> {};

TEST_P(FolderToGguf, ComputesWhatTransformersDoes) {
  const test::TemporaryFolder temporary;
  copy_weights(kData / "families" / GetParam(), temporary.path() / "in");
  convert_to_gguf(temporary.path() / "in", temporary.path() / "out.gguf");
  expect_stored_logits(temporary.path() / "out.gguf", GetParam());
}
INSTANTIATE_TEST_SUITE_P(Families, FolderToGguf, testing::ValuesIn(stored_folders(false)), plain_name);

std::optional<double> number_of(const GgufValue& value) {
  if (const auto* real = std::get_if<float>(&value)) return *real;
  if (const auto whole = value.integer()) return static_cast<double>(*whole);
  return std::nullopt;
}

class StoredGguf : public testing::TestWithParam<std::string> {};

TEST_P(StoredGguf, EqualsTheFileOfThePythonPackage) {
  const test::TemporaryFolder temporary;
  const fs::path folder = kData / "families" / GetParam();
  copy_weights(folder, temporary.path() / "in");
  convert_to_gguf(temporary.path() / "in", temporary.path() / "out.gguf");
  const GgufFile wanted(folder / "model.gguf"), got(temporary.path() / "out.gguf");
  for (const auto& [key, value] : wanted.metadata()) {
    if (key.starts_with("GGUF.") || key.starts_with("general.")) continue;
    const GgufValue* ours = got.find(key);
    ASSERT_NE(ours, nullptr) << key;
    if (const auto number = number_of(value))
      EXPECT_NEAR(number_of(*ours).value_or(NAN), *number, 1e-6 * std::abs(*number)) << key;
    else
      EXPECT_EQ(*ours, value) << key;
  }
  ASSERT_EQ(got.tensors().size(), wanted.tensors().size());
  for (const GgufTensorInfo& tensor : wanted.tensors()) {
    ASSERT_EQ(got.tensor(tensor.name).dims, tensor.dims) << tensor.name;
    const TensorData ours = got.read_f32(tensor.name), theirs = wanted.read_f32(tensor.name);
    if (tensor.name != "rope_freqs.weight") {
      EXPECT_EQ(ours.bytes, theirs.bytes) << tensor.name;
      continue;
    }
    for (size_t i = 0; i < ours.as<float>().size(); ++i)
      EXPECT_NEAR(ours.as<float>()[i], theirs.as<float>()[i], 1e-6 * theirs.as<float>()[i]);
  }
}

// Norms of Gemma hold one more in GGUF files, which rounds them.
TEST_P(StoredGguf, BecomesTheFolderAgain) {
  const test::TemporaryFolder temporary;
  const fs::path folder = kData / "families" / GetParam();
  convert_to_folder(folder / "model.gguf", temporary.path() / "out");
  const ModelFolder wanted(folder), got(temporary.path() / "out");
  std::vector<std::string> names = wanted.names();
  std::erase(names, "lm_head.weight");  // left out where it is the table of embeddings
  for (const std::string& name : names) {
    const TensorData theirs = wanted.read(name), ours = got.read(name);
    ASSERT_EQ(ours.dims, theirs.dims) << name;
    if (!GetParam().starts_with("gemma") || name.find("norm") == std::string::npos) {
      EXPECT_EQ(ours.bytes, theirs.bytes) << name;
      continue;
    }
    for (size_t i = 0; i < ours.as<float>().size(); ++i)
      EXPECT_NEAR(ours.as<float>()[i], theirs.as<float>()[i], 2e-7);
  }
  expect_stored_logits(temporary.path() / "out", GetParam());
  convert_to_gguf(temporary.path() / "out", temporary.path() / "again.gguf");
  const GgufFile first(folder / "model.gguf"), again(temporary.path() / "again.gguf");
  for (const GgufTensorInfo& tensor : first.tensors())
    if (!GetParam().starts_with("gemma") && tensor.name != "rope_freqs.weight") {
      EXPECT_EQ(again.read(tensor.name).bytes, first.read(tensor.name).bytes) << tensor.name;
    }
}
// transformers refuses a config.json with a real number for a whole one, and takes tokens of its own where none are said.
TEST_P(StoredGguf, SaysWholeNumbersAndAllTokens) {
  const test::TemporaryFolder temporary;
  convert_to_folder(kData / "families" / GetParam() / "model.gguf", temporary.path() / "out");
  const auto config = nlohmann::json::parse(test::content_of(temporary.path() / "out" / "config.json"));
  const auto stored =
      nlohmann::json::parse(test::content_of(kData / "families" / GetParam() / "config.json"));
  for (const auto& [key, value] : config.items())
    if (const auto wanted = stored.find(key); wanted != stored.end() && wanted->is_number_integer()) {
      EXPECT_TRUE(value.is_number_integer() || value.is_null()) << key << ": " << value;
    }
  for (const char* token : {"bos_token_id", "eos_token_id", "pad_token_id"})
    EXPECT_TRUE(config.contains(token)) << token;
}
INSTANTIATE_TEST_SUITE_P(Families, StoredGguf, testing::ValuesIn(stored_folders(true)), plain_name);

/// Ids and texts of all stored cases.
void expect_stored_cases(const text::Tokenizer& tokenizer, const fs::path& cases_file) {
  const auto cases = nlohmann::json::parse(test::content_of(cases_file));
  ASSERT_GE(cases.size(), 80U);
  for (const auto& entry : cases) {
    const auto ids = entry[1].get<std::vector<text::TokenId>>();
    ASSERT_EQ(tokenizer.encode(entry[0].get<std::string>()), ids) << entry[0];
    ASSERT_EQ(tokenizer.decode(ids), entry[2].get<std::string>()) << entry[0];
  }
}

class TokenizerToGguf : public testing::TestWithParam<std::string> {};
TEST_P(TokenizerToGguf, GivesTheIdsOfItsOwnPackage) {
  const fs::path folder = std::string(LUMINAL_SOURCE_DIR) + "/tests/unit/text/data";
  const text::TokenizerSpec spec = text::read_tokenizer(folder / (GetParam() + ".json"));
  const GgufMetadata metadata = gguf_tokenizer_metadata(spec, {});
  expect_stored_cases(text::Tokenizer(gguf_tokenizer(metadata)), folder / (GetParam() + ".cases.json"));
}
INSTANTIATE_TEST_SUITE_P(Kinds, TokenizerToGguf, testing::Values("gpt2_prefix", "qwen2"), plain_name);

class TokenizerFromGguf : public testing::TestWithParam<std::string> {};
TEST_P(TokenizerFromGguf, GivesTheIdsOfItsOwnPackage) {
  const GgufFile file(kData / (GetParam() + ".gguf"));
  const test::TemporaryFolder folder;
  text::TokenizerSpec spec = gguf_tokenizer(file.metadata());
  spec.chat_template = "{{ bos_token }}";
  text::write_tokenizer(spec, folder.path());
  const text::TokenizerSpec read = text::read_tokenizer(folder.path());
  EXPECT_EQ(read.chat_template, spec.chat_template);
  EXPECT_EQ(read.begin_token, spec.begin_token);
  EXPECT_EQ(read.end_token, spec.end_token);
  expect_stored_cases(text::Tokenizer(read), kData / (GetParam() + ".cases.json"));
  const GgufMetadata again = gguf_tokenizer_metadata(read, {});
  expect_stored_cases(text::Tokenizer(gguf_tokenizer(again)), kData / (GetParam() + ".cases.json"));
}
INSTANTIATE_TEST_SUITE_P(Kinds, TokenizerFromGguf,
                         testing::Values("gpt2", "llama3", "qwen2", "word_piece", "sp_bpe", "sp_unigram"),
                         plain_name);

TEST(ConvertErrors, SayWhatIsWrongAndLeaveNothing) {
  const test::TemporaryFolder temporary;
  const fs::path& at = temporary.path();
  const text::TokenizerSpec letters = text::read_tokenizer(kData / "families" / "llama");
  EXPECT_THAT(error_of<FormatError>([&] { (void)gguf_tokenizer_metadata(letters, {}); }),
              HasSubstr("the keys of GGUF files cannot say what it does: 'Hello, world!"));
  const text::TokenizerSpec strips =
      text::read_tokenizer(std::string(LUMINAL_SOURCE_DIR) + "/tests/unit/text/data/llama2.json");
  EXPECT_THAT(error_of<FormatError>([&] { (void)gguf_tokenizer_metadata(strips, {}); }),
              HasSubstr("'one </s> two' becomes other tokens"));
  copy_weights(kData / "families" / "qwen2", at / "in");
  auto config = nlohmann::json::parse(test::content_of(at / "in" / "config.json"));
  config["use_sliding_window"] = true;
  config["sliding_window"] = 8;
  config["max_window_layers"] = 1;
  (void)temporary.file("in/config.json", config.dump());
  EXPECT_THAT(error_of<FormatError>([&] { convert_to_gguf(at / "in", at / "out.gguf"); }),
              HasSubstr("GGUF metadata of qwen2 models cannot say what config.json says (window: 8 and 0)"));
  EXPECT_FALSE(exists(at / "out.gguf"));
  EXPECT_THAT(
      error_of<Error>([&] { convert_to_folder(kData / "families" / "qwen2" / "model.gguf", at / "in"); }),
      HasSubstr("exists already; give a new folder"));
  EXPECT_THAT(error_of<DtypeError>([&] { convert_to_folder(at / "x.gguf", at / "new", Dtype::I32); }),
              HasSubstr("blocks become f16, bf16 or f32, not i32"));
  EXPECT_EQ(std::distance(fs::directory_iterator(at), {}), 1);
}

}  // namespace
}  // namespace luminal::models
