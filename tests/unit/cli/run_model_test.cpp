#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "cli/command.h"
#include "support/files.h"

// `luminal run` beside what transformers writes greedily with the same weights (tools/language_models.py).
namespace luminal::cli {
namespace {

using testing::HasSubstr;

const std::string kTalker = std::string(LUMINAL_SOURCE_DIR) + "/tests/unit/models/data/families/llama";

struct Talk {
  int code = 0;
  std::string out, err;
};

/// `luminal run` on the tiny model, with these lines as its input.
Talk talk_with(std::vector<std::string> arguments, const std::string& input = "") {
  std::istringstream in(input);
  std::streambuf* const before = std::cin.rdbuf(in.rdbuf());
  std::ostringstream out, err;
  Console console{out, err};
  arguments.insert(arguments.begin(), {"run", kTalker});
  if (std::ranges::find(arguments, "--temp") == arguments.end())
    arguments.insert(arguments.end(), {"--temp", "0"});
  const int code = run(arguments, console);
  std::cin.rdbuf(before);
  return {code, out.str(), err.str()};
}

nlohmann::json stored_talk() { return nlohmann::json::parse(test::content_of(kTalker + "/talk.json")); }

TEST(RunModel, ContinuesATextAsTransformersDoes) {
  const nlohmann::json stored = stored_talk();
  const Talk talk = talk_with({"--raw", "-p", stored.at("prompt"), "-n", stored.at("tokens").dump()});
  ASSERT_EQ(talk.code, kDone) << talk.err;
  EXPECT_EQ(talk.out, stored.at("continued").get<std::string>() + "\n");
  EXPECT_THAT(talk.err,
              testing::ContainsRegex("prompt 16 tokens, .* t/s; generation 11 tokens, .* t/s; .* compiling"));
}

TEST(RunModel, ContinuesATextWithARoundedCache) {
  const nlohmann::json stored = stored_talk();
  const Talk talk =
      talk_with({"--raw", "-p", stored.at("prompt"), "-n", stored.at("tokens").dump(), "--cache-type", "q8"});
  ASSERT_EQ(talk.code, kDone) << talk.err;
  EXPECT_EQ(talk.out, stored.at("continued").get<std::string>() + "\n");
}

TEST(RunModel, TalksByTheModelsTemplate) {
  const nlohmann::json stored = stored_talk();
  std::string input = "/nonsense\nforget this\n/clear\n", answers;
  for (const auto& turn : stored.at("turns")) {
    input += turn.at(0).get<std::string>() + "\n";
    answers += turn.at(1).get<std::string>() + "\n";
  }
  const Talk talk = talk_with({"-n", stored.at("tokens").dump()}, input + "/timing\n/exit\nnot read\n");
  ASSERT_EQ(talk.code, kDone) << talk.err;
  EXPECT_THAT(talk.out, testing::EndsWith("\n" + answers));
  EXPECT_THAT(talk.err, HasSubstr("[run] '/nonsense' is no command"));
  EXPECT_THAT(talk.err, HasSubstr("/clear        forgets"));
}

TEST(RunModel, EqualSeedsWriteEqualTexts) {
  const auto written = [](const std::string& seed) {
    return talk_with({"--raw", "-p", "Once", "-n", "20", "--temp", "3", "--seed", seed}).out;
  };
  const std::string first = written("7");
  EXPECT_GT(first.size(), 2);
  EXPECT_EQ(written("7"), first);
  EXPECT_NE(written("8"), first);
}

/// What `luminal run` writes of a text that repeats itself, without guesses, with looked up ones and with those of a
/// draft model, here the model itself; the last errors are in `err`.
void expect_same_with_guesses(std::vector<std::string> arguments, std::string& err) {
  arguments.insert(arguments.end(), {"--raw", "-p", "Once upon a time. Once upon a time. Once"});
  const Talk plain = talk_with(arguments);
  ASSERT_EQ(plain.code, kDone) << plain.err;
  EXPECT_GT(plain.out.size(), 20);
  for (const std::vector<std::string>& how : {std::vector<std::string>{"--spec-type", "ngram-simple"},
                                              {"--model-draft", kTalker, "--draft-p-min", "0"}}) {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), how.begin(), how.end());
    const Talk guessed = talk_with(all);
    EXPECT_EQ(guessed.code, kDone) << guessed.err;
    EXPECT_EQ(guessed.out, plain.out) << how.front();
    err = guessed.err;
  }
}

