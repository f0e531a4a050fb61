#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "base/stopwatch.h"
#include "cli/command.h"
#include "support/files.h"

// The ready-made runs, as a user starts them, reach what docs/training.md says of them.
namespace luminal::cli {
namespace {

struct Stated {
  std::string run, metric;
  bool at_least = false;
  double bound = 0, minutes = 0;
};

/// Rows like "| `luminal train digits` | `test_accuracy` | at least 0.96 | 5 min | ...".
std::vector<Stated> stated_results() {
  static const std::regex row(
      R"(\| `luminal train (\w+)` \| `(\w+)` \| at (least|most) ([0-9.]+) \| ([0-9]+) min \|)");
  const std::string text = test::content_of(std::string(LUMINAL_SOURCE_DIR) + "/docs/training.md");
  std::vector<Stated> list;
  for (std::sregex_iterator it(text.begin(), text.end(), row), end; it != end; ++it)
    list.push_back({(*it)[1], (*it)[2], (*it)[3] == "least", std::stod((*it)[4]), std::stod((*it)[5])});
  return list;
}

TEST(StoredResults, OfEveryRunAreStated) {
  std::vector<std::string> runs;
  for (const Stated& stated : stated_results()) runs.push_back(stated.run);
  EXPECT_EQ(runs, (std::vector<std::string>{"mnist", "digits", "text", "regression"}));
}

class StoredResults : public testing::TestWithParam<std::string> {};

/// With the run's own options; only the digit network's kernels are chosen by the model, to save the search.
TEST_P(StoredResults, AreReached) {
  const test::TemporaryFolder folder;
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  std::vector<std::string> arguments{"train",  GetParam(),     "--device",  "cpu",
                                     "--json", path("r.json"), "--weights", path("w.safetensors")};
  if (GetParam() == "mnist") arguments.insert(arguments.end(), {"--mode", "fast"});
  std::ostringstream out, err;
  Console console{out, err};
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(run(arguments, console), kDone) << err.str();
  const double minutes = seconds_since(begin) / 60;
  const auto result = nlohmann::json::parse(test::content_of(path("r.json")));
  bool found = false;
  for (const Stated& stated : stated_results()) {
    if (stated.run != GetParam()) continue;
    found = true;
    const auto value = result.at(stated.metric).get<double>();
    EXPECT_TRUE(stated.at_least ? value >= stated.bound : value <= stated.bound)
        << stated.metric << " is " << value << " and was to be at " << (stated.at_least ? "least " : "most ")
        << stated.bound << "\n"
        << out.str();
    EXPECT_LT(minutes, stated.minutes);
  }
  EXPECT_TRUE(found);
}

INSTANTIATE_TEST_SUITE_P(Runs, StoredResults, testing::Values("mnist", "digits", "text", "regression"),
                         [](const testing::TestParamInfo<std::string>& which) { return which.param; });

}  // namespace
}  // namespace luminal::cli
