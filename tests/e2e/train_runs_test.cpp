#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "e2e/command_run.h"
#include "luminal/safetensors.h"
#include "support/files.h"

// `luminal train digits`, `regression` and `text` as a user runs them, against what other programs reach on
// the same data.
namespace luminal::cli {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

const std::string kSource = LUMINAL_SOURCE_DIR;

class TrainRuns : public testing::Test {
 protected:
  Result train(std::vector<std::string> more) {
    std::vector<std::string> arguments{"train"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    if (std::ranges::find(more, "--device") == more.end())
      arguments.insert(arguments.end(), {"--device", "reference"});
    arguments.emplace_back("--weights");
    arguments.push_back(path("w.safetensors"));
    return luminal(arguments);
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
                                "--device", "cpu", "--json", path("r.json"), "--plot", path("curves.html")});
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
              HasSubstr("line 3, column 'a': 'x' is not a number"));
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
                                "--device",      "cpu",
                                "--json",        path("r.json")});
  ASSERT_EQ(trained.code, kDone) << trained.err;
  EXPECT_LT(result().at("train_loss").get<double>(), 0.3);
  EXPECT_LT(result().at("test_loss").get<double>(), 0.4);  // of windows that it never saw
  EXPECT_THAT(trained.out, HasSubstr("the quick brown fox jumps"));
  EXPECT_THAT(SafetensorsFile(path("w.safetensors")).names(),
              testing::Contains("model.layers.1.self_attn.k_proj.weight"));
}

// What `luminal run` writes with the exported file is what the run wrote with its own weights.
TEST_F(TrainRuns, TextBecomesAModelThatRuns) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "Q: What does the fox say?\nA: the quick brown fox says nothing.\n";
  const std::string model = path("fox.gguf");
  const Result trained = luminal({"train",
                                  "text",
                                  folder_.file("fox.txt", text).string(),
                                  "--steps",
                                  "150",
                                  "--layers",
                                  "2",
                                  "--size",
                                  "32",
                                  "--length",
                                  "64",
                                  "--lr",
                                  "0.01",
                                  "--sample",
                                  "30",
                                  "--temperature",
                                  "0",
                                  "--prompt",
                                  "Q: What",
                                  "--chat",
                                  "--device",
                                  "cpu",
                                  "--weights",
                                  model});
  ASSERT_EQ(trained.code, kDone) << trained.err;
  const Result raw = luminal({"run", model, "--raw", "--temp", "0", "-n", "30", "-p", "Q: What"});
  ASSERT_EQ(raw.code, kDone) << raw.err;
  EXPECT_THAT(trained.out, HasSubstr("Q: What" + raw.out.substr(0, 18)));
  EXPECT_EQ(raw.out.substr(0, 18), " does the fox say?");
  const Result answer = luminal({"run", model, "--temp", "0", "-p", "What does the fox say?"});
  EXPECT_EQ(answer.out, "the quick brown fox says nothing.\n");
  EXPECT_THAT(
      luminal({"train", "text", "--chat", "--weights", path("w.safetensors")}).err,
      HasSubstr("[train] --chat is for a model that `luminal run` runs; give it a file: --weights out.gguf"));
}

/// The checkpoints of a folder, by step.
std::vector<fs::path> checkpoints_in(const fs::path& folder) {
  std::vector<fs::path> files;
  if (!fs::exists(folder)) return files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("step-")) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

/// A run that lost its newest checkpoint goes on to the weights, bit by bit, and the metrics of one that did
/// not stop.
TEST_F(TrainRuns, GoOnFromACheckpointToTheSameBits) {
  std::string fox;
  for (int i = 0; i < 40; ++i) fox += "the quick brown fox jumps over the lazy dog. ";
  const std::vector<std::vector<std::string>> runs{
      {"text", folder_.file("fox.txt", fox).string(), "--steps", "24", "--layers", "1", "--size", "16",
       "--length", "16", "--sample", "0", "--save-every", "10"},
      {"regression", kSource + "/data/diabetes/diabetes.csv", "--epochs", "4"},
      {"digits", "--data", kSource + "/data/digits/digits.npz", "--epochs", "2", "--save-every", "30"}};
  for (const std::vector<std::string>& options : runs) {
    SCOPED_TRACE(options[0]);
    const fs::path folder = folder_.path() / options[0];
    std::vector<std::string> all = options;
    for (const std::string& each : {std::string("--checkpoints"), folder.string(), std::string("--metrics"),
                                    path(options[0] + ".jsonl")})
      all.push_back(each);
    ASSERT_EQ(train(all).code, kDone);
    const std::string weights = test::content_of(path("w.safetensors")),
                      metrics = test::content_of(path(options[0] + ".jsonl"));
    EXPECT_THAT(metrics, HasSubstr("\"train_loss\""));
    const std::vector<fs::path> made = checkpoints_in(folder);
    ASSERT_GE(made.size(), 2U);
    fs::remove(made.back());
    fs::remove(path("w.safetensors"));
    all.emplace_back("--resume");
    testing::internal::CaptureStderr();
    const Result resumed = train(all);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");  // of another plan, that is
    ASSERT_EQ(resumed.code, kDone) << resumed.err;
    EXPECT_THAT(resumed.out, HasSubstr("resuming at step"));
    EXPECT_TRUE(weights == test::content_of(path("w.safetensors")));
    EXPECT_EQ(metrics, test::content_of(path(options[0] + ".jsonl")));
  }
}

