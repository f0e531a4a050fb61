#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <algorithm>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "e2e/command_run.h"
#include "luminal/safetensors.h"

// The program as a user runs it: train on real digits, look at a digit, stop in the middle, get things wrong.
namespace luminal::cli {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class TrainMnist : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }
  Result train(std::vector<std::string> more) {
    std::vector<std::string> arguments{
        "train", "mnist", "--data", kDigits, "--weights", path("w.safetensors"), "--batch", "20"};
    if (std::ranges::find(more, "--mode") == more.end())
      arguments.insert(arguments.end(), {"--mode", "fast"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return luminal(arguments);
  }
  fs::path folder_ = fs::temp_directory_path() / ("luminal_e2e_" + std::to_string(::getpid()));
};

TEST_F(TrainMnist, LearnsSavesAndPredicts) {
  const Result trained = train({"--epochs", "2", "--limit", "1000", "--json", path("r.json")});
  ASSERT_EQ(trained.code, kDone) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("test accuracy"));
  std::ifstream json_file(path("r.json"));
  const auto json = nlohmann::json::parse(json_file);
  // PyTorch reaches 80 to 85 % on a thousand digits seen twice; chance is 10 %.
  EXPECT_GT(json.at("test_accuracy").get<double>(), 0.75);
  EXPECT_EQ(json.at("images"), 1000);
  EXPECT_EQ(json.at("seed"), 1);
  EXPECT_EQ(json.at("device"), "cpu");
  EXPECT_EQ(json.at("ops_outside_plan"), 0);
  EXPECT_GT(json.at("step_us").at("fast").get<double>(), 0);
  EXPECT_GT(json.at("search_s").get<double>(), 0);
  // A test is not the program that would be started again; tests/package/run.sh looks at what that one says.
  EXPECT_FALSE(json.contains("warm_start_s"));
  EXPECT_NE(json.at("cpu"), "");
  EXPECT_GE(json.at("phases_s").size(), 6U);
  ASSERT_FALSE(json.at("kernels").empty());
  for (const auto& kernel : json.at("kernels")) {
    EXPECT_GT(kernel.at("us").get<double>(), 0);
    for (const char* rate : {"gflops", "gb_per_s", "roofline_share"}) EXPECT_TRUE(kernel.contains(rate));
  }
  EXPECT_THAT(trained.out, HasSubstr("ops outside the plan: 0"));

  const SafetensorsFile weights(path("w.safetensors"));
  EXPECT_THAT(weights.names(), testing::ElementsAre("0.bias", "0.weight", "3.bias", "3.weight", "7.bias",
                                                    "7.weight", "9.bias", "9.weight"));
  EXPECT_EQ(weights.info("3.weight").dims, (std::vector<int64_t>{32, 16, 3, 3}));

  int right = 0;
  for (int digit = 0; digit < 10; ++digit) {
    const Result predicted = luminal({"predict", "--weights", path("w.safetensors"), "--data", kDigits,
                                      "--index", std::to_string(digit), "--json"});
    ASSERT_EQ(predicted.code, kDone) << predicted.err;
    const auto answer = nlohmann::json::parse(predicted.out);
    right += answer.at("label") == answer.at("prediction") ? 1 : 0;
  }
  EXPECT_GE(right, 5);
  const Result shown = luminal({"predict", "--weights", path("w.safetensors"), "--data", kDigits});
  EXPECT_THAT(shown.out, HasSubstr("█"));
  EXPECT_THAT(shown.out, HasSubstr("the label says"));
}

TEST_F(TrainMnist, TheSameSeedGivesTheSameWeights) {
  ASSERT_EQ(train({"--epochs", "1", "--limit", "50"}).code, kDone);
  std::ifstream first_file(path("w.safetensors"), std::ios::binary);
  const std::string first((std::istreambuf_iterator<char>(first_file)), {});
  ASSERT_EQ(train({"--epochs", "1", "--limit", "50"}).code, kDone);
  std::ifstream second_file(path("w.safetensors"), std::ios::binary);
  const std::string second((std::istreambuf_iterator<char>(second_file)), {});
  EXPECT_TRUE(first == second);
}

