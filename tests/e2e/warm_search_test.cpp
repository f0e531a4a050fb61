#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "e2e/program.h"
#include "support/files.h"

// A search of a program that an earlier process has searched for: all is remembered, down to the check of the plan as a
// whole, and what is not the same program, or was not looked at, is none of it.
namespace luminal::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kRound = "search: round 0";
constexpr const char* kSameCover = "the cover was found before";
constexpr const char* kChecked = "the plan was checked as a whole before";

class WarmSearch : public testing::Test {
 protected:
  /// What a search tells of itself; its cache is the folder's.
  std::string search(const std::string& program, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"explain", program, "--device", "cpu", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Program run(folder_.path(), arguments);
    EXPECT_EQ(run.wait(), 0) << run.err();
    return run.err();
  }
  test::TemporaryFolder folder_;
};

/// Two kernels, one of which reads what the other makes.
const std::string kProgram = "(x:f32[48,64].matmul(w:f32[64,40]) + b:f32[40]).softmax(0).softmax(1)";
const std::vector<std::string> kOptimal{"--mode", "optimal"};

TEST_F(WarmSearch, RemembersCoverKernelsAndCheck) {
  const std::string cold = search(kProgram, kOptimal);
  EXPECT_THAT(cold, HasSubstr(kRound));
  EXPECT_THAT(cold, Not(HasSubstr(kSameCover)));
  EXPECT_THAT(cold, Not(HasSubstr(kChecked)));
  for (int process = 0; process < 2; ++process) {
    const std::string warm = search(kProgram, kOptimal);
    EXPECT_THAT(warm, Not(HasSubstr(kRound)));
    EXPECT_THAT(warm, HasSubstr(kSameCover));
    EXPECT_THAT(warm, HasSubstr(kChecked));
  }
}

TEST_F(WarmSearch, IsOfTheSameProgramOnly) {
  (void)search(kProgram, kOptimal);
  const auto expect_cold = [&](const std::string& program, const std::vector<std::string>& more) {
    const std::string told = search(program, more);
    EXPECT_THAT(told, HasSubstr(kRound));
    EXPECT_THAT(told, Not(HasSubstr(kChecked)));
  };
  std::string other_size = kProgram, other_op = kProgram;
  expect_cold(other_size.replace(other_size.find("48"), 2, "56"), kOptimal);
  expect_cold(other_op.replace(other_op.find(" + "), 3, " - "), kOptimal);
  expect_cold(kProgram, {"--mode", "optimal", "--math", "strict"});
}

/// The plan of Fast mode is checked by nobody.
TEST_F(WarmSearch, OfFastModeLeavesTheCheckToDo) {
  (void)search(kProgram);
  EXPECT_THAT(search(kProgram, kOptimal), Not(HasSubstr(kChecked)));
}

}  // namespace
}  // namespace luminal::cli
