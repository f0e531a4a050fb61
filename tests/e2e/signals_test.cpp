#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "e2e/command_run.h"
#include "e2e/program.h"
#include "support/files.h"

// The program in a process of its own: signals in the middle of a search and of training, and standard
// descriptors that are missing.
namespace luminal::cli {
namespace {

using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

class Signals : public testing::Test {
 protected:
  [[nodiscard]] std::vector<std::string> train(std::vector<std::string> more) const {
    std::vector<std::string> all{"train", "mnist", "--data", kDigits, "--weights", weights_.string()};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  test::TemporaryFolder folder_;
  fs::path weights_ = folder_.path() / "w.safetensors";
};

/// The search has begun when its cache is there, and is done when the plan's table is printed.
TEST_F(Signals, StopASearchAtOnceAndLeaveTheWeightsAlone) {
  for (const int signal : {SIGINT, SIGTERM}) {
    fs::remove_all(folder_.path() / "cache");
    (void)folder_.file("w.safetensors", "weights of another day");
    Program run(folder_.path(), train({"--mode", "optimal"}));
    ASSERT_TRUE(run.wait_until([&] { return fs::exists(folder_.path() / "cache"); })) << run.err();
    run.send(signal);
    if (signal == SIGINT) {  // the first ends the search only
      ASSERT_TRUE(run.wait_until([&] { return run.err().find("ending the search") != std::string::npos; }));
      run.send(signal);
    }
    EXPECT_EQ(run.wait(), 128 + signal) << run.err();
    EXPECT_THAT(run.err(), HasSubstr("luminal: stopped\n"));
    EXPECT_THAT(run.err(), Not(HasSubstr("search: round 1")));  // the second of several that the search has
    EXPECT_THAT(run.out(), Not(HasSubstr("training on")));
    EXPECT_EQ(test::content_of(weights_), "weights of another day");
  }
}

/// Training, the evaluation and the comparison with Fast mode go on with the plan that is there.
TEST_F(Signals, ASearchThatWasEndedIsNotBegunAnew) {
  Program run(folder_.path(), train({"--mode", "optimal", "--limit", "640", "--epochs", "1"}));
  ASSERT_TRUE(run.wait_until([&] { return fs::exists(folder_.path() / "cache"); })) << run.err();
  run.send(SIGINT);
  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("in optimal mode"));
  const std::string text = run.err(), round = "search: round 0";
  ASSERT_THAT(text, HasSubstr("ending the search"));
  EXPECT_EQ(text.find(round), text.rfind(round)) << text;
  EXPECT_THAT(text, Not(HasSubstr("search: round 1")));
  EXPECT_THAT(run.out(), Not(HasSubstr("with the cache filled")));
}

/// At ten random moments of a search, one in each tenth of the time that it takes.
TEST_F(Signals, AtAnyMomentASearchEndsWithAPlanThatRuns) {
  const std::vector<std::string> arguments = train({"--mode", "optimal", "--limit", "64", "--epochs", "1"});
  using Clock = std::chrono::steady_clock;
  const fs::path cache = folder_.path() / "cache";
  const auto has_begun = [&] { return fs::exists(cache); };
  Clock::duration whole{};
  {
    Program run(folder_.path(), arguments);
    ASSERT_TRUE(run.wait_until(has_begun)) << run.err();
    const auto begin = Clock::now();
    ASSERT_TRUE(run.wait_until([&] { return run.out().find("training on") != std::string::npos; }));
    whole = Clock::now() - begin;
  }
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> within(0, 1);
  int searches_ended = 0;
  for (int tenth = 0; tenth < 10; ++tenth) {
    const double moment = (tenth + within(random)) / 10;
    SCOPED_TRACE(testing::Message() << "at " << moment << " of the search");
    fs::remove_all(cache);
    fs::remove(weights_);
    Program run(folder_.path(), arguments);
    ASSERT_TRUE(run.wait_until(has_begun)) << run.err();
    std::this_thread::sleep_for(std::chrono::duration_cast<Clock::duration>(moment * whole));
    run.send(SIGINT);
    const int code = run.wait();
    if (run.err().find("ending the search") == std::string::npos) {  // this one was done by then
      EXPECT_TRUE(code == 0 || code == 130) << code << run.err();
      continue;
    }
    ++searches_ended;
    EXPECT_EQ(code, 0) << run.err();
    EXPECT_THAT(run.out(), HasSubstr("in optimal mode"));
    EXPECT_TRUE(fs::exists(weights_)) << "it did not train";
  }
  EXPECT_GE(searches_ended, 5);
}

TEST_F(Signals, StopTrainingBeforeAPassIsDoneAndLeaveOlderWeights) {
  (void)folder_.file("w.safetensors", "weights of another day");
  const fs::path metrics = folder_.path() / "m.jsonl";
  Program run(folder_.path(), train({"--mode", "fast", "--batch", "1", "--metrics", metrics.string()}));
  ASSERT_TRUE(
      run.wait_until([&] { return test::content_of(metrics).find("train_loss") != std::string::npos; }));
  run.send(SIGINT);
  EXPECT_EQ(run.wait(), 130) << run.err();
  EXPECT_THAT(run.out(),
              HasSubstr("no pass over the data is complete, so " + weights_.string() + " is left as it was"));
  EXPECT_EQ(test::content_of(weights_), "weights of another day");
}

/// Both wait in a stopped main thread, so that it handles both before it looks at one. Linux sets the handlers up in
/// the order of their numbers, each on top of the one before, so SIGTERM's runs first. (Otherwise SIGINT would end
/// the search only, and SIGTERM would be the first signal that stops the program.)
TEST_F(Signals, ASecondOneEndsTheProgram) {
  Program run(folder_.path(), train({"--mode", "optimal"}));
  ASSERT_TRUE(run.wait_until([&] { return fs::exists(folder_.path() / "cache"); })) << run.err();
  const pid_t process = run.process();
  run.send(SIGSTOP);
  int status = 0;
  ASSERT_EQ(::waitpid(process, &status, WUNTRACED), process);
  ASSERT_TRUE(WIFSTOPPED(status)) << status;
  for (const int signal : {SIGTERM, SIGINT}) ASSERT_EQ(::tgkill(process, process, signal), 0);
  run.send(SIGCONT);
  const int code = run.wait();
  EXPECT_TRUE(code == 130 || code == 143) << code;
  EXPECT_THAT(run.err(), Not(HasSubstr("luminal: stopped")));  // it did not come to say so
  EXPECT_FALSE(fs::exists(weights_));
}

TEST_F(Signals, EndAProgramOfTheEngineWithWhatItHasFound) {
  const fs::path program = folder_.file("endless.egg", R"(
    (relation n (i64)) (rule ((n x) (< x 100)) ((n (+ x 1)))) (n 0) (run 200) (extract 7)
    (relation m (i64)) (rule ((m x)) ((m (+ x 1)))) (m 0) (run-schedule (saturate (run))))");
  const fs::path json = folder_.path() / "graph.json";
  Program run(folder_.path(), {"egg", program.string(), "--to-json", json.string()});
  ASSERT_TRUE(run.wait_until([&] { return run.out().find('7') != std::string::npos; })) << run.err();
  run.send(SIGINT);
  EXPECT_EQ(run.wait(), 130);
  EXPECT_THAT(run.err(), HasSubstr("endless.egg:3"));
  EXPECT_THAT(run.err(), HasSubstr(" iterations, "));
  EXPECT_TRUE(fs::exists(json));
}

TEST_F(Signals, MissingDescriptorsTakeNoFilesPlace) {
  const fs::path json = folder_.path() / "r.json", metrics = folder_.path() / "m.jsonl";
  for (const std::vector<int>& closed : {std::vector{1}, std::vector{2}, std::vector{0, 1, 2}}) {
    Program run(folder_.path(),
                train({"--mode", "fast", "--epochs", "1", "--limit", "20", "--batch", "10", "--json",
                       json.string(), "--metrics", metrics.string()}),
                closed);
    EXPECT_EQ(run.wait(), 0);
    EXPECT_THAT(test::content_of(json), testing::StartsWith("{\n"));
    EXPECT_THAT(test::content_of(metrics), testing::StartsWith("{\"step\":1,"));
    for (const fs::path& file : {json, metrics, weights_}) {
      EXPECT_THAT(test::content_of(file), Not(HasSubstr("training on")));
      EXPECT_THAT(test::content_of(file), Not(HasSubstr("epoch 1/1")));
    }
  }
}

TEST_F(Signals, OutputThatCannotBeWrittenIsAnError) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  const std::string command =
      std::string(LUMINAL_PROGRAM) + " env > /dev/full 2> " + (folder_.path() / "err").string();
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 1);
  EXPECT_EQ(test::content_of(folder_.path() / "err"),
            "luminal: cannot write the output; is the disk full?\n");
}

