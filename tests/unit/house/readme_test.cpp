#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "support/files.h"

namespace luminal::house {
namespace {

namespace fs = std::filesystem;
const fs::path kRoot = LUMINAL_SOURCE_DIR;

/// What stands between "```cpp" and "```" in a Markdown text.
std::vector<std::string> cpp_blocks(const std::string& markdown) {
  const std::string open = "```cpp\n", close = "```";
  std::vector<std::string> blocks;
  for (size_t at = 0; (at = markdown.find(open, at)) != std::string::npos;) {
    const size_t begin = at + open.size(), end = markdown.find(close, begin);
    blocks.push_back(markdown.substr(begin, end - begin));
    at = end == std::string::npos ? end : end + close.size();
  }
  return blocks;
}

TEST(Readme, ItsExamplesAreProgramsThatTheTestsRun) {
  std::string programs;
  for (const auto& entry : fs::directory_iterator(kRoot / "examples"))
    if (entry.path().extension() == ".cpp") programs += test::content_of(entry.path());
  const auto blocks = cpp_blocks(test::content_of(kRoot / "README.md"));
  ASSERT_FALSE(blocks.empty());
  for (const std::string& block : blocks)
    EXPECT_NE(programs.find(block), std::string::npos) << "no file of examples/ contains\n" << block;
}

TEST(Readme, ItsLinksLeadSomewhere) {
  static const std::regex link(R"(\]\(([^)#]+)[^)]*\))");
  for (const char* file : {"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}) {
    const std::string text = test::content_of(kRoot / file);
    ASSERT_FALSE(text.empty()) << file;
    for (std::sregex_iterator it(text.begin(), text.end(), link), end; it != end; ++it) {
      const std::string target = (*it)[1];
      EXPECT_TRUE(target.starts_with("http") || fs::exists(kRoot / target))
          << file << " points to " << target;
    }
  }
}

TEST(Readme, ExamplesAreShort) {
  for (const auto& entry : fs::directory_iterator(kRoot / "examples")) {
    const std::string text = test::content_of(entry.path());
    EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 60) << entry.path();
  }
}

}  // namespace
}  // namespace luminal::house
