#include "luminal/models/language_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "luminal/block_format.h"
#include "luminal/error.h"
#include "luminal/gguf.h"
#include "luminal/models/convert.h"
#include "luminal/models/llama.h"
#include "luminal/quantized.h"
#include "luminal/safetensors.h"
#include "models/rounded.h"
#include "support/files.h"
#include "unit/models/stored_models.h"

// Tiny models of each family with random weights beside what transformers computes with them
// (tools/language_models.py), from safetensors and from GGUF.
namespace luminal::models {
namespace {

using test::error_of;
using test::ExpectedLogits;
using test::kModels;
using test::relative_error;
using testing::HasSubstr;

constexpr int64_t kContext = 64;

class StoredModel : public testing::TestWithParam<std::string> {};

TEST_P(StoredModel, GivesTheLogitsOfTransformers) {
  const ExpectedLogits expected(kModels / GetParam());
  LanguageModel model(kModels / GetParam(), {.context = kContext, .decoded = Dtype::F32});
  for (size_t step = 0; expected.prompt + step <= expected.tokens.size(); ++step) {
    const auto got = model.logits(std::span(expected.tokens).first(expected.prompt + step));
    ASSERT_EQ(got.size(), expected.row(step).size());
    ASSERT_LT(relative_error(got, expected.row(step)), 1e-4) << "step " << step;
    EXPECT_EQ(model.computed_tokens(), step == 0 ? static_cast<int64_t>(expected.prompt) : 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, StoredModel, testing::ValuesIn(test::stored_models()),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::ranges::replace_if(name, [](char c) { return c == '/' || c == '.'; }, '_');
                           return name;
                         });

// What is in the cache is reused as far as texts agree, and gives what a fresh start gives; a rounded cache nearly so.
TEST(LanguageModelCache, KeepsWhatTextsShare) {
  const ExpectedLogits expected(kModels / "gemma3");
  const std::span<const text::TokenId> all(expected.tokens);
  LanguageModel model(kModels / "gemma3", {.context = kContext});
  (void)model.logits(all);
  const auto again = model.logits(all.first(expected.prompt + 3));  // goes back
  EXPECT_EQ(model.computed_tokens(), 1);
  EXPECT_LT(relative_error(again, expected.row(3)), 1e-4);
  std::vector<text::TokenId> other(all.begin(), all.begin() + 30);
  other[10] = other[10] == 5 ? 6 : 5;
  const auto kept = model.logits(other);
  EXPECT_EQ(model.computed_tokens(), 20);
  const std::vector<float> reused(kept.begin(), kept.end());
  LanguageModel fresh(kModels / "gemma3", {.context = kContext});
  EXPECT_LT(relative_error(reused, fresh.logits(other)), 1e-5);
  for (const auto& [dtype, bound] : {std::pair(Dtype::F16, 5e-3), std::pair(Dtype::BF16, 5e-2)}) {
    LanguageModel rounded(kModels / "gemma3", {.context = kContext, .cache = dtype});
    const double error = relative_error(rounded.logits(other), reused);
    EXPECT_LT(error, bound) << name(dtype);
    EXPECT_GT(error, 0) << name(dtype);
  }
}

// Texts that take turns, a part of a prompt and a token at a time, get what each gets alone.
TEST(LanguageModelSequences, KeepEachTextsRows) {
  const std::vector<text::TokenId> first{5, 17, 9, 40, 3, 22, 8, 30, 11, 4}, second{5, 17, 1, 2, 60, 33};
  LanguageModel alone(kModels / "gemma3", {.context = kContext}),
      both(kModels / "gemma3", {.context = kContext, .sequences = 2});
  EXPECT_EQ(both.sequences(), 2);
  EXPECT_EQ(both.cache_bytes(),
            2 * both.sizes().layers * both.sizes().kv_heads * 256 * both.sizes().head_size * 4);
  const auto expect_turn = [&](std::span<const text::TokenId> text, int64_t sequence, int64_t computed) {
    const auto got = both.logits(text, sequence);
    EXPECT_EQ(both.computed_tokens(), computed);
    const std::vector<float> kept(got.begin(), got.end());
    EXPECT_LT(relative_error(kept, alone.logits(text)), 1e-5);
  };
  expect_turn(std::span(first).first(4), 0, 4);
  EXPECT_EQ(both.known_tokens(second, 0), 2);
  EXPECT_EQ(both.known_tokens(second, 1), 0);
  expect_turn(std::span(second).first(5), 1, 5);
  expect_turn(std::span(first).first(9), 0, 5);
  expect_turn(second, 1, 1);
  expect_turn(first, 0, 1);
  EXPECT_EQ(both.known_tokens(first, 0), 10);
}

TEST(LanguageModelSequences, TakeOverWhatOthersHold) {
  const std::vector<text::TokenId> first{5, 17, 9, 40, 3, 22, 8}, second{5, 17, 9, 40, 11, 4};
  LanguageModel alone(kModels / "gemma3", {.context = kContext}),
      both(kModels / "gemma3", {.context = kContext, .sequences = 2});
  (void)both.logits(first, 0);
  (void)both.logits(std::vector<text::TokenId>{60, 61, 62, 63, 1}, 1);
  both.copy_tokens(0, 1, 4);
  EXPECT_EQ(both.known_tokens(second, 1), 4);
  const auto got = both.logits(second, 1);
  EXPECT_EQ(both.computed_tokens(), 2);
  const std::vector<float> kept(got.begin(), got.end());
  EXPECT_LT(relative_error(kept, alone.logits(second)), 1e-5);
  EXPECT_EQ(both.known_tokens(first, 0), 7);  // and gave nothing away
  EXPECT_EQ(error_of<Error>([&] { both.copy_tokens(0, 1, 8); }),
            "[model] 8 tokens of sequence 0 are asked for, and it holds 7");
}

// Texts of different lengths that take steps together get what each gets alone; one may pause, and one may go on alone.
TEST_P(StoredModel, TakesAStepOfSeveralTexts) {
  constexpr size_t kTexts = 3, kSteps = 4;
  const auto path = kModels / GetParam();
  LanguageModel alone(path, {.context = kContext, .decoded = Dtype::F32}),
      together(path, {.context = kContext, .decoded = Dtype::F32, .sequences = 5});
  const ExpectedLogits expected(path);
  std::vector<std::vector<text::TokenId>> texts;
  for (size_t t = 0; t < kTexts; ++t) {
    texts.emplace_back(expected.tokens.begin() + static_cast<ptrdiff_t>(t),
                       expected.tokens.begin() + static_cast<ptrdiff_t>(8 + 7 * t));
    (void)together.logits(texts[t], static_cast<int64_t>(t));
  }
  for (size_t step = 0; step < kSteps; ++step) {
    std::vector<LanguageModel::SequenceText> asked;
    for (size_t t = step == 2 ? 1 : 0; t < kTexts; ++t) {
      texts[t].push_back(expected.tokens[(13 * t + step) % expected.tokens.size()]);
      asked.push_back({static_cast<int64_t>(t), texts[t]});
    }
    const auto got = together.joint_logits(asked);
    EXPECT_EQ(together.computed_tokens(), std::ssize(asked));
    const std::vector<float> all(got.begin(), got.end());
    const size_t each = all.size() / asked.size();
    for (size_t i = 0; i < asked.size(); ++i)
      ASSERT_LT(relative_error(std::span(all).subspan(i * each, each), alone.logits(asked[i].text)), 1e-5)
          << "step " << step << ", text " << asked[i].sequence;
  }
  texts[1].push_back(5);
  const auto got = together.logits(texts[1], 1);
  EXPECT_EQ(together.computed_tokens(), 1);
  const std::vector<float> kept(got.begin(), got.end());
  EXPECT_LT(relative_error(kept, alone.logits(texts[1])), 1e-5);
}

TEST(LanguageModelSequences, TakeAStepTogetherOnlyIfTheyCan) {
  LanguageModel model(kModels / "llama", {.context = kContext, .sequences = 2});
  const std::vector<text::TokenId> one{5}, three{5, 17, 9};
  using Texts = std::vector<LanguageModel::SequenceText>;
  const auto refused = [&](const Texts& texts) {
    return error_of<Error>([&] { (void)model.joint_logits(texts); });
  };
  EXPECT_EQ(refused({}), "[model] 0 texts in a joint step; give 1 to 16");
  EXPECT_EQ(refused({{0, one}, {0, one}}), "[model] sequence 0 is twice in a joint step");
  EXPECT_EQ(
      refused({{0, one}, {1, three}}),
      "[model] sequence 1 lacks 3 tokens of its text; a joint step computes one, logits() does the rest");
  EXPECT_EQ(refused({{0, one}, {2, one}}), "[model] sequence 2 is asked for, and the model was opened for 2");
  (void)model.logits(three, 1);
  EXPECT_EQ(model.joint_logits(Texts{{0, one}, {1, three}}).size(),
            2 * static_cast<size_t>(model.sizes().vocabulary));
  EXPECT_EQ(model.known_tokens(three, 1), 3);
}

TEST(LanguageModelSequences, AreRefusedWhereThereAreNone) {
  LanguageModel model(kModels / "llama", {.context = kContext, .sequences = 2});
  const std::vector<text::TokenId> ids{5};
  EXPECT_EQ(error_of<Error>([&] { (void)model.logits(ids, 2); }),
            "[model] sequence 2 is asked for, and the model was opened for 2");
  EXPECT_EQ(error_of<Error>([&] { LanguageModel(kModels / "llama", {.sequences = 0}); }),
            "[model] 0 sequences are asked for; keep the caches of at least one");
}

/// A copy of a GGUF file with the matrices whose rows are whole blocks of `format` as these blocks, or as f32 with
/// their values.
void write_rounded(const std::filesystem::path& from, const std::filesystem::path& to,
                   const BlockFormat& format, bool as_blocks) {
  const GgufFile file(from);
  std::vector<GgufTensorInfo> tensors = file.tensors();
  const auto chosen = [&](const GgufTensorInfo& tensor) {
    return tensor.dims.size() >= 2 && tensor.dims.back() % format.block_elements == 0;
  };
  for (GgufTensorInfo& tensor : tensors)
    if (chosen(tensor)) tensor.type = &gguf_type(as_blocks ? format.name : "f32");
  GgufWriter writer(to, file.metadata(), tensors);
  for (const GgufTensorInfo& tensor : tensors) {
    const TensorData values = file.read_f32(tensor.name);
    if (!chosen(tensor)) {
      writer.append(values.bytes);
      continue;
    }
    TensorData blocks(format.dtype, tensor.dims);
    encode_blocks(format, values.as<float>(), blocks.bytes);
    writer.append(as_blocks ? blocks.bytes : dequantize(blocks).bytes);
  }
  writer.finish();
}

struct BlockCase {
  std::string model, format;
};
class ModelOfBlocks : public testing::TestWithParam<BlockCase> {};

// Tables of embeddings, tied heads and experts among them; for a prompt and for a step behind it.
TEST_P(ModelOfBlocks, GivesWhatItsValuesGive) {
  const test::TemporaryFolder folder;
  const std::filesystem::path from = kModels / GetParam().model / "model.gguf";
  const std::filesystem::path blocks = folder.path() / "blocks.gguf", plain = folder.path() / "plain.gguf";
  const BlockFormat& format = *find_block_format(GetParam().format);
  write_rounded(from, blocks, format, true);
  write_rounded(from, plain, format, false);
  LanguageModel wanted(plain, {.context = kContext}), kept(blocks, {.context = kContext});
  EXPECT_EQ(kept.parameter_count(), wanted.parameter_count());
  EXPECT_LT(kept.weight_bytes(), wanted.weight_bytes() / 2);
  const std::vector<text::TokenId> ids{5, 17, 9, 40, 3, 22};
  for (const size_t length : {5, 6}) {
    const auto text = std::span(ids).first(length);
    EXPECT_LT(relative_error(kept.logits(text), wanted.logits(text)), 1e-5) << length;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, ModelOfBlocks,
                         testing::Values(BlockCase{"llama", "Q8_0"}, BlockCase{"llama3", "Q4_0"},
                                         BlockCase{"mixtral", "Q5_1"}, BlockCase{"qwen2", "IQ4_NL"},
                                         BlockCase{"gpt2", "MXFP4"}),
                         [](const auto& each) { return each.param.model + "_" + each.param.format; });

TEST(DecodedBlocks, GiveNearlyTheSame) {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "blocks.gguf";
  write_rounded(kModels / "llama" / "model.gguf", file, *find_block_format("Q8_0"), true);
  const std::vector<text::TokenId> ids{5, 17, 9, 40, 3, 22};
  LanguageModel kept(file), exact(file, {.decoded = Dtype::F32}), half(file, {.decoded = Dtype::F16});
  const std::span<const float> logits = kept.logits(ids);
  EXPECT_LT(relative_error(exact.logits(ids), logits), 1e-5);
  const double rounded = relative_error(half.logits(ids), logits);
  EXPECT_LT(rounded, 1e-2);
  EXPECT_GT(rounded, 0);
  EXPECT_EQ(exact.weight_bytes(), 4 * exact.parameter_count());
}

class ModelOfRoundedActivations : public testing::TestWithParam<BlockCase> {};

// The interpreter rounds as kernels do, but a number next to a tie may go either way, which moves what follows by a part
// of what rounding does.
TEST_P(ModelOfRoundedActivations, ChangeLogitsALittleAndAlikeOnAllDevices) {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "blocks.gguf";
  write_rounded(kModels / GetParam().model / "model.gguf", file, *find_block_format(GetParam().format), true);
  LanguageModel exact(file, {.context = kContext}),
      rounded(file, {.context = kContext, .rounded_activations = true}),
      interpreted(file, {.device = "reference", .context = kContext, .rounded_activations = true});
  const std::vector<text::TokenId> ids{5, 17, 9, 40, 3, 22};
  for (const size_t length : {5, 6}) {
    const auto text = std::span(ids).first(length);
    const std::span<const float> got = rounded.logits(text);
    const double rounding = relative_error(got, exact.logits(text));
    EXPECT_GT(rounding, 1e-4) << length;
    EXPECT_LT(rounding, 5e-2) << length;
    EXPECT_LT(relative_error(got, interpreted.logits(text)), rounding / 10) << length;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, ModelOfRoundedActivations,
                         testing::Values(BlockCase{"llama", "Q8_0"}, BlockCase{"llama3", "Q4_0"},
                                         BlockCase{"mixtral", "Q5_1"}, BlockCase{"gpt2", "MXFP4"}),
                         [](const auto& each) { return each.param.model + "_" + each.param.format; });

TEST(RoundedActivations, AreWithoutEffectOnOtherWeights) {
  const std::vector<text::TokenId> ids{5, 17, 9, 40, 3, 22};
  LanguageModel plain(kModels / "llama"), asked(kModels / "llama", {.rounded_activations = true});
  EXPECT_EQ(relative_error(asked.logits(ids), plain.logits(ids)), 0);
}

TEST(RoundedToBlocks, TakesTheNearestOf255Steps) {
  std::vector<float> values;
  for (int i = 0; i < 128; ++i)
    values.push_back(i < 64 ? static_cast<float>(std::sin(i * 12.9898) * std::pow(10.0, i / 32)) : 0);
  values[100] = -3e5F;  // alone in its block; the one before is all zeros
  for (const char* device : {"cpu", "reference"}) {
    Graph cx;
    cx.set_device(device);
    GraphTensor x = cx.tensor({2, 64});
    const GraphTensor y = rounded_to_blocks(x).retrieve();
    x.set(values);
    cx.execute();
    const std::vector<float> got = y.data<float>();
    for (size_t first = 0; first < values.size(); first += 32) {
      float most = 0;
      for (size_t i = first; i < first + 32; ++i) most = std::max(most, std::abs(values[i]));
      const double step = static_cast<double>(most) / 127;
      for (size_t i = first; i < first + 32; ++i) {
        EXPECT_NEAR(got[i], values[i], 0.5001 * step) << device << " " << i;
        if (step > 0) {
          EXPECT_NEAR(got[i] / step, std::round(got[i] / step), 1e-4) << device << " " << i;
        }
      }
    }
    EXPECT_EQ(got[100], -3e5F);
  }
}

// gpt-oss as it was published: experts in MXFP4, which stay blocks in a GGUF file that is made of the folder, too.
TEST(FolderOfBlocks, KeepsThemAndGivesTheLogitsOfTransformers) {
  const test::TemporaryFolder temporary;
  const std::filesystem::path folder = kModels / "gptoss_mxfp4", file = temporary.path() / "out.gguf";
  const ExpectedLogits expected(folder);
  const auto prompt = std::span(expected.tokens).first(expected.prompt);
  convert_to_gguf(folder, file);
  EXPECT_EQ(GgufFile(file).tensor("blk.0.ffn_up_exps.weight").type->dtype, Dtype::MXFP4);
  LanguageModel decoded(folder, {.context = kContext, .decoded = Dtype::F32});
  for (const std::filesystem::path& path : {folder, file}) {
    LanguageModel kept(path, {.context = kContext});
    EXPECT_LT(relative_error(kept.logits(prompt), expected.row(0)), 1e-4) << path;
    EXPECT_EQ(kept.parameter_count(), decoded.parameter_count());
    // 2 experts of 3 matrices of 32 x 32, each block 17 bytes.
    EXPECT_EQ(decoded.weight_bytes() - kept.weight_bytes(), 2 * 3 * 32 * (32 * 4 - 17)) << path;
  }
}

/// A copy of the folder with other experts' blocks.
void write_blocks(const std::filesystem::path& to, const TensorData& blocks) {
  const SafetensorsFile file(kModels / "gptoss_mxfp4" / "model.safetensors");
  std::map<std::string, TensorData> tensors;
  for (const std::string& name : file.names()) tensors.emplace(name, file.read(name));
  tensors.at("model.layers.0.mlp.experts.down_proj_blocks") = blocks;
  std::map<std::string, TensorView> views(tensors.begin(), tensors.end());
  write_safetensors(to / "model.safetensors", views);
}

TEST(FolderOfBlocks, SaysWhatIsWrongWithThem) {
  const test::TemporaryFolder folder;
  copy(kModels / "gptoss_mxfp4" / "config.json", folder.path());
  const auto compute = [&](const TensorData& blocks) {
    write_blocks(folder.path(), blocks);
    return error_of<FormatError>([&] { (void)LanguageModel(folder.path()).logits(std::vector{3}); });
  };
  const char* wanted =
      "[model] MXFP4 weights are u8 [experts, rows, blocks, 16] with u8 scales for each block";
  EXPECT_THAT(compute(TensorData(Dtype::U8, {2, 32, 2, 8})), HasSubstr(wanted));
  EXPECT_THAT(compute(TensorData(Dtype::I8, {2, 32, 1, 16})), HasSubstr(wanted));
  EXPECT_THAT(compute(TensorData(Dtype::U8, {2, 32, 16})),
              HasSubstr("down_proj_blocks' is u8 with 3 axes, which weights of experts are not"));
}

// A Llama of our own, exported, beside its module in the graph that computes it without a cache.
TEST(ExportedLlama, GivesTheLogitsOfItsModule) {
  const test::TemporaryFolder temporary;
  const Llama::Options options{.layers = 2, .size = 32, .heads = 4, .kv_heads = 2};
  Graph cx;
  const Llama module(cx, options);
  const auto weights = nn::state_dict(module);
  const std::filesystem::path folder = temporary.path() / "folder", file = temporary.path() / "own.gguf";
  text::TokenizerSpec tokenizer = text::byte_tokenizer();
  tokenizer.chat_template = "{{ messages[-1]['content'] }}";
  write_llama(options, weights, 48, tokenizer, std::vector{10}, folder);
  write_llama_gguf(options, weights, 48, tokenizer, std::vector{10}, file);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(temporary.path()), {}), 2);
  const std::string text = "Tea, th\u00e9 \u8336!";
  std::vector<int32_t> bytes;
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  const GraphTensor tokens = cx.named_tensor("tokens", {1, std::ssize(bytes)}, Dtype::I32);
  const GraphTensor all = module.forward(tokens).retrieve();
  GraphTensor(tokens).set(bytes);
  cx.execute();
  const std::vector<float> logits = all.data<float>();
  const auto wanted = std::span(logits).last(256);
  for (const std::filesystem::path& path : {folder, file}) {
    LanguageModel model(path);
    EXPECT_EQ(model.tokenizer().encode(text), bytes) << path;
    EXPECT_EQ(model.tokenizer().decode(bytes), text) << path;
    EXPECT_EQ(model.tokenizer().spec().chat_template, tokenizer.chat_template);
    EXPECT_EQ(model.end_tokens(), std::vector{10}) << path;
    EXPECT_EQ(model.context(), 48) << path;
    EXPECT_LT(relative_error(model.logits(bytes), wanted), 1e-5) << path;
  }
  EXPECT_EQ(std::get<std::string>(*GgufFile(file).find("general.name")), "own");
  Llama::Options larger = options;
  larger.vocabulary = 300;
  EXPECT_THAT(error_of<FormatError>([&] { write_llama(larger, weights, 48, tokenizer, {}, folder); }),
              HasSubstr("the tokenizer has 256 tokens and the model 300"));
}

void write_config(const std::filesystem::path& folder, const std::string& text) {
  std::ofstream(folder / "config.json") << text;
}

TEST(LanguageModelErrors, SayThatGatesHaveNoLimit) {
  const test::TemporaryFolder folder;
  copy(kModels / "gptoss" / "model.safetensors", folder.path());
  auto config = nlohmann::json::parse(test::content_of(kModels / "gptoss" / "config.json"));
  config["swiglu_limit"] = 0;
  write_config(folder.path(), config.dump());
  EXPECT_THAT(error_of<Error>([&] { (void)LanguageModel(folder.path()); }),
              HasSubstr("[model] ClampedSwish has a gate and a limit above 0, not true and 0"));
}

TEST(LanguageModelErrors, SayWhatIsWrong) {
  const test::TemporaryFolder temporary;
  const std::filesystem::path& folder = temporary.path();
  const auto open = [&] { (void)LanguageModel(folder); };
  EXPECT_THAT(error_of<FormatError>(open), HasSubstr("has no config.json"));
  write_config(folder, "{}");
  EXPECT_THAT(error_of<FormatError>(open), HasSubstr("has neither model.safetensors nor an index"));
  copy(kModels / "qwen2" / "model.safetensors", folder);
  EXPECT_THAT(error_of<FormatError>(open),
              HasSubstr("[model] config.json does not say its \"architectures\""));
  write_config(folder, R"({"architectures": ["LamaForCausalLM"]})");
  EXPECT_THAT(
      error_of<FormatError>(open),
      HasSubstr("[model] the architecture 'LamaForCausalLM' is not known; did you mean 'LlamaForCausalLM'?; "
                "known are LlamaForCausalLM, MistralForCausalLM"));
  write_config(folder, R"({"architectures": ["LlamaForCausalLM"], "hidden_size": "32"})");
  EXPECT_THAT(error_of<FormatError>(open),
              HasSubstr("[model] the file does not say 'num_hidden_layers', which llama"));
  const std::string sizes =
      R"("hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "intermediate_size": 48, "max_position_embeddings": 128, "rms_norm_eps": 1e-6, )";
  write_config(folder, "{" + sizes + R"("architectures": ["Qwen3ForCausalLM"]})");
  EXPECT_THAT(error_of<FormatError>(open),
              HasSubstr("lacks 'model.layers.0.self_attn.q_norm.weight', which Qwen3ForCausalLM has"));
  write_config(folder, "{" + sizes + R"("architectures": ["Phi3ForCausalLM"]})");
  EXPECT_THAT(error_of<FormatError>(open), HasSubstr("lacks 'model.layers.0.self_attn.qkv_proj.weight'"));
  write_config(folder, "{" + sizes + R"("architectures": ["MistralForCausalLM"], "num_hidden_layers": 1})");
  EXPECT_THAT(
      error_of<FormatError>(open),
      HasSubstr("[model] MistralForCausalLM models have no tensors 'model.layers.1.input_layernorm.weight'"));
  write_config(folder, "{" + sizes + R"("architectures": ["Qwen2ForCausalLM"], "intermediate_size": 40})");
  EXPECT_THAT(
      error_of<FormatError>(open),
      HasSubstr(
          "'blk.0.ffn_gate.weight' is [48, 32] in the file, where the sizes it states make it [40, 32]"));
  write_config(folder, "{" + sizes + R"("architectures": ["Qwen2ForCausalLM"]})");
  LanguageModel model(folder, {.context = 4});
  EXPECT_THAT(error_of<Error>([&] { (void)model.logits({}); }), HasSubstr("[model] the text has no tokens"));
  EXPECT_THAT(error_of<Error>([&] { (void)model.logits(std::vector{1, 2, 3, 4, 5}); }),
              HasSubstr("[model] the text has 5 tokens and the context 4; open the model with a larger one"));
  EXPECT_THAT(error_of<Error>([&] { (void)model.logits(std::vector{1, 64}); }),
              HasSubstr("[model] token 64 is not one of the 64 of the vocabulary"));
}

}  // namespace
}  // namespace luminal::models
