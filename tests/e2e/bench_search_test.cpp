#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "e2e/program.h"
#include "support/files.h"

// `luminal bench search` starts the program for each workload, so it is tested as a program.
namespace luminal::cli {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;
namespace fs = std::filesystem;

class BenchSearch : public testing::Test {
 protected:
  /// The exit code; what was printed is in `out_`.
  int run(const std::string& arguments) {
    const std::string command = std::string(LUMINAL_PROGRAM) + " bench search " + arguments + " > " +
                                (folder_.path() / "out").string() + " 2>&1";
    const int code = std::system(command.c_str());
    out_ = test::content_of(folder_.path() / "out");
    return WIFEXITED(code) ? WEXITSTATUS(code) : -1;
  }
  [[nodiscard]] Json figures(const std::string& arguments) {
    const auto file = folder_.path() / "figures.json";
    EXPECT_EQ(run(arguments + " --device cpu --json " + file.string()), 0) << out_;
    return Json::parse(test::content_of(file));
  }
  test::TemporaryFolder folder_;
  std::string out_;
};

TEST_F(BenchSearch, TellsColdFromWarm) {
  const std::string workloads = "softmax 'x:f32[32,1000].softmax(-1)'";
  const Json all = figures(workloads + " --warm");
  ASSERT_EQ(all.size(), 2U);
  for (const Json& cold : all) {
    for (const bool warm : {false, true}) {
      const Json& one = warm ? cold.at("warm") : cold;
      const size_t kernels = one.at("kernels").size();
      EXPECT_GE(kernels, 1U);
      EXPECT_EQ(one.at("compiled"), warm ? 0 : kernels)
          << one.at("name");  // the second is not helped by the first
      double phases = 0;
      for (const char* phase : {"encode", "saturate", "cover", "compile", "measure", "verify", "plan"})
        phases += one.at("phases_s").at(phase).get<double>();
      EXPECT_GT(phases, 0);
      EXPECT_LE(phases, one.at("compile_s").get<double>());
      EXPECT_GT(one.at("peak_bytes").get<double>(), 1e6);
    }
  }
  EXPECT_THAT(out_, HasSubstr("saturate"));
  EXPECT_THAT(out_, HasSubstr("once more"));
  EXPECT_THAT(out_, HasSubstr("x:f32[32,1000].softmax(-1)"));
}

TEST_F(BenchSearch, MeasuredModesTimeAndCompare) {
  const Json one = figures("softmax --mode optimal").at(0);
  EXPECT_GT(one.at("timed"), 1);
  EXPECT_GE(one.at("compiled"), one.at("timed"));
  EXPECT_GT(one.at("compared"), 0);
}

TEST_F(BenchSearch, SaysWhatDidNotEnd) {
  EXPECT_EQ(run("softmax no-such-net --device cpu"), 1);
  EXPECT_THAT(out_, HasSubstr("'no-such-net' is neither an example"));
  EXPECT_THAT(out_, HasSubstr("no-such-net      failed"));
  EXPECT_EQ(run("mnist-step --device cpu --limit 0"), 1);
  EXPECT_THAT(out_, HasSubstr("mnist-step       stopped after 0 s"));
  EXPECT_EQ(run("softmax --mode slow"), 1);
  EXPECT_THAT(out_, HasSubstr("unknown mode 'slow'"));
}

/// Whether a process was started with this text in its environment.
bool any_process_knows(const std::string& text) {
  std::error_code ignored;
  return std::ranges::any_of(fs::directory_iterator("/proc"), [&](const fs::directory_entry& entry) {
    return fs::exists(entry.path() / "environ", ignored) &&
           test::content_of(entry.path() / "environ").find(text) != std::string::npos;
  });
}

/// A signal to this process alone, as from `kill`: the search knows nothing of it.
TEST_F(BenchSearch, ASignalEndsItWithItsSearchesAndFolders) {
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--seeds", "2"}})
    for (const int signal : {SIGINT, SIGTERM}) {
      const test::TemporaryFolder temporary;
      std::vector<std::string> arguments{"bench",   "search",   "gpt-step", "--mode",
                                         "optimal", "--device", "cpu"};
      arguments.insert(arguments.end(), more.begin(), more.end());
      ::setenv("TMPDIR", temporary.path().c_str(), 1);
      Program run(folder_.path(), arguments);
      ::unsetenv("TMPDIR");
      const auto has_begun = [&] { return any_process_knows("LUMINAL_CACHE=" + temporary.path().string()); };
      ASSERT_TRUE(run.wait_until(has_begun)) << run.err();
      std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the search is under way
      run.send(signal);
      EXPECT_EQ(run.wait(), 128 + signal) << run.err();
      EXPECT_TRUE(fs::is_empty(temporary.path()));
      for (int look = 0; look < 500 && has_begun(); ++look)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      EXPECT_FALSE(has_begun()) << "a search was left behind";
    }
}

}  // namespace
}  // namespace luminal::cli
