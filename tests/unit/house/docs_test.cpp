#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/files.h"

namespace luminal::house {
namespace {

namespace fs = std::filesystem;
using testing::IsEmpty;

const fs::path kDocsRoot = LUMINAL_SOURCE_DIR;

/// A line of a page; code blocks belong to it, links and headings are looked for outside of them.
struct PageLine {
  int number = 0;
  std::string text;
  bool code = false;
};

std::vector<PageLine> lines_of(const std::string& page) {
  std::vector<PageLine> lines;
  std::istringstream text(page);
  std::string line;
  bool code = false;
  for (int number = 1; std::getline(text, line); ++number) {
    const bool fence = line.starts_with("```");
    lines.push_back({number, line, code || fence});
    if (fence) code = !code;
  }
  return lines;
}

/// All pages, relative to the root.
std::vector<std::string> pages() {
  std::vector<std::string> found;
  const auto add = [&](const fs::directory_entry& entry) {
    if (entry.path().extension() == ".md") found.push_back(fs::relative(entry.path(), kDocsRoot).string());
  };
  for (const auto& entry : fs::directory_iterator(kDocsRoot)) add(entry);
  for (const char* folder : {"docs", ".github"})
    for (const auto& entry : fs::recursive_directory_iterator(kDocsRoot / folder)) add(entry);
  std::ranges::sort(found);
  return found;
}

/// As GitHub makes anchors of headings: lower case, blanks to hyphens, without punctuation.
std::string anchor_of(std::string_view heading) {
  std::string anchor;
  for (const char c : heading) {
    if (c == ' ' || c == '-') anchor += '-';
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_')
      anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return anchor;
}

std::set<std::string> anchors_of(const std::string& page) {
  std::set<std::string> anchors;
  for (const PageLine& line : lines_of(page)) {
    const size_t level = line.text.find_first_not_of('#');
    if (!line.code && level != 0 && level != std::string::npos && line.text[level] == ' ')
      anchors.insert(anchor_of(line.text.substr(level + 1)));
  }
  return anchors;
}

/// Links of a page that lead nowhere: "docs/a.md:3 links to b.md".
std::vector<std::string> dead_links(const fs::path& root, const std::string& file) {
  static const std::regex link(R"(\]\(([^)#\s]*)(#([^)\s]*))?\))");
  const std::string page = test::content_of(root / file);
  std::vector<std::string> dead;
  for (const PageLine& line : lines_of(page)) {
    if (line.code) continue;
    for (std::sregex_iterator it(line.text.begin(), line.text.end(), link), end; it != end; ++it) {
      const std::string target = (*it)[1], anchor = (*it)[3];
      if (target.starts_with("http")) continue;
      const fs::path linked = target.empty() ? root / file : (root / file).parent_path() / target;
      if (!fs::exists(linked) || (!anchor.empty() && !anchors_of(test::content_of(linked)).contains(anchor)))
        dead.push_back(file + ":" + std::to_string(line.number) + " links to " + it->str(0).substr(1));
    }
  }
  return dead;
}

/// Files and folders of the repository that a page names and that do not exist.
std::vector<std::string> missing_paths(const fs::path& root, const std::string& file) {
  static const std::regex path(
      R"((^|[\s`"'(/])((src|include|tests|tools|docs|examples|bench|cmake|data)/[\w./*<>-]*[\w/]))");
  // What guides have their reader make.
  static const std::set<std::string> made{"src/ops/softsign.cpp", "src/codegen/schedules/flat.cpp",
                                          "src/backends/interpreted/backend.cpp"};
  std::vector<std::string> missing;
  for (const PageLine& line : lines_of(test::content_of(root / file)))
    for (std::sregex_iterator it(line.text.begin(), line.text.end(), path), end; it != end; ++it) {
      std::string named = (*it)[2];
      if ((*it)[1] == "/" || made.contains(named)) continue;  // of a path that leads elsewhere; to be made
      if (const size_t pattern = named.find_first_of("*<"); pattern != std::string::npos)
        named = named.substr(0, named.rfind('/', pattern));
      if (!fs::exists(root / named))
        missing.push_back(file + ":" + std::to_string(line.number) + " names " + named);
    }
  return missing;
}

class Page : public testing::TestWithParam<std::string> {
 protected:
  std::string text_ = test::content_of(kDocsRoot / GetParam());
};

TEST_P(Page, LinksLeadSomewhere) { EXPECT_THAT(dead_links(kDocsRoot, GetParam()), IsEmpty()); }

TEST_P(Page, NamesFilesThatExist) { EXPECT_THAT(missing_paths(kDocsRoot, GetParam()), IsEmpty()); }

/// Rows of tables cannot be broken.
TEST_P(Page, LinesHaveAtMost120Characters) {
  for (const PageLine& line : lines_of(text_)) {
    const auto characters = std::ranges::count_if(line.text, [](char c) { return (c & 0xC0) != 0x80; });
    EXPECT_TRUE(characters <= 120 || line.text.starts_with('|'))
        << GetParam() << ":" << line.number << " has " << characters;
  }
}

INSTANTIATE_TEST_SUITE_P(Docs, Page, testing::ValuesIn(pages()), [](const auto& file) {
  std::string name;
  for (const char c : file.param) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
});

TEST(Docs, TheIndexListsEveryPage) {
  const std::string index = test::content_of(kDocsRoot / "docs/README.md");
  for (const auto& entry : fs::directory_iterator(kDocsRoot / "docs")) {
    const std::string name = entry.path().filename().string();
    EXPECT_TRUE(name == "README.md" || index.find("](" + name + ")") != std::string::npos)
        << "docs/README.md does not list " << name;
  }
}

TEST(Docs, TheDesignIsShort) {
  EXPECT_LE(lines_of(test::content_of(kDocsRoot / "docs/design.md")).size(), 200U);
}

TEST(Docs, TheGlossaryHasAtMost40TermsInOrder) {
  std::vector<std::string> terms;
  for (const PageLine& line : lines_of(test::content_of(kDocsRoot / "docs/glossary.md")))
    if (line.text.starts_with("| ") && !line.text.starts_with("| term"))
      terms.push_back(anchor_of(line.text.substr(2, line.text.find(" |", 2) - 2)));
  EXPECT_THAT(terms, testing::SizeIs(testing::AllOf(testing::Gt(20U), testing::Le(40U))));
  EXPECT_TRUE(std::ranges::is_sorted(terms));
}

TEST(Docs, TheChangelogHasTheUsualSections) {
  static const std::set<std::string> kinds{"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"};
  for (const PageLine& line : lines_of(test::content_of(kDocsRoot / "CHANGELOG.md")))
    EXPECT_TRUE(!line.text.starts_with("### ") || kinds.contains(line.text.substr(4))) << line.text;
}

/// The checks above must see what they are for.
TEST(Docs, DeadLinksAndMissingFilesAreSeen) {
  const test::TemporaryFolder folder;
  fs::create_directories(folder.path() / "src");
  (void)folder.file("b.md", "# The *B* page\n## Second part\n");
  (void)folder.file(
      "a.md",
      "[fine](b.md), [fine](b.md#second-part), [fine](#first), [fine](https://x.org/y)\n# First\n"
      "[no file](c.md)\n[no anchor](b.md#third)\n```\n[code](d.md)\n```\n"
      "`src/*.cpp`, `src/gone/file.cpp`, `luminal/src/b.h`\n");
  EXPECT_THAT(dead_links(folder.path(), "a.md"),
              testing::ElementsAre("a.md:3 links to (c.md)", "a.md:4 links to (b.md#third)"));
  EXPECT_THAT(missing_paths(folder.path(), "a.md"), testing::ElementsAre("a.md:8 names src/gone/file.cpp"));
  EXPECT_THAT(anchors_of(test::content_of(folder.path() / "b.md")),
              testing::ElementsAre("second-part", "the-b-page"));
}

}  // namespace
}  // namespace luminal::house
