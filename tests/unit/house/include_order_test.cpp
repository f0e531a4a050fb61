#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>

#include "support/files.h"
#include "unit/house/source_tree.h"

namespace luminal::house {
namespace {

using test::TemporaryFolder;
using testing::ElementsAre;
using testing::IsEmpty;

const SourceTree& luminal_tree() {
  static const SourceTree tree(LUMINAL_SOURCE_DIR);
  return tree;
}

TEST(House, ModulesIncludeOnlyWhatComesBeforeThem) {
  EXPECT_THAT(luminal_tree().order_breaches(), IsEmpty());
}

TEST(House, PublicHeadersShowNoOtherLibrary) {
  EXPECT_THAT(luminal_tree().public_header_breaches(), IsEmpty());
}

TEST(House, TheUmbrellaHeaderIncludesEveryPublicHeader) {
  EXPECT_THAT(luminal_tree().missing_from_umbrella(), IsEmpty()) << "add them to include/luminal/luminal.h";
}

TEST(House, EveryFolderOfSrcIsAModule) {
  EXPECT_THAT(luminal_tree().unlisted_folders(), IsEmpty())
      << "add a luminal_module() line to CMakeLists.txt";
}

/// The folders in the order in which docs/design.md lists them; folders on one line share a rank.
std::vector<std::vector<std::string>> documented_order() {
  static const std::regex line_pattern(R"(^  ((\w+/ +)+))"), folder_pattern(R"((\w+)/)");
  std::vector<std::vector<std::string>> order;
  std::ifstream file(std::string(LUMINAL_SOURCE_DIR) + "/docs/design.md");
  std::string line;
  bool inside = false;
  while (std::getline(file, line)) {
    if (line == "src/") inside = true;
    if (line == "```") inside = false;
    std::smatch match;
    if (!inside || !std::regex_search(line, match, line_pattern)) continue;
    const std::string folders = match[1];
    order.emplace_back();
    for (std::sregex_iterator it(folders.begin(), folders.end(), folder_pattern), end; it != end; ++it)
      order.back().push_back((*it)[1]);
  }
  return order;
}

TEST(House, TheBuildKeepsTheOrderOfTheDesign) {
  const auto documented = documented_order();
  ASSERT_GE(documented.size(), 10U) << "docs/design.md, \"Layout\", was not understood";
  for (const auto& folders : documented)
    for (const std::string& folder : folders)
      EXPECT_THAT(luminal_tree().modules(), testing::Contains(folder)) << "docs/design.md, \"Layout\"";
  size_t last = 0;
  for (const std::string& module : luminal_tree().modules()) {
    size_t rank = 0;
    while (rank < documented.size() &&
           testing::Value(documented[rank], testing::Not(testing::Contains(module))))
      ++rank;
    ASSERT_LT(rank, documented.size()) << "docs/design.md, \"Layout\", does not list " << module;
    EXPECT_GE(rank, last) << module << " comes too late in CMakeLists.txt";
    last = rank;
  }
}

/// A tree with a mistake of each kind: the checks above must see them.
class CheckedTree : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* sub : {"include/luminal", "src/base", "src/graph", "src/ops", "src/nn", "src/stray"})
      std::filesystem::create_directories(folder_.path() / sub);
    write("CMakeLists.txt",
          "luminal_module(base)\nluminal_module(graph DEPS base)\nluminal_module(ops)\nluminal_module(nn)\n");
    write("include/luminal/luminal.h", "#include \"luminal/error.h\"\n#include \"luminal/graph.h\"\n");
    write("include/luminal/error.h", "#include <string>\n");
    write("include/luminal/graph.h", "#include \"luminal/error.h\"\n");
    write("src/base/error.cpp", "#include \"luminal/error.h\"\n");
    write("src/graph/node.h", "");
    write("src/ops/ops.cpp", "#include \"graph/node.h\"\n#include <fmt/format.h>\n");
  }
  void write(const std::string& file, const std::string& content) { (void)folder_.file(file, content); }
  [[nodiscard]] const std::filesystem::path& path() const { return folder_.path(); }
  [[nodiscard]] SourceTree tree() const { return SourceTree(folder_.path()); }

 private:
  TemporaryFolder folder_;
};

