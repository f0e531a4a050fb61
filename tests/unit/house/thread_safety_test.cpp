#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <vector>

// Every public class says what threads may do with it: in the comment above it, or at the head of its header
// for all.
namespace luminal::house {
namespace {

constexpr std::string_view kWords = "Thread safety:";

/// Words of a comment that lines break.
std::string unwrapped(const std::string& text) {
  return std::regex_replace(text, std::regex(R"(\n\s*/// ?)"), " ");
}

/// Classes of a header that say nothing. Errors carry what they are for, and private parts are nobody's
/// business.
std::vector<std::string> silent_classes(const std::string& header) {
  const std::string head = unwrapped(header.substr(0, header.find("\nnamespace ")));
  std::vector<std::string> silent;
  if (head.find(kWords) != std::string::npos) return silent;
  static const std::regex declaration(
      R"(((?:\n *///[^\n]*)*)(?:\ntemplate <[^\n]*)?\nclass (\w+)(?: final)?( : [^\n]*)? \{)");
  for (std::sregex_iterator it(header.begin(), header.end(), declaration), end; it != end; ++it) {
    const bool is_error = (*it)[3].str().find("rror") != std::string::npos;
    if (!is_error && unwrapped((*it)[1].str()).find(kWords) == std::string::npos) silent.push_back((*it)[2]);
  }
  return silent;
}

TEST(House, EveryPublicClassSaysWhatThreadsMayDoWithIt) {
  std::vector<std::string> silent;
  const std::filesystem::path folder = std::filesystem::path(LUMINAL_SOURCE_DIR) / "include";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".h") continue;
    std::ifstream file(entry.path());
    std::stringstream text;
    text << file.rdbuf();
    for (const std::string& name : silent_classes(text.str()))
      silent.push_back(entry.path().lexically_relative(folder).string() + ": " + name);
  }
  EXPECT_THAT(silent, testing::IsEmpty());
}

TEST(House, SeesClassesThatSayNothing) {
  EXPECT_THAT(silent_classes("\n/// A thing.\nclass Thing {\n};\n"), testing::ElementsAre("Thing"));
  EXPECT_THAT(
      silent_classes("\n/// A thing. Thread\n/// safety: none.\nclass Thing final : public Base {\n};\n"),
      testing::IsEmpty());
  EXPECT_THAT(silent_classes("\n/// Things. Thread safety: none.\nnamespace n {\nclass Thing {\n};\n"),
              testing::IsEmpty());
  EXPECT_THAT(silent_classes("\nclass Bad : public Error {\n};\nclass Other;\n"), testing::IsEmpty());
}

}  // namespace
}  // namespace luminal::house
