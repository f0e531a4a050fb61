#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/command.h"
#include "luminal/gguf.h"
#include "support/files.h"

// The commands about files of language models, on the tiny model of run_model_test.cpp.
namespace luminal::cli {
namespace {

using testing::HasSubstr;

const std::string kTinyModel = std::string(LUMINAL_SOURCE_DIR) + "/tests/unit/models/data/families/llama";

struct FileOutcome {
  int code;
  std::string out, err;
};
FileOutcome on_files(const std::vector<std::string>& arguments) {
  std::ostringstream out, err;
  Console console{out, err};
  const int code = run(arguments, console);
  return {code, out.str(), err.str()};
}

TEST(ModelFiles, QuantizeTellsTheSizeAndEachTensor) {
  const test::TemporaryFolder folder;
  const std::string out = (folder.path() / "out.gguf").string();
  const FileOutcome done = on_files({"quantize", kTinyModel + "/model.gguf", out, "q8_0"});
  ASSERT_EQ(done.code, kDone) << done.err;
  EXPECT_THAT(done.out, HasSubstr("0.02 MiB from 0.07 MiB, 9.87 bits per weight"));
  EXPECT_THAT(done.err, HasSubstr("/21] blk.0.attn_q.weight"));
  EXPECT_THAT(done.err, HasSubstr("F32 -> Q8_0"));
  EXPECT_THAT(done.err, HasSubstr("2 of 21 tensors have rows that are no whole blocks"));
  EXPECT_EQ(on_files({"quantize", out, out, "Q4_9"}).code, kFailed);
}

TEST(ModelFiles, ConvertGoesBothWays) {
  const test::TemporaryFolder folder;
  const std::string copy = (folder.path() / "copy").string(), file = (folder.path() / "out.gguf").string();
  ASSERT_EQ(on_files({"convert", kTinyModel + "/model.gguf", copy}).code, kDone);
  ASSERT_EQ(on_files({"convert", copy, file, "--outtype", "f16"}).code, kDone);
  EXPECT_EQ(GgufFile(file).tensor("blk.0.attn_q.weight").type->name, "F16");
  EXPECT_THAT(on_files({"convert", copy, copy + "2"}).err, HasSubstr("does not end in .gguf"));
  EXPECT_THAT(on_files({"convert", file, file}).err, HasSubstr("`luminal quantize` changes types"));
}

TEST(ModelFiles, PerplexityPrintsTheRunningAndTheFinalValue) {
  const test::TemporaryFolder folder;
  const std::string text =
      folder.file("text", "Once upon a time there was a model of letters, and nobody knew what it said.");
  const FileOutcome line = on_files({"perplexity", kTinyModel, "-f", text, "-c", "32"});
  ASSERT_EQ(line.code, kDone) << line.err;
  EXPECT_THAT(line.out, testing::ContainsRegex(R"(\[1\][0-9.]+,\[2\][0-9.]+,)"));
  EXPECT_THAT(line.out,
              testing::ContainsRegex(R"(Perplexity [0-9.]+ \+/- [0-9.]+ of 30 tokens in 2 chunks of 32)"));
  const FileOutcome json =
      on_files({"perplexity", kTinyModel, "-f", text, "-c", "32", "--chunks", "1", "--json"});
  EXPECT_EQ(nlohmann::json::parse(json.out).at("tokens"), 15);
}

TEST(ModelFiles, PerplexityTellsWhatRoundedActivationsChange) {
  const test::TemporaryFolder folder;
  const std::string text =
      folder.file("text", "Q: What is Luminal?\nA: A deep-learning compiler in C++20.\n");
  const std::string model = std::string(LUMINAL_SOURCE_DIR) + "/data/talk/talk.gguf";
  const std::vector<std::string> arguments{"perplexity", model, "-f", text, "-c", "20"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), arguments.begin(), arguments.end());
    return on_files(more);
  };
  const auto number = [&](std::vector<std::string> more, const char* name) {
    more.emplace_back("--json");
    const auto json = nlohmann::json::parse(with(more).out);
    return json.contains(name) ? json.at(name).get<double>() : 0;
  };
  const double exact = number({}, "perplexity"), rounded = number({"--activations", "q8"}, "perplexity");
  EXPECT_NE(rounded, exact);
  EXPECT_NEAR(rounded, exact, 0.02 * exact);
  EXPECT_EQ(number({"--activations", "q8"}, "perplexity_f32"), exact);
  EXPECT_EQ(number({}, "perplexity_f32"), 0);  // not there
  EXPECT_THAT(
      with({"--activations", "q8"}).out,
      testing::ContainsRegex(R"(with f32 activations [0-9.]+: rounding them adds [-+][0-9.]+ \([-+].* %\))"));
  EXPECT_THAT(with({"--activations", "q4"}).err,
              HasSubstr("[model] --activations is 'q4'; choose q8 (rounded to blocks of 8 bits) or f32"));
}