TEST_F(CheckedTree, AGoodTreeHasNoBreaches) {
  EXPECT_THAT(tree().modules(), ElementsAre("base", "graph", "ops", "nn"));
  EXPECT_THAT(tree().order_breaches(), IsEmpty());
  EXPECT_THAT(tree().public_header_breaches(), IsEmpty());
  EXPECT_THAT(tree().missing_from_umbrella(), IsEmpty());
  EXPECT_THAT(tree().unlisted_folders(), ElementsAre("stray"));
}

TEST_F(CheckedTree, FindsTheOwnersOfPublicHeaders) {
  write("include/luminal/shape.h", "#include \"luminal/graph.h\"\n");
  write("include/luminal/layer.h", "#include \"luminal/shape.h\"\n#include <vector>\n");
  write("include/luminal/number.h", "#include <string>\n");
  std::filesystem::create_directories(path() / "include/luminal/nn");
  write("include/luminal/nn/norm.h", "#include <string>\n");
  EXPECT_EQ(tree().owner("luminal/error.h"), "base");   // first include of src/base/error.cpp
  EXPECT_EQ(tree().owner("luminal/graph.h"), "graph");  // a module's name
  EXPECT_EQ(tree().owner("luminal/nn/norm.h"), "nn");   // a module's folder
  EXPECT_EQ(tree().owner("luminal/layer.h"), "graph");  // through shape.h
  EXPECT_EQ(tree().owner("luminal/number.h"), "base");
}

TEST_F(CheckedTree, SeesAModuleThatIncludesALaterOne) {
  write("src/graph/graph.cpp", "\n#include \"ops/add.h\"\n");
  write("src/base/error.cpp", "  #  include \"luminal/graph.h\"\n");
  EXPECT_THAT(
      tree().order_breaches(),
      ElementsAre(
          "src/base/error.cpp:1 (base) includes luminal/graph.h (graph): graph comes after base in "
          "CMakeLists.txt",
          "src/graph/graph.cpp:2 (graph) includes ops/add.h (ops): ops comes after graph in CMakeLists.txt"));
}

TEST_F(CheckedTree, SeesInsidesWherePublicHeadersMustDo) {
  write("src/nn/linear.cpp",
        "#include \"nn/linear.h\"\n#include \"base/fail.h\"\n#include \"graph/node.h\"\n");
  EXPECT_THAT(tree().order_breaches(),
              ElementsAre("src/nn/linear.cpp:3 (nn) includes graph/node.h (graph): nn builds on "
                          "public headers and base alone"));
}

TEST_F(CheckedTree, SeesOtherLibrariesInPublicHeaders) {
  write("include/luminal/graph.h",
        "#include <fmt/format.h>\n#include <zlib.h>\n#include \"graph/node.h\"\n#include <map>\n");
  EXPECT_THAT(tree().public_header_breaches(),
              ElementsAre(testing::StartsWith("include/luminal/graph.h:1 includes fmt/format.h:"),
                          testing::StartsWith("include/luminal/graph.h:2 includes zlib.h:"),
                          testing::StartsWith("include/luminal/graph.h:3 includes graph/node.h:")));
}

TEST_F(CheckedTree, SeesWhatTheUmbrellaLacks) {
  write("include/luminal/new_thing.h", "");
  EXPECT_THAT(tree().missing_from_umbrella(), ElementsAre("luminal/new_thing.h"));
}

TEST_F(CheckedTree, RefusesATreeWithoutModules) {
  write("CMakeLists.txt", "project(other)\n");
  EXPECT_THAT([this] { (void)tree(); },
              testing::ThrowsMessage<std::runtime_error>(testing::StartsWith("no luminal_module() line")));
}

}  // namespace
}  // namespace luminal::house
