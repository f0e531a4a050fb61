#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "cli/command.h"
#include "luminal/graph.h"
#include "luminal/tuning.h"
#include "support/files.h"

namespace luminal::cli {
namespace {

std::pair<int, std::string> cache(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "cache");
  std::ostringstream out, err;
  Console console{out, err};
  const int code = run(arguments, console);
  return {code, out.str() + err.str()};
}

// What tuning found is carried through a file. (That choices of another machine get in, and which of two
// stays, is said in tests/unit/search/cache_test.cpp.)
TEST(CacheCommand, ShowsExportsAndImports) {
  Graph cx;
  cx.set_device("cpu");
  (void)(cx.tensor({13, 29}) * 1.5).sum(1).retrieve();
  (void)cx.compile(Optimal{});
  const TuningState state = tuning_state();
  if (!state.trouble.empty()) GTEST_SKIP() << "tests run without a cache";
  EXPECT_GE(state.choices, 2) << "a kernel and a plan";
  const test::TemporaryFolder folder;
  const std::string file = (folder.path() / "tuned.db").string();
  EXPECT_THAT(cache({}).second, testing::HasSubstr(state.file.string()));
  const auto [code, text] = cache({"--export", file});
  EXPECT_EQ(code, kDone) << text;
  EXPECT_EQ(cache({"--export", file}).first, kFailed) << "nothing is overwritten";
  EXPECT_THAT(cache({"--import", file}).second, testing::HasSubstr("0 new choices"));
  const auto [refused, why] = cache({"--import", folder.file("text", "no cache").string()});
  EXPECT_EQ(refused, kFailed);
  EXPECT_THAT(why, testing::HasSubstr("is not a cache of this program"));
}

}  // namespace
}  // namespace luminal::cli