TEST(ModelFiles, EmbedPrintsVectorsOrHowAlikeTextsAre) {
  const test::TemporaryFolder folder;
  const std::string model = std::string(LUMINAL_SOURCE_DIR) + "/tests/unit/models/data/encoders/mean";
  const std::string lines = folder.file("lines", "the cat\r\n\nthe cat\n");
  const FileOutcome json = on_files({"embed", model, "a sofa", "-f", lines, "--json"});
  ASSERT_EQ(json.code, kDone) << json.err;
  EXPECT_THAT(json.err, HasSubstr("3 texts, 12 tokens, 32 numbers each"));
  const auto result = nlohmann::json::parse(json.out);
  EXPECT_EQ(result.at("usage").at("total_tokens"), 12);
  EXPECT_EQ(result.at("model"), model);
  const auto vectors = result.at("data");
  ASSERT_EQ(vectors.size(), 3U);
  EXPECT_EQ(vectors[1].at("embedding"), vectors[2].at("embedding"));
  EXPECT_NE(vectors[0].at("embedding"), vectors[1].at("embedding"));
  EXPECT_EQ(vectors[2].at("index"), 2);
  const FileOutcome plain = on_files({"embed", model, "the cat"});
  std::istringstream numbers(plain.out);
  for (const auto& each : vectors[1].at("embedding")) {
    double printed = 0;
    numbers >> printed;
    EXPECT_NEAR(printed, each.get<double>(), 1e-6);
  }
  const FileOutcome likeness = on_files({"embed", model, "the cat", "the cat", "--likeness"});
  EXPECT_EQ(likeness.out, " 1.000  1.000\n 1.000  1.000\n");
  EXPECT_THAT(on_files({"embed", model}).err, HasSubstr("[embed] there are no texts; give some behind"));
  EXPECT_THAT(on_files({"embed", kTinyModel, "a"}).err, HasSubstr("make texts and no embeddings"));
}

// The vocabulary of the model has letters and few marks.
TEST(ModelFiles, RunKeepsToAGrammarOrASchema) {
  const test::TemporaryFolder folder;
  const std::string grammar = folder.file("g.gbnf", "root ::= \"yes it is\"\n");
  EXPECT_EQ(on_files({"run", kTinyModel, "-p", "Hello", "--grammar-file", grammar}).out, "yes it is\n");
  const std::string schema = folder.file("schema.json", R"({"type": "boolean"})");
  EXPECT_THAT(on_files({"run", kTinyModel, "-p", "Hello", "--json-schema", schema}).out,
              testing::AnyOf(HasSubstr("true"), HasSubstr("false")));
  const std::string object = folder.file("object.json", R"({"type": "object"})");
  EXPECT_THAT(on_files({"run", kTinyModel, "-p", "Hello", "--json-schema", object}).err,
              HasSubstr("the vocabulary has no token with which the answer could go on"));
}

}  // namespace
}  // namespace luminal::cli
