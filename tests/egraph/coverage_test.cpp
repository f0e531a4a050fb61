// Every command, action, option, primitive and message of the language occurs in some program of this folder.
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "egraph/language/interpreter.h"
#include "egraph/language/parser.h"
#include "support/files.h"
#include "support/formats.h"

namespace luminal::egraph::language {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = LUMINAL_SOURCE_DIR;

std::vector<fs::path> files(const fs::path& folder, std::string_view extension) {
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
    if (entry.path().extension() == extension) found.push_back(entry.path());
  return found;
}

/// Names that the programs use, comments aside. Those of functions that are handed over stand in quotes.
std::set<std::string> words() {
  std::set<std::string> all;
  for (const fs::path& path : files(kSource / "tests" / "egraph", ".egg")) {
    const std::string text = std::regex_replace(test::content_of(path), std::regex(";[^\n]*"), "");
    const std::regex word("[^\\s()\"]+");
    for (std::sregex_iterator i(text.begin(), text.end(), word), end; i != end; ++i) all.insert(i->str());
  }
  return all;
}

std::vector<std::string> primitives() {
  Interpreter interpreter(EgglogOptions{});
  interpreter.run(
      "(datatype Node (Leaf i64)) (sort Nodes (Vec Node)) (sort Numbers (Vec i64)) (sort Some (Set Node))"
      "(sort Bag (MultiSet Node)) (sort Numbered (MultiSet i64)) (sort Table (Map Node Node))"
      "(sort Both (Pair Node i64)) (sort Step (UnstableFn (Node) Node)) (sort Test (UnstableFn (Node) Unit))"
      "(sort Join (UnstableFn (Node Node) Node)) (sort Spread (UnstableFn (Node) Bag))"
      "(sort Index (UnstableFn (Bag Node) i64)) (sort Bags (MultiSet Bag)) (sort Ratio (Vec Rational))",
      "all.egg");
  std::vector<std::string> names;
  for (const auto& [name, overloads] : interpreter.scope().primitives) names.push_back(name.text());
  return names;
}

TEST(Coverage, EveryPrimitiveStandsInAProgram) {
  const std::set<std::string> used = words();
  const std::vector<std::string> names = primitives();
  EXPECT_GT(names.size(), 120U);
  for (const std::string& name : names) EXPECT_TRUE(used.contains(name)) << name;
}

TEST(Coverage, EveryCommandActionAndOptionStandsInAProgram) {
  const std::set<std::string> used = words();
  for (const std::string_view name : Parser::command_names())
    EXPECT_TRUE(used.contains(std::string(name))) << name;
  for (const char* name : {"let",      "set",       "union",    "delete", "subsume", "panic",
                           "saturate", "seq",       "repeat",   "run",    ":cost",   ":unextractable",
                           ":merge",   ":no-merge", ":ruleset", ":name",  ":naive",  ":unsafe-seminaive",
                           ":when",    ":subsume",  ":until",   ":mode",  ":file",   ":internal-uf"})
    EXPECT_TRUE(used.contains(name)) << name;
}

// Not to be met by a program alone: they need an option, a host, or are a second line of defence.
const std::set<std::string> kElsewhere{
    "global '{}' must start with '$'",  // --strict-mode
    "'{}' takes {} arguments, but {} are given: {}",
    "'{}' has sort {}, but {} is expected here",
    "'{}' returns {}, but {} is expected here",
};

TEST(Coverage, EveryMessageStandsInAnExpectedOutput) {
  std::string printed;
  for (const fs::path& path : files(kSource / "tests" / "egraph", ".out")) printed += test::content_of(path);
  const std::regex call(R"re(\b(?:fail_at|command_failed)\([^"]{1,80}((?:"(?:[^"\\]|\\.)*"\s*)+))re");
  size_t messages = 0;
  for (const fs::path& path : files(kSource / "src" / "egraph" / "language", ".cpp"))
    for (const std::string& format : test::formats_in(test::content_of(path), call)) {
      if (kElsewhere.contains(format)) continue;
      messages++;
      EXPECT_NE(printed.find(test::longest_piece(format)), std::string::npos)
          << path.filename() << ": no program is met by: " << format;
    }
  EXPECT_GT(messages, 80U);
}

}  // namespace
}  // namespace luminal::egraph::language
