#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "support/files.h"
#include "support/markdown.h"

namespace luminal::house {
namespace {

namespace fs = std::filesystem;
const fs::path kRoot = LUMINAL_SOURCE_DIR;

TEST(Readme, ItsExamplesAreProgramsThatTheTestsRun) {
  std::string programs;
  for (const auto& entry : fs::directory_iterator(kRoot / "examples"))
    if (entry.path().extension() == ".cpp") programs += test::content_of(entry.path());
  const auto blocks = test::cpp_blocks(test::content_of(kRoot / "README.md"));
  ASSERT_FALSE(blocks.empty());
  for (const std::string& block : blocks)
    EXPECT_NE(programs.find(block), std::string::npos) << "no file of examples/ contains\n" << block;
}

/// A training loop that fits on a page; that it runs and learns is its own test (example_training_loop).
TEST(Readme, TheTrainingLoopHasAtMost25Lines) {
  bool found = false;
  for (const std::string& block : test::cpp_blocks(test::content_of(kRoot / "README.md"))) {
    if (block.find("training::") == std::string::npos) continue;
    found = true;
    EXPECT_LE(std::count(block.begin(), block.end(), '\n'), 25) << block;
  }
  EXPECT_TRUE(found);
}

TEST(Readme, ExamplesAreShort) {
  for (const auto& entry : fs::directory_iterator(kRoot / "examples")) {
    const std::string text = test::content_of(entry.path());
    EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 60) << entry.path();
  }
}

}  // namespace
}  // namespace luminal::house
