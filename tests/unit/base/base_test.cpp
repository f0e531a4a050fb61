#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <vector>

#include "base/environment.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/machine.h"
#include "base/suggest.h"
#include "base/threads.h"
#include "support/files.h"

namespace luminal {
namespace {

using testing::HasSubstr;

TEST(Suggest, FindsSlipsAndNothingElse) {
  const std::vector<std::string> names{"relu", "gelu", "softmax"};
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("bf61", "bf16"), 1);
  EXPECT_EQ(nearest("sofmax", names), "softmax");
  EXPECT_EQ(nearest("conv2d", names), "");
  EXPECT_EQ(did_you_mean("rulu", names), "; did you mean 'relu'?");
}

// In no time: the distance of these two would take 10^12 steps.
TEST(Suggest, LooksAtNoVeryLongWords) {
  const std::string word(1'000'000, 'x');
  EXPECT_EQ(nearest(word + "a", std::vector{word + "b"}), "");
  EXPECT_EQ(nearest("x", std::vector{word}), "");
  const std::string most(100, 'x');
  EXPECT_EQ(nearest(most, std::vector{most + "yy"}), most + "yy");
}

TEST(Machine, ReadsTheCachesOfOneProcessor) {
  const test::TemporaryFolder folder;
  const auto cache = [&](int index, const char* level, const char* type, const char* size) {
    const std::string name = "index" + std::to_string(index);
    std::filesystem::create_directory(folder.path() / name);
    (void)folder.file(name + "/level", level);
    (void)folder.file(name + "/type", type);
    (void)folder.file(name + "/size", size);
  };
  cache(0, "1\n", "Instruction\n", "64K\n");
  cache(1, "1\n", "Data\n", "32K\n");
  cache(2, "3\n", "Unified\n", "16M\n");
  EXPECT_EQ(cache_bytes_from(folder.path(), 1), 32 << 10);
  EXPECT_EQ(cache_bytes_from(folder.path(), 2), 0);
  EXPECT_EQ(cache_bytes_from(folder.path(), 3), 16 << 20);
  EXPECT_EQ(cache_bytes_from(folder.path() / "none", 1), 0);
}

TEST(Hash, IsTheSameEverywhere) {
  // XXH3-64 of the empty input, from the xxHash specification.
  EXPECT_EQ(hash_bytes(""), 0x2d06800538d394c2ULL);
  EXPECT_NE(combine(1, 2), combine(2, 1));
}

TEST(Threads, CoversTheRangeOnceAndRethrows) {
  std::vector<std::atomic<int>> seen(10007);
  parallel_for(static_cast<int64_t>(seen.size()), 10, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) seen[static_cast<size_t>(i)]++;
  });
  for (const auto& count : seen) ASSERT_EQ(count.load(), 1);
  EXPECT_THROW(parallel_for(1000, 1,
                            [](int64_t begin, int64_t) {
                              if (begin == 0) fail("stop");
                            }),
               Error);
  std::atomic<int64_t> nested{0};
  parallel_for(100, 1, [&](int64_t begin, int64_t end) {
    parallel_for(end - begin, 1, [&](int64_t b, int64_t e) { nested += e - b; });
  });
  EXPECT_EQ(nested.load(), 100);
}

TEST(Environment, RejectsWhatDoesNotParse) {
  ::setenv("LUMINAL_DEBUG", "loud", 1);
  try {
    (void)environment::debug_level();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "[environment] LUMINAL_DEBUG='loud' is invalid, expected integer 0..7; unset it or give "
                 "such a value");
  }
  ::unsetenv("LUMINAL_DEBUG");
  EXPECT_EQ(environment::debug_level(), 0);
}

TEST(File, AtomicWriteKeepsTheOldFileOnFailure) {
  const test::TemporaryFolder own;
  const std::filesystem::path& folder = own.path();
  const auto path = folder / "value.txt";
  write_file_atomic(path, "one");
  write_file_atomic(path, "two");
  EXPECT_EQ(read_file(path), "two");
  EXPECT_THROW(write_file_atomic(folder / "missing" / "x", "three"), Error);
  EXPECT_THROW((void)read_file(path, 2), FormatError);
  EXPECT_THROW((void)read_file(folder), FormatError);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

TEST(Error, InternalErrorCarriesValuesAndPlace) {
  try {
    const int rank = 3;
    LUMINAL_CHECK(rank == 2, "rank is {}", rank);
    FAIL() << "no error";
  } catch (const InternalError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank == 2 does not hold: rank is 3"));
    EXPECT_THAT(error.what(), HasSubstr("base_test.cpp:"));
    EXPECT_THAT(error.what(), HasSubstr("please report it"));
  }
}

}  // namespace
}  // namespace luminal
