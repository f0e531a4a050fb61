#include "luminal/models/embedding_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "luminal/error.h"
#include "luminal/gguf.h"
#include "luminal/models/convert.h"
#include "luminal/models/language_model.h"
#include "luminal/models/quantize.h"
#include "luminal/safetensors.h"
#include "support/files.h"

// Tiny encoders with random weights beside what transformers computes with them (tools/embedding_models.py).
namespace luminal::models {
namespace {

using test::error_of;
using testing::HasSubstr;
namespace fs = std::filesystem;

const fs::path kEncoders = std::string(LUMINAL_SOURCE_DIR) + "/tests/unit/models/data/encoders";

std::vector<std::string> texts_of(const std::string& name) {
  return nlohmann::json::parse(test::content_of(kEncoders / name / "texts.json"))
      .get<std::vector<std::string>>();
}

/// Vectors of length 1 beside the stored ones.
void expect_stored_vectors(const std::vector<Embedding>& got, const std::string& name, float bound = 1e-5F) {
  const TensorData wanted = SafetensorsFile(kEncoders / name / "expected.safetensors").read("vectors");
  const auto size = static_cast<size_t>(wanted.dims[1]);
  ASSERT_EQ(std::ssize(got), wanted.dims[0]);
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].values.size(), size);
    for (size_t j = 0; j < size; ++j)
      ASSERT_NEAR(got[i].values[j], wanted.as<float>()[i * size + j], bound) << i << " " << j;
  }
}

class StoredEncoder : public testing::TestWithParam<std::string> {};

TEST_P(StoredEncoder, GivesTheVectorsOfTransformers) {
  const std::vector<std::string> texts = texts_of(GetParam());
  for (const fs::path& path : {kEncoders / GetParam(), kEncoders / GetParam() / "model.gguf"}) {
    EmbeddingModel model(path);
    const std::vector<Embedding> all = model.embed(texts);
    expect_stored_vectors(all, GetParam());
    std::vector<Embedding> alone;  // without padding to the length of others
    for (const std::string& text : texts) alone.push_back(model.embed(std::vector{text}).front());
    expect_stored_vectors(alone, GetParam());
    EXPECT_EQ(all[0].tokens, 3);  // a word and the two that the tokenizer adds
    EXPECT_EQ(all[0].tokens, std::ssize(model.tokenizer().encode(texts[0])));
  }
}

// But for the token of padding, which texts do not have, and the type of the unknown one.
TEST_P(StoredEncoder, BecomesTheFileOfThePythonPackage) {
  const test::TemporaryFolder temporary;
  const fs::path file = temporary.path() / "out.gguf";
  convert_to_gguf(kEncoders / GetParam(), file);
  const GgufFile wanted(kEncoders / GetParam() / "model.gguf"), got(file);
  for (const auto& [key, value] : wanted.metadata()) {
    if (key.starts_with("GGUF.") || key.starts_with("general.") || key.ends_with("padding_token_id") ||
        key.ends_with("token_type"))
      continue;
    const GgufValue* ours = got.find(key);
    ASSERT_NE(ours, nullptr) << key;
    EXPECT_EQ(*ours, value) << key;
  }
  ASSERT_EQ(got.tensors().size(), wanted.tensors().size());
  for (const GgufTensorInfo& tensor : wanted.tensors())
    EXPECT_EQ(got.read_f32(tensor.name).bytes, wanted.read_f32(tensor.name).bytes) << tensor.name;
}

TEST_P(StoredEncoder, BecomesAFolderAgain) {
  const test::TemporaryFolder temporary;
  const fs::path folder = temporary.path() / "out";
  convert_to_folder(kEncoders / GetParam() / "model.gguf", folder);
  EmbeddingModel model(folder);
  expect_stored_vectors(model.embed(texts_of(GetParam())), GetParam());
  const auto read = [](const fs::path& path) { return nlohmann::json::parse(test::content_of(path)); };
  EXPECT_EQ(read(folder / "modules.json"), read(kEncoders / GetParam() / "modules.json"));
  const auto config = read(folder / "config.json"), wanted = read(kEncoders / GetParam() / "config.json");
  for (const char* key : {"architectures", "model_type", "hidden_act", "hidden_size", "intermediate_size",
                          "max_position_embeddings", "num_attention_heads", "num_hidden_layers",
                          "type_vocab_size", "vocab_size"})
    EXPECT_EQ(config.at(key), wanted.at(key)) << key;
  EXPECT_EQ(config.size(), 16U);  // and the epsilon, positions, ties, and three tokens
}

INSTANTIATE_TEST_SUITE_P(Poolings, StoredEncoder, testing::Values("mean", "cls"),
                         [](const auto& each) { return each.param; });

TEST(EncoderOfBlocks, GivesNearlyTheSame) {
  const test::TemporaryFolder temporary;
  const fs::path file = temporary.path() / "q8.gguf";
  (void)quantize_model(kEncoders / "mean" / "model.gguf", file, "Q8_0");
  EmbeddingModel model(file);
  EXPECT_LT(model.weight_bytes(), 4 * model.parameter_count() / 2);
  expect_stored_vectors(model.embed(texts_of("mean")), "mean", 2e-2F);
}

