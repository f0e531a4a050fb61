// Runs every program in this folder and compares what it prints, and how it fails, with the .out file beside
// it.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "egraph/core/state.h"
#include "luminal/egglog.h"
#include "luminal/error.h"

namespace luminal::egraph {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(LUMINAL_SOURCE_DIR) / "tests" / "egraph";

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> programs(const std::string& subfolder = "") {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kFolder / subfolder))
    if (entry.path().extension() == ".egg")
      names.push_back(fs::relative(entry.path(), kFolder).generic_string());
  std::sort(names.begin(), names.end());
  return names;
}

/// What the program prints; if it fails, then a line of dashes and the message. With more than one thread
/// even the smallest jobs are shared out.
std::string transcript(const std::string& name, EgglogOptions options = {}) {
  // Names in messages and in include commands are relative to the folder.
  fs::current_path(kFolder);
  std::string out;
  options.fact_directory = fs::path(name).parent_path();
  options.proofs = options.proofs || name.starts_with("proofs/");
  options.on_output = [&](std::string_view text) { out += text; };
  try {
    EgglogProgram program(options);
    if (options.threads > 1) program.graph().state().parallel->least_items = 1;
    program.run(content(kFolder / name), name);
  } catch (const Error& error) {
    out += std::string("----\n") + error.what() + "\n";
  }
  return out;
}

class Programs : public testing::TestWithParam<std::string> {};

TEST_P(Programs, PrintWhatIsExpected) {
  const fs::path expected = (kFolder / GetParam()).replace_extension(".out");
  ASSERT_TRUE(fs::exists(expected)) << expected << " is missing";
  EXPECT_EQ(transcript(GetParam()), content(expected));
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param.substr(0, info.param.size() - 4);
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

TEST_P(Programs, PrintTheSameOnThreeThreads) {
  EgglogOptions options;
  options.threads = 3;
  EXPECT_EQ(transcript(GetParam(), options), content((kFolder / GetParam()).replace_extension(".out")));
}

INSTANTIATE_TEST_SUITE_P(All, Programs, testing::ValuesIn(programs()), test_name);

/// Programs whose result does not depend on how often a rule matches.
class Modes : public testing::TestWithParam<std::string> {};

TEST_P(Modes, NaiveEvaluationPrintsTheSame) {
  EgglogOptions options;
  options.seminaive = false;
  EXPECT_EQ(transcript(GetParam(), options), content((kFolder / GetParam()).replace_extension(".out")));
}

TEST_P(Modes, ExplanationsChangeNothing) {
  EgglogOptions options;
  options.proofs = true;
  EXPECT_EQ(transcript(GetParam(), options), content((kFolder / GetParam()).replace_extension(".out")));
}

INSTANTIATE_TEST_SUITE_P(Programs, Modes, testing::ValuesIn(programs("programs")), test_name);

/// Each proof of a check goes through the checker, or the program ends in an error.
class Proofs : public testing::TestWithParam<std::string> {};

TEST_P(Proofs, OfEveryCheckHold) {
  EgglogOptions options;
  options.proofs = options.prove_checks = true;
  EXPECT_EQ(transcript(GetParam(), options), content((kFolder / GetParam()).replace_extension(".out")));
}

INSTANTIATE_TEST_SUITE_P(Programs, Proofs, testing::ValuesIn(programs("programs")), test_name);
INSTANTIATE_TEST_SUITE_P(Primitives, Proofs, testing::ValuesIn(programs("primitives")), test_name);

/// A program of docs/egraph.md, with the block that says what it prints.
struct Lesson {
  size_t line = 0;
  bool proofs = false;
  std::string program, expected;
};

std::vector<Lesson> lessons() {
  std::ifstream file(fs::path(LUMINAL_SOURCE_DIR) / "docs" / "egraph.md");
  std::vector<Lesson> out;
  std::string line, *into = nullptr;
  for (size_t number = 1; std::getline(file, line); ++number) {
    if (line.starts_with("```egglog")) {
      out.push_back({.line = number, .proofs = line == "```egglog proofs", .program = {}, .expected = {}});
      into = &out.back().program;
    } else if (line == "```output") {
      into = &out.back().expected;
    } else if (line.starts_with("```")) {
      into = nullptr;
    } else if (into) {
      *into += line + "\n";
    }
  }
  return out;
}

TEST(Documentation, ItsProgramsPrintWhatItSays) {
  const std::vector<Lesson> all = lessons();
  ASSERT_GE(all.size(), 6U);
  for (const Lesson& lesson : all) {
    EgglogOptions options;
    options.proofs = lesson.proofs;
    EXPECT_EQ(run_program(lesson.program, "egraph.md", options), lesson.expected)
        << "docs/egraph.md:" << lesson.line;
  }
}

}  // namespace
}  // namespace luminal::egraph
