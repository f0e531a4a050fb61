#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/command.h"
#include "luminal/safetensors.h"
#include "support/files.h"

// `luminal train digits`, `regression` and `text` as a user runs them, against what other programs reach on
// the same data.
namespace luminal::cli {
namespace {

using testing::HasSubstr;

const std::string kSource = LUMINAL_SOURCE_DIR;

struct Result {
  int code = 0;
  std::string out, err;
};

class TrainRuns : public testing::Test {
 protected:
  Result train(std::vector<std::string> more) {
    std::vector<std::string> arguments{"train"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    for (const char* each : {"--device", "reference", "--weights"}) arguments.emplace_back(each);
    arguments.push_back(path("w.safetensors"));
    std::ostringstream out, err;
    Console console{out, err};
    const int code = run(arguments, console);
    return {code, out.str(), err.str()};
  }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  [[nodiscard]] nlohmann::json result() const {
    return nlohmann::json::parse(test::content_of(path("r.json")));
  }
  test::TemporaryFolder folder_;
};

// scikit-learn's MLPClassifier with one hidden layer of 128 reaches 96 to 98 % on such a split.
TEST_F(TrainRuns, Digits) {
  const Result trained = train({"digits", "--data", kSource + "/data/digits/digits.npz", "--epochs", "15",
                                "--json", path("r.json"), "--plot", path("curves.html")});
  ASSERT_EQ(trained.code, kDone) << trained.err;
  EXPECT_GT(result().at("test_accuracy").get<double>(), 0.95);
  EXPECT_EQ(result().at("epochs"), 15);
  EXPECT_THAT(SafetensorsFile(path("w.safetensors")).names(),
              testing::ElementsAre("0.bias", "0.weight", "2.bias", "2.weight"));
  EXPECT_THAT(test::content_of(path("curves.html")), HasSubstr("data-name=\"train\""));
  EXPECT_THAT(test::content_of(path("curves.jsonl")), HasSubstr("\"test_accuracy\""));
}

// Least squares tells about half of the variance of these data on rows not seen (R2 0.35 to 0.55 by the
// split).
TEST_F(TrainRuns, Regression) {
  const std::string table = kSource + "/data/diabetes/diabetes.csv";
  const Result trained = train({"regression", table, "--epochs", "40", "--json", path("r.json")});
  ASSERT_EQ(trained.code, kDone) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("'progression' from 10 columns"));
  EXPECT_GT(result().at("test_r2").get<double>(), 0.3);
  EXPECT_LT(result().at("test_rmse").get<double>(), 65);
  const Result hidden = train({"regression", table, "--epochs", "1", "--hidden", "8", "--target", "bmi"});
  EXPECT_EQ(hidden.code, kDone) << hidden.err;
  EXPECT_THAT(train({"regression", table, "--target", "bni"}).err, HasSubstr("did you mean 'bmi'?"));
  EXPECT_THAT(train({"regression", folder_.file("t.csv", "a,b\n1,2\nx,3\n").string()}).err,
              HasSubstr("line 3, column 'a': 'x' is no number"));
}

// The text repeats, so a model that has learnt it knows nearly every next byte.
TEST_F(TrainRuns, Text) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "the quick brown fox jumps over the lazy dog. ";
  const Result trained = train({"text",          folder_.file("fox.txt", text).string(),
                                "--steps",       "120",
                                "--layers",      "2",
                                "--size",        "32",
                                "--length",      "32",
                                "--lr",          "0.01",
                                "--sample",      "40",
                                "--temperature", "0",
                                "--prompt",      "the quick ",
                                "--json",        path("r.json")});
  ASSERT_EQ(trained.code, kDone) << trained.err;
  EXPECT_LT(result().at("train_loss").get<double>(), 0.3);
  EXPECT_THAT(trained.out, HasSubstr("the quick brown fox jumps"));
  EXPECT_THAT(SafetensorsFile(path("w.safetensors")).names(),
              testing::Contains("layers.1.self_attn.k_proj.weight"));
}

TEST_F(TrainRuns, WrongInputIsOneClearLine) {
  const auto says = [](const Result& result, const std::string& text) {
    EXPECT_EQ(result.code, kFailed);
    EXPECT_THAT(result.err, HasSubstr(text));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  };
  const std::string small = folder_.file("small.txt", "too short").string();
  says(train({"text", small}), "the text has 9 bytes and a window takes 65");
  says(train({"text", small, "--length", "4"}), "fewer than a batch of 8");
  says(train({"text", kSource + "/docs", "--heads", "3"}), "3 heads do not cut the size 64");
  says(train({"digits", "--data", small}), "no zip archive");
  says(train({"digits", "--hidden", "0"}), "--hidden 0 is not at least 1");
  says(train({"regression", path("none.csv")}), "none.csv");
  says(train({"regression", "--test-share", "2"}), "--test-share 2 is not between 0 and 1");
}

}  // namespace
}  // namespace luminal::cli
