#include "serving/stop_filter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace luminal::serving {
namespace {

/// What comes out of a text that goes in by pieces.
struct Filtered {
  std::string text;
  bool stopped = false;
};
Filtered filtered(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopFilter filter(stops);
  Filtered result;
  for (const std::string& piece : pieces) result.text += filter.push(piece);
  if (!filter.stopped()) result.text += filter.finish();
  result.stopped = filter.stopped();
  EXPECT_EQ(filter.passed(), result.text.size());
  return result;
}

TEST(StopFilter, HandsOnWhatBeginsNoStopString) {
  StopFilter filter({"END", "\n\n"});
  EXPECT_EQ(filter.push("one E"), "one ");
  EXPECT_EQ(filter.push("N"), "");
  EXPECT_EQ(filter.push("ough\n"), "ENough");
  EXPECT_EQ(filter.push("and EN"), "\nand ");
  EXPECT_EQ(filter.push("D more"), "");
  EXPECT_TRUE(filter.stopped());
  EXPECT_EQ(filter.push("nothing"), "");
}

// Of random texts over two letters, cut anywhere, comes what stands before the first stop string of the whole.
TEST(StopFilter, FindsTheFirstStopStringHoweverTheTextIsCut) {
  std::mt19937 random(1);
  const auto word = [&](size_t most) {
    std::string text(random() % most + 1, 'a');
    for (char& c : text) c = random() % 2 == 0 ? 'a' : 'b';
    return text;
  };
  int stopped = 0;
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::string> stops(random() % 3 + 1), pieces;
    for (std::string& stop : stops) stop = word(5);
    std::string whole;
    for (int n = 0; n < 6; ++n) whole += pieces.emplace_back(word(4));
    // The first place where a stop string is complete, by the end of its text.
    std::string wanted = whole;
    bool found = false;
    for (size_t end = 1; end <= whole.size() && !found; ++end)
      for (const std::string& stop : stops)
        if (std::string_view(whole).substr(0, end).ends_with(stop) &&
            (!found || end - stop.size() < wanted.size())) {
          found = true;
          wanted = whole.substr(0, end - stop.size());
        }
    const Filtered got = filtered(stops, pieces);
    ASSERT_EQ(got.stopped, found);
    if (found) {
      // In one piece several may be complete, and the one that begins first counts.
      ASSERT_LE(got.text.size(), wanted.size());
      ASSERT_TRUE(std::ranges::any_of(stops, [&](const std::string& stop) {
        return std::string_view(whole).substr(got.text.size()).starts_with(stop);
      }));
    }
    ASSERT_TRUE(whole.starts_with(got.text));
    ASSERT_TRUE(found || got.text == whole) << got.text << " of " << whole;
    stopped += found ? 1 : 0;
  }
  EXPECT_GT(stopped, 500);
  EXPECT_LT(stopped, 2900);
}

}  // namespace
}  // namespace luminal::serving