TEST(RunModel, WritesTheSameWithGuesses) {
  std::string err;
  expect_same_with_guesses({"-n", "60"}, err);
  EXPECT_THAT(err, testing::ContainsRegex(
                       "generation 59 tokens, .* compiling; .*; 4[0-9] of 4[0-9] guessed tokens accepted"));
  expect_same_with_guesses({"-c", "80"}, err);
  EXPECT_THAT(err, HasSubstr("[run] the context of 80 tokens is full"));
  expect_same_with_guesses({"-n", "60", "--temp", "1", "--seed", "3"}, err);
  EXPECT_THAT(err, testing::ContainsRegex("[1-9][0-9]* of [0-9]+ guessed tokens accepted"));
}

TEST(RunModel, ConstrainsTheSameWithGuesses) {
  const test::TemporaryFolder folder;
  const std::string grammar = (folder.path() / "rows.gbnf").string();
  std::ofstream(grammar) << "root ::= (\"ab\" [c-f] \". \"){9}";
  std::string err;
  expect_same_with_guesses({"-n", "80", "--grammar-file", grammar}, err);
  expect_same_with_guesses({"-n", "80", "--temp", "2", "--seed", "5", "--grammar-file", grammar}, err);
}

/// Presses Ctrl-C so many times when the first text is shown.
class InterruptingText : public std::stringbuf {
 public:
  explicit InterruptingText(int presses) : presses_(presses) {}

 private:
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    for (; size > 0 && presses_ > 0; --presses_) std::raise(SIGINT);
    return std::stringbuf::xsputn(text, size);
  }
  int presses_;
};

int talk_interrupted(int presses, const std::string& input, std::string& shown) {
  std::istringstream in(input);
  std::streambuf* const before = std::cin.rdbuf(in.rdbuf());
  InterruptingText text(presses);
  std::ostream out(&text);
  std::ostringstream err;
  Console console{out, err};
  const std::vector<std::string> arguments{
      "run", kTalker, "--raw", "--temp", "0", "-n", stored_talk().at("tokens").dump()};
  const int code = run(arguments, console);
  std::cin.rdbuf(before);
  shown = text.str();
  return code;
}

// The first ends the answer after its first token, and the conversation goes on; the second ends the program.
TEST(RunModel, CtrlCStopsTheAnswer) {
  const std::string prompt = stored_talk().at("prompt");
  std::string whole, shown;
  ASSERT_EQ(talk_interrupted(0, prompt + "\n/clear\n" + prompt + "\n", whole), kDone);
  const std::string answer = stored_talk().at("continued").get<std::string>() + "\n";
  ASSERT_EQ(whole, answer + answer);
  ASSERT_EQ(talk_interrupted(1, prompt + "\n/clear\n" + prompt + "\n", shown), kDone);
  ASSERT_GT(shown.size(), answer.size());
  EXPECT_EQ(shown.substr(shown.size() - answer.size()), answer);
  const std::string first = shown.substr(0, shown.size() - answer.size() - 1);
  EXPECT_LT(first.size(), answer.size() - 1);
  EXPECT_TRUE(answer.starts_with(first)) << first;
}
TEST(RunModelDeathTest, ASecondCtrlCEndsTheProgram) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  std::string shown;
  EXPECT_EXIT((void)talk_interrupted(2, "Once\n", shown), testing::KilledBySignal(SIGINT), "");
}

TEST(BenchModel, TimesPromptsAndGeneration) {
  std::ostringstream out, err;
  Console console{out, err};
  const std::vector<std::string> arguments{"bench", kTalker, "-p", "20", "-n", "5", "-r", "3", "--json"};
  ASSERT_EQ(run(arguments, console), kDone) << err.str();
  const nlohmann::json rows = nlohmann::json::parse(out.str());
  ASSERT_EQ(rows.size(), 2);
  for (const auto& [index, name, tokens] : {std::tuple(0, "pp20", 20), std::tuple(1, "tg5", 5)}) {
    const nlohmann::json& row = rows.at(static_cast<size_t>(index));
    EXPECT_EQ(row.at("test"), name);
    EXPECT_EQ(row.at("tokens"), tokens);
    ASSERT_EQ(row.at("samples").size(), 3);
    const double mean = row.at("tokens_per_s");
    double sum = 0;
    for (const double sample : row.at("samples")) {
      EXPECT_GT(sample, 0);
      sum += sample;
    }
    EXPECT_NEAR(sum / 3, mean, mean * 1e-9);
    EXPECT_GT(row.at("deviation"), 0);
    EXPECT_EQ(row.at("bytes"), 4 * row.at("parameters").get<int64_t>());
  }
}

