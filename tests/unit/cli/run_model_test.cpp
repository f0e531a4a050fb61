#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
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

TEST(RunModel, SaysWhatIsWrong) {
  EXPECT_THAT(talk_with({"-f", "nowhere.txt"}).err,
              HasSubstr("[run] the prompt 'nowhere.txt' cannot be read; give a text file"));
  EXPECT_THAT(talk_with({"-c", "8", "--raw", "-p", "Once upon a time"}).err,
              HasSubstr("[run] the prompt has 16 tokens and the context 8; give a larger one with -c"));
  const Talk full = talk_with({"-c", "20", "--raw", "-p", "Once upon a time"});
  EXPECT_EQ(full.code, kDone);
  EXPECT_THAT(full.err, HasSubstr("[run] the context of 20 tokens is full"));
  EXPECT_THAT(talk_with({"--cache-type", "i8", "-p", "a"}).err,
              HasSubstr("[model] cache is i8; choose f32, f16 or bf16"));
}

}  // namespace
}  // namespace luminal::cli