TEST_F(TrainMnist, ResumesFromACheckpointToTheSameBits) {
  const auto weights = [&] {
    std::ifstream file(path("w.safetensors"), std::ios::binary);
    return std::string((std::istreambuf_iterator<char>(file)), {});
  };
  ASSERT_EQ(train({"--epochs", "2", "--limit", "100", "--checkpoints", path("runs")}).code, kDone);
  const std::string straight = weights();
  // As if the run had been killed in its second epoch.
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path("runs"))) files.push_back(entry.path());
  ASSERT_EQ(files.size(), 2U);
  fs::remove(std::max(files[0], files[1]));
  fs::remove(path("w.safetensors"));
  testing::internal::CaptureStderr();
  const Result resumed =
      train({"--epochs", "2", "--limit", "100", "--checkpoints", path("runs"), "--resume"});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");  // of another plan, that is
  ASSERT_EQ(resumed.code, kDone) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("resuming at step 5"));
  EXPECT_TRUE(straight == weights());
}

TEST_F(TrainMnist, OptimalModeMeasuresWithinItsBudgetAndLearnsAlike) {
  const Result trained =
      train({"--epochs", "1", "--limit", "500", "--json", path("r.json"), "--mode", "budget=1"});
  ASSERT_EQ(trained.code, kDone) << trained.err;
  std::ifstream json_file(path("r.json"));
  const auto json = nlohmann::json::parse(json_file);
  EXPECT_GT(json.at("test_accuracy").get<double>(), 0.3);  // one pass over 500 digits; chance is 10 %
  EXPECT_TRUE(json.at("step_us").contains("budget=1"));
}

TEST_F(TrainMnist, CtrlCSavesAndStops) {
  std::thread finger([] {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    ::kill(::getpid(), SIGINT);
  });
  const Result stopped = train({"--epochs", "1000"});
  finger.join();
  EXPECT_EQ(stopped.code, 130);
  EXPECT_THAT(stopped.out, HasSubstr("stopped after"));
  EXPECT_EQ(SafetensorsFile(path("w.safetensors")).names().size(), 8U);
}

TEST_F(TrainMnist, WrongInputIsOneClearLine) {
  const auto expect = [](const Result& result, int code, const std::string& text) {
    EXPECT_EQ(result.code, code);
    EXPECT_THAT(result.err, HasSubstr(text));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  };
  expect(train({"--epochs", "0"}), kFailed, "luminal: [train] --epochs is 0; give 1 or more");
  expect(train({"--lr", "-1"}), kFailed, "[train] --lr is -1; give a rate above 0");
  expect(train({"--batch", "many"}), kUsage, "--batch");
  expect(train({"--mode", "budget=abc"}), kFailed, "[mode] unknown mode 'budget=abc'");
  expect(train({"--mode", "quick"}), kFailed,
         "[mode] unknown mode 'quick'; choose fast, optimal or budget=SECONDS");
  expect(train({"--limit", "10"}), kFailed, "--batch 20 is more than the 10 digits");
  expect(train({"--lr", "1e30", "--limit", "100"}), kFailed, "[finite_loss] the loss is nan after run");
  expect(train({"--epoch", "1"}), kUsage, "did you mean '--epochs'?");
  expect(luminal({"train", "mnist", "--device", "cdua", "--data", kDigits}), kFailed,
         "[device] unknown device 'cdua'");
  expect(luminal({"train", "mnist", "--data", path("nothing")}), kFailed, "nothing");
  expect(luminal({"predict", "--data", kDigits, "--weights", path("none.safetensors")}), kFailed,
         "none.safetensors");
  std::ofstream(path("bad.safetensors")) << "not a model";
  expect(luminal({"predict", "--data", kDigits, "--weights", path("bad.safetensors")}), kFailed,
         "bad.safetensors");
  expect(luminal({"predict", "--data", kDigits, "--index", "1500"}), kFailed,
         "no test digit 1500; choose one from 0 to 1499");
}

}  // namespace
}  // namespace luminal::cli