TEST(BenchModel, PrintsRowsAndSaysWhatIsWrong) {
  std::ostringstream out, err;
  Console console{out, err};
  const std::vector<std::string> one{"bench", kTalker + "/model.gguf", "-p", "0", "-n", "2", "-r", "1"};
  ASSERT_EQ(run(one, console), kDone) << err.str();
  EXPECT_THAT(out.str(), testing::ContainsRegex("\\| model.gguf .* MiB .* tg2 .* ± 0.00 "));
  EXPECT_EQ(out.str().find("pp"), std::string::npos);
  const std::vector<std::string> none{"bench", kTalker, "-p", "0", "-n", "0"};
  EXPECT_EQ(run(none, console), kFailed);
  EXPECT_THAT(err.str(), HasSubstr("[bench] there is nothing to time; give -p or -n more than 0 tokens"));
  const std::vector<std::string> missing{"bench", "nowhere.gguf"};
  EXPECT_EQ(run(missing, console), kFailed);
  EXPECT_THAT(err.str(), HasSubstr("[model] there is no 'nowhere.gguf'"));
}

TEST(RunModel, SaysWhatIsWrong) {
  EXPECT_THAT(talk_with({"-f", "nowhere.txt"}).err,
              HasSubstr("[run] the prompt 'nowhere.txt' cannot be read; give a text file"));
  EXPECT_THAT(talk_with({"-c", "8", "--raw", "-p", "Once upon a time"}).err,
              HasSubstr("[run] the prompt has 16 tokens and the context 8; give a larger one with -c"));
  const Talk full = talk_with({"-c", "20", "--raw", "-p", "Once upon a time"});
  EXPECT_EQ(full.code, kDone);
  EXPECT_THAT(full.err, HasSubstr("[run] the context of 20 tokens is full"));
  EXPECT_THAT(talk_with({"--spec-type", "ngram", "-p", "a"}).err,
              HasSubstr("[draft] --spec-type is 'ngram'; choose none, ngram-simple or draft-simple"));
  EXPECT_THAT(
      talk_with({"--spec-type", "draft-simple", "-p", "a"}).err,
      HasSubstr("--spec-type is draft-simple and --model-draft ''; a draft model goes with draft-simple"));
  EXPECT_THAT(talk_with({"--spec-type", "ngram-simple", "--draft-max", "8", "-p", "a"}).err,
              HasSubstr("[draft] 8 tokens are guessed at once at most; give 1 to 7"));
  EXPECT_THAT(
      talk_with({"--cache-type", "i8", "-p", "a"}).err,
      HasSubstr("[model] --cache-type is 'i8'; choose f32, f16, bf16 or q8 (rounded to blocks of 8 bits)"));
}

// The shipped model has learnt these, and other questions get the answer of those that it does not know.
TEST(RunModel, TalksWithTheShippedModelWhereNoneIsNamed) {
  const auto answer = [](const std::string& question) {
    std::ostringstream out, err;
    Console console{out, err};
    EXPECT_EQ(run(std::vector<std::string>{"run", "-p", question, "--temp", "0"}, console), kDone)
        << err.str();
    EXPECT_THAT(err.str(), HasSubstr("the small model that ships with Luminal"));
    return out.str();
  };
  EXPECT_THAT(answer("What is Luminal?"), HasSubstr("a deep-learning compiler in C++20"));
  EXPECT_THAT(answer("How do I train on my own text?"), HasSubstr("`luminal train text FILE"));
  EXPECT_THAT(answer("what is an e-graph"), HasSubstr("holds many equal forms of an expression"));
  EXPECT_THAT(answer("What is the capital of France?"), HasSubstr("I do not know that"));
  EXPECT_LT(std::filesystem::file_size(std::string(LUMINAL_SOURCE_DIR) + "/data/talk/talk.gguf"), 1'500'000U);
}

}  // namespace
}  // namespace luminal::cli
