#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

namespace luminal::house {
namespace {

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

/// The records of ops, as code calls them: kAdd, kGather ...
std::set<std::string> record_names() {
  static const std::regex record(R"(&(k\w+))");
  const std::string text = text_of(std::filesystem::path(LUMINAL_SOURCE_DIR) / "src/ops/registry.cpp");
  std::set<std::string> names;
  for (std::sregex_iterator it(text.begin(), text.end(), record), end; it != end; ++it)
    names.insert((*it)[1]);
  return names;
}

/// What nobody below the graph may know of.
const std::set<std::string> kHighLevel = {
    "softmax",    "log_softmax", "attention",     "conv1d",     "conv2d",     "conv3d",
    "matmul",     "relu",        "gelu",          "silu",       "sigmoid",    "swish",
    "layer_norm", "batch_norm",  "rms_norm",      "group_norm", "dropout",    "embedding",
    "linear",     "adam",        "cross_entropy", "max_pool2d", "avg_pool2d", "cumsum"};

/// Names of ops in a text, comments aside.
std::vector<std::string> op_names_in(const std::string& text) {
  static const std::regex comment(R"(//[^\n]*|(^|\n);[^\n]*)"), word(R"([A-Za-z_]\w*)");
  static const std::set<std::string> records = record_names();
  const std::string code = std::regex_replace(text, comment, "");
  std::vector<std::string> found;
  for (std::sregex_iterator it(code.begin(), code.end(), word), end; it != end; ++it) {
    std::string name = it->str(), lower = name;
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (records.contains(name) || kHighLevel.contains(lower)) found.push_back(name);
  }
  return found;
}

/// Targets own words, ops own meaning: what searches, fuses and generates code works from records and specs.
TEST(House, SearchKernelsAndCodegenNameNoOp) {
  ASSERT_GE(record_names().size(), 30U);
  for (const char* folder : {"src/search", "src/kernel", "src/codegen"})
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::filesystem::path(LUMINAL_SOURCE_DIR) / folder)) {
      const auto kind = entry.path().extension();
      if (kind != ".cpp" && kind != ".h" && kind != ".egg") continue;
      EXPECT_THAT(op_names_in(text_of(entry.path())), testing::IsEmpty()) << entry.path();
    }
}

TEST(House, SeesOpsThatAreNamed) {
  EXPECT_THAT(op_names_in("if (op == &kGather) softmax(x);  // conv2d"),
              testing::ElementsAre("kGather", "softmax"));
}

}  // namespace
}  // namespace luminal::house