std::vector<std::string> digits_to_be_killed(const std::string& folder) {
  return {"train",         "digits",
          "--data",        kSource + "/data/digits/digits.npz",
          "--device",      "cpu",
          "--checkpoints", folder + "/runs",
          "--epochs",      "40",
          "--save-every",  "20",
          "--weights",     folder + "/w.safetensors"};
}

/// The child of the next test.
TEST(TrainRunChild, DISABLED_TrainsUntilKilled) {
  const char* folder = std::getenv("LUMINAL_TEST_FOLDER");
  ASSERT_NE(folder, nullptr);
  std::vector<std::string> arguments = digits_to_be_killed(folder);
  arguments.emplace_back("--resume");
  std::ostringstream out, err;
  Console console{out, err};
  EXPECT_EQ(run(arguments, console), kDone) << err.str();
}

/// Starts the child and kills it as soon as it has saved something new.
void kill_a_run(const fs::path& folder) {
  const std::vector<fs::path> before = checkpoints_in(folder / "runs");
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("LUMINAL_TEST_FOLDER", folder.c_str(), 1);
    ::execl("/proc/self/exe", "test", "--gtest_filter=TrainRunChild.*", "--gtest_also_run_disabled_tests",
            nullptr);
    ::_exit(127);
  }
  int status = 0;
  for (int i = 0; i < 60000; ++i) {
    const std::vector<fs::path> now = checkpoints_in(folder / "runs");
    if (!now.empty() && (before.empty() || now.back() > before.back())) break;
    ASSERT_EQ(::waitpid(child, &status, WNOHANG), 0) << "the child ended by itself: " << status;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "the child ended by itself: " << status;
}

TEST(TrainRunsKilled, GoOnToTheSameBits) {
  const test::TemporaryFolder killed, whole;
  for (int kill = 0; kill < 2; ++kill) kill_a_run(killed.path());
  EXPECT_FALSE(fs::exists(killed.path() / "w.safetensors"));
  const auto train = [](std::vector<std::string> arguments, const char* more) {
    if (more != nullptr) arguments.emplace_back(more);
    std::ostringstream out, err;
    Console console{out, err};
    testing::internal::CaptureStderr();
    EXPECT_EQ(run(arguments, console), kDone) << err.str();
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    return out.str();
  };
  EXPECT_THAT(train(digits_to_be_killed(killed.path().string()), "--resume"), HasSubstr("resuming at step"));
  (void)train(digits_to_be_killed(whole.path().string()), nullptr);
  EXPECT_TRUE(test::content_of(killed.path() / "w.safetensors") ==
              test::content_of(whole.path() / "w.safetensors"));
}

TEST_F(TrainRuns, CheckpointsOfOtherRunsAreRefused) {
  const std::vector<std::string> digits{"digits",    "--data", kSource + "/data/digits/digits.npz",
                                        "--epochs",  "1",      "--checkpoints",
                                        path("runs")};
  const auto says = [&](std::vector<std::string> more, const std::string& text) {
    std::vector<std::string> all = digits;
    all.insert(all.end(), more.begin(), more.end());
    const Result result = train(all);
    EXPECT_EQ(result.code, kFailed);
    EXPECT_THAT(result.err, HasSubstr(text));
  };
  ASSERT_EQ(train(digits).code, kDone);
  says({},
       "holds checkpoints of a run up to step 45; use --resume to continue from them, or choose another "
       "folder");
  says({"--resume", "--hidden", "32"},
       "belongs to another model: 'model.0.bias' is f32[128] there and f32[32] here");
  says({"--resume", "--batch", "16"},
       "was made with batch 32, but this run has 16, so the batches would differ");
  says({"--resume", "--seed", "9"}, "was made with the seed 1, but this graph has 9");
  says({"--save-every", "-1"}, "--save-every -1 is negative");
  const Result other = train(
      {"regression", kSource + "/data/diabetes/diabetes.csv", "--checkpoints", path("runs"), "--resume"});
  EXPECT_EQ(other.code, kFailed);
  EXPECT_THAT(other.err,
              HasSubstr("belongs to another model: it has the unknown [model.2.bias, model.2.weight"));
  EXPECT_EQ(train({"digits", "--resume"}).code, kUsage);
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
  says(train({"digits", "--data", small}), "not a zip archive");
  says(train({"digits", "--hidden", "0"}), "--hidden is 0; give 1 or more");
  says(train({"regression", path("none.csv")}), "none.csv");
  says(train({"regression", folder_.file("n.csv", "a,b\n1,2\n3,4\ninf,6\n").string()}),
       "row 3 of the data, column 'a': inf is not a finite number; fix it or remove the row");
  says(train({"digits", "--plot", folder_.path().string()}), "is a folder; give a file");
  says(train({"digits", "--json", "/proc/none/r.json"}), "cannot create the folder '/proc/none'");
  says(train({"digits", "--lr", "1e30"}), "the loss is nan in run 2 (learning rate ");
  says(train({"regression", "--test-share", "2"}), "--test-share is 2; give a number between 0 and 1");
}

}  // namespace
}  // namespace luminal::cli