TEST_F(Signals, APipeThatNobodyReadsEndsTheProgramAsItDoesOthers) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  ::close(ends[0]);
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGPIPE, SIG_DFL);
    ::dup2(ends[1], STDOUT_FILENO);
    ::execl(LUMINAL_PROGRAM, LUMINAL_PROGRAM, "env", nullptr);
    ::_exit(127);
  }
  ::close(ends[1]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE) << status;
}

TEST_F(Signals, ASecondTrainingInAFolderOfCheckpointsIsRefused) {
  const fs::path runs = folder_.path() / "runs";
  Program run(folder_.path(), train({"--mode", "fast", "--batch", "1", "--checkpoints", runs.string()}));
  ASSERT_TRUE(run.wait_until([&] { return !test::content_of(runs / ".lock").empty(); })) << run.err();
  const test::TemporaryFolder elsewhere;
  std::vector<std::string> again = train({"--mode", "fast", "--checkpoints", runs.string(), "--resume"});
  Program second(elsewhere.path(), again);
  EXPECT_EQ(second.wait(), 1);
  EXPECT_THAT(second.err(),
              HasSubstr("luminal: [checkpoint] '" + runs.string() + "' is in use by a run of process " +
                        std::to_string(run.process()) + ": two runs in one folder"));
  run.send(SIGKILL);
  EXPECT_EQ(run.wait(), 137);
}

}  // namespace
}  // namespace luminal::cli
