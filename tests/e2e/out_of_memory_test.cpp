// Results of `luminal egg` where memory suffices for the e-graph and not for its text.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "support/files.h"

namespace luminal::cli {
namespace {

constexpr int kEndedBySignal = 128;  // as a shell says it

/// Texts of 16 MB in all, of few rows.
constexpr std::string_view kLongTexts = R"(
(relation at (i64 String))
(at 0 "abcdefgh")
(rule ((at i s) (< i 20)) ((at (+ i 1) (+ s s))))
(run 30))";

/// The exit code of a run with so much address space, of which 0, 1 and 127 (the program is not loaded) are fine.
int egg_within(const test::TemporaryFolder& folder, int megabytes, const std::string& option) {
  const auto in = [&](const char* name) { return (folder.path() / name).string(); };
  const std::string command =
      fmt::format("ulimit -c 0; ulimit -v {}; LUMINAL_THREADS=1 {} egg {} {} {} > {} 2>&1", megabytes * 1024,
                  LUMINAL_PROGRAM, in("texts.egg"), option, in("result"), in("said"));
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : kEndedBySignal;
}

TEST(OutOfMemory, IsAnErrorAndLeavesNoHalfAFile) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take terabytes of address space";
#endif
  constexpr int kStep = 32, kMost = 4096;
  for (const std::string option : {"--to-json", "--html"}) {
    const test::TemporaryFolder folder;
    (void)folder.file("texts.egg", std::string(kLongTexts));
    bool lacked = false;
    int code = 1;
    for (int megabytes = 208; megabytes < kMost && code != 0; megabytes += kStep) {
      code = egg_within(folder, megabytes, option);
      const std::string said = test::content_of(folder.path() / "said");
      ASSERT_LT(code, kEndedBySignal) << megabytes << " MB: " << said;
      const bool here = said.find("[egg] there is not enough memory to write the e-graph of 21 rows into '" +
                                  (folder.path() / "result").string() + "'; free some") != std::string::npos;
      lacked = lacked || here;
      if (here) {
        const auto files = std::filesystem::directory_iterator(folder.path());
        EXPECT_EQ(std::distance(begin(files), end(files)), 2) << "the program and what it said";
      }
      std::filesystem::remove(folder.path() / "result");
    }
    EXPECT_EQ(code, 0) << option;
    EXPECT_TRUE(lacked) << option;
  }
}

}  // namespace
}  // namespace luminal::cli