TEST(EmbeddingOptions, LeaveLengthsAndCutTexts) {
  const std::vector<std::string> texts = texts_of("mean");
  EmbeddingModel model(kEncoders / "mean", {.normalize = false});
  std::vector<Embedding> found = model.embed(texts);
  for (Embedding& each : found) {
    const float length =
        std::sqrt(std::inner_product(each.values.begin(), each.values.end(), each.values.begin(), 0.0F));
    EXPECT_GT(std::abs(length - 1), 0.1F);
    for (float& value : each.values) value /= length;
  }
  expect_stored_vectors(found, "mean");
  std::string words;
  for (int i = 0; i < 46; ++i) words += "cat ";
  EmbeddingModel cuts(kEncoders / "mean", {.truncate = true});
  const auto cut = cuts.embed(std::vector{words + "rose rose rose", words});  // 46 words have 48 tokens
  EXPECT_EQ(cut[0].tokens, cuts.context());
  for (size_t i = 0; i < cut[0].values.size(); ++i) EXPECT_EQ(cut[0].values[i], cut[1].values[i]);
  EXPECT_TRUE(cuts.embed({}).empty());
}

/// A copy of the folder with another file.
void copy_with(const fs::path& to, const std::string& name, const std::string& content) {
  remove_all(to);
  fs::copy(kEncoders / "mean", to, fs::copy_options::recursive);
  std::ofstream(to / name) << content;
}

TEST(EmbeddingErrors, SayWhatIsWrong) {
  const test::TemporaryFolder temporary;
  const fs::path folder = temporary.path() / "model";
  const auto open = [&] { (void)EmbeddingModel(folder); };
  const std::string module = R"({"path": "1_Pooling", "type": "sentence_transformers.models.)";
  copy_with(folder, "modules.json", "[" + module + "Dense\"}]");
  EXPECT_THAT(
      error_of<FormatError>(open),
      HasSubstr("modules.json asks for 'sentence_transformers.models.Dense', which is not supported"));
  copy_with(folder, "modules.json", R"([{"path": "../x", "type": "a.Pooling"}])");
  EXPECT_THAT(error_of<FormatError>(open),
              HasSubstr("modules.json names the folder '../x', which is not within the model's"));
  copy_with(folder, "modules.json", R"([{"path": "2_Pooling", "type": "a.Pooling"}])");
  EXPECT_THAT(error_of<FormatError>(open), HasSubstr("of which modules.json tells"));
  copy_with(folder, "modules.json", "[1]");
  EXPECT_THAT(error_of<FormatError>(open), HasSubstr("modules.json has an entry without \"type\""));
  copy_with(folder, "modules.json", "[{]");
  EXPECT_THAT(error_of<FormatError>(open), HasSubstr("modules.json' is damaged"));
  copy_with(folder, "1_Pooling/config.json", R"({"pooling_mode_max_tokens": true})");
  EXPECT_THAT(error_of<FormatError>(open),
              HasSubstr("pooling by 'max' is not supported; by 'mean' or by 'cls' is"));
  copy_with(folder, "1_Pooling/config.json", R"({"pooling_mode": "cls"})");
  EXPECT_NO_THROW(open());
  auto config = nlohmann::json::parse(test::content_of(kEncoders / "mean" / "config.json"));
  config["hidden_act"] = "relu";
  copy_with(folder, "config.json", config.dump());
  EXPECT_THAT(error_of<FormatError>(open),
              HasSubstr("the activation 'relu' of this bert model is not known"));
  config["hidden_act"] = "gelu_new";
  copy_with(folder, "config.json", config.dump());
  EXPECT_THAT(error_of<FormatError>([&] { convert_to_gguf(folder, temporary.path() / "x.gguf"); }),
              HasSubstr("cannot say what config.json says (activation)"));
}

TEST(EmbeddingErrors, SayWhatModelsAndTextsAreFor) {
  const fs::path llama = kEncoders.parent_path() / "families" / "llama";
  EXPECT_THAT(error_of<FormatError>([&] { (void)EmbeddingModel(llama); }),
              HasSubstr("LlamaForCausalLM models make texts and no embeddings; give one of BERT's kind"));
  EXPECT_THAT(error_of<FormatError>([&] { (void)LanguageModel(kEncoders / "mean" / "model.gguf"); }),
              HasSubstr("bert models make embeddings of texts and no texts; use `luminal embed`"));
  EmbeddingModel model(kEncoders / "mean");
  std::string words;
  for (int i = 0; i < 47; ++i) words += "cat ";
  EXPECT_THAT(error_of<Error>([&] { (void)model.embed(std::vector{words}); }),
              HasSubstr("a text has 49 tokens, and the model takes 48; give a shorter one"));
}

}  // namespace
}  // namespace luminal::models
