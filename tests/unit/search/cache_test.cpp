#include "search/cache/cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <random>

#include "luminal/error.h"
#include "search/cache/database.h"
#include "support/effort.h"
#include "support/files.h"

namespace luminal::search {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

CacheKey key_of(int number) {
  const std::vector<std::string> parts{"spec", std::to_string(number)};
  return make_key(parts);
}

Cache::Choice choice_of(int number, int candidates = 3) {
  return {.schedule = "contract",
          .parameters = {{"tile", number}},
          .code = 0xfedcba9876543210ULL + static_cast<uint64_t>(number),
          .measured_us = 1.0 + number,
          .effort = candidates,
          .verified_here = true};
}

std::vector<std::byte> object_of(int number, size_t size) {
  return std::vector<std::byte>(size, static_cast<std::byte>(number));
}

TEST(Cache, RemembersAcrossProcesses) {
  TemporaryFolder folder;
  {
    Cache cache(folder.path());
    cache.store(key_of(1), choice_of(1));
    cache.store_object(key_of(1), object_of(7, 5000));
    EXPECT_FALSE(cache.find(key_of(2)));
  }
  Cache cache(folder.path());
  const auto found = cache.find(key_of(1));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->schedule, "contract");
  EXPECT_EQ(found->parameters, (codegen::Parameters{{"tile", 1}}));
  EXPECT_EQ(found->measured_us, 2);
  EXPECT_EQ(found->code, 0xfedcba9876543211ULL);
  EXPECT_TRUE(found->verified_here);
  EXPECT_EQ(*cache.find_object(key_of(1)), object_of(7, 5000));
  EXPECT_EQ(cache.statistics().choices, 1);
  EXPECT_EQ(cache.statistics().hits, 1);
}

TEST(Cache, KeysDependOnEveryPartAndTheirOrder) {
  const std::vector<std::string> a{"x", "y"}, b{"y", "x"}, c{"xy", ""};
  EXPECT_NE(make_key(a), make_key(b));
  EXPECT_NE(make_key(a), make_key(c));
}

TEST(Cache, TheBetterSearchedChoiceStays) {
  TemporaryFolder folder;
  Cache cache(folder.path());
  cache.store(key_of(1), choice_of(5, 10));
  cache.store(key_of(1), choice_of(2, 3));  // faster, but of fewer candidates
  EXPECT_EQ(cache.find(key_of(1))->measured_us, 6);
  cache.store(key_of(1), choice_of(3, 10));
  EXPECT_EQ(cache.find(key_of(1))->measured_us, 4);
}

TEST(Cache, TwoWritersAtOnceLoseNothing) {
  TemporaryFolder folder;
  constexpr int kEach = 100;
  std::vector<pid_t> children;
  for (int child = 0; child < 2; ++child) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      Cache cache(folder.path());
      for (int i = 0; i < kEach; ++i) cache.store(key_of(child * kEach + i), choice_of(i));
      ::_exit(cache.trouble().empty() ? 0 : 1);
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
  Cache cache(folder.path());
  for (int i = 0; i < 2 * kEach; ++i) EXPECT_TRUE(cache.find(key_of(i))) << i;
}

/// Several processes open the cache at the same moment and store something each; then all of it is there.
void expect_shared(const fs::path& folder) {
  int start[2];
  ASSERT_EQ(::pipe(start), 0);
  std::vector<pid_t> children;
  for (int child = 0; child < 6; ++child) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::close(start[1]);
      char byte = 0;
      if (::read(start[0], &byte, 1) != 0) ::_exit(2);  // until the parent lets go of the other end
      Cache cache(folder);
      (void)cache.find(key_of(child));  // damage that opening does not see is found here
      cache.store(key_of(child), choice_of(child));
      ::_exit(cache.trouble().empty() ? 0 : 1);
    }
    children.push_back(pid);
  }
  ::close(start[0]);
  ::close(start[1]);
  for (const pid_t pid : children) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
  Cache cache(folder);
  for (size_t child = 0; child < children.size(); ++child)
    EXPECT_TRUE(cache.find(key_of(static_cast<int>(child)))) << child;
}

TEST(Cache, ManyProcessesMakeItAtTheSameMoment) {
  for (int round = 0; round < 10; ++round) {
    const TemporaryFolder folder;
    expect_shared(folder.path());
  }
}

// What one of them begins anew, another one that finds the old file damaged must not put aside.
TEST(Cache, ManyProcessesFindItDamagedAtTheSameMoment) {
  for (int round = 0; round < 10; ++round) {
    const TemporaryFolder folder;
    const fs::path file = folder.path() / "tuning.db";
    if (round % 2 == 0) {
      std::ofstream(file) << std::string(5000, 'x');
    } else {  // it opens, and its tables do not read
      Cache(folder.path()).store(key_of(7), choice_of(7));
      std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
      out.seekp(4096);
      out << std::string(8192, 'y');
    }
    expect_shared(folder.path());
  }
}

TEST(Cache, AFolderInWhichAllIsDamagedIsGivenUp) {
  const TemporaryFolder folder;
  for (int number = 0; number < 40; ++number)
    (void)folder.file(number == 0 ? "tuning.db" : "tuning-" + std::to_string(number) + ".db",
                      std::string(5000, 'x'));
  Cache cache(folder.path());
  EXPECT_THAT(cache.trouble(), testing::HasSubstr("remove them"));
  cache.store(key_of(1), choice_of(1));
  EXPECT_FALSE(cache.find(key_of(1)));
}

TEST(Cache, SurvivesBeingKilledWhileWriting) {
  TemporaryFolder folder;
  for (int round = 0; round < 5; ++round) {
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t pid = ::fork();
    if (pid == 0) {
      Cache cache(folder.path());
      for (int i = 0;; ++i) {
        cache.store(key_of(i), choice_of(i));
        cache.store_object(key_of(i), object_of(i, 20000));
        if (i == 10 && ::write(pipe[1], "x", 1) != 1) ::_exit(1);
      }
    }
    char byte = 0;
    ASSERT_EQ(::read(pipe[0], &byte, 1), 1);
    ::usleep(static_cast<useconds_t>(1000 * round));
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    ::close(pipe[0]);
    ::close(pipe[1]);
    Cache cache(folder.path());
    EXPECT_EQ(cache.trouble(), "");
    for (int i = 0; i < 10; ++i) {
      ASSERT_TRUE(cache.find(key_of(i)));
      ASSERT_EQ(*cache.find_object(key_of(i)), object_of(i, 20000));
    }
  }
}

TEST(Cache, AFileThatIsNoDatabaseIsSetAside) {
  TemporaryFolder folder;
  std::ofstream(folder.path() / "tuning.db") << std::string(5000, 'x');
  Cache cache(folder.path());
  EXPECT_EQ(cache.trouble(), "");
  cache.store(key_of(1), choice_of(1));
  EXPECT_TRUE(cache.find(key_of(1)));
  EXPECT_NE(cache.file(), folder.path() / "tuning.db");
  EXPECT_EQ(fs::file_size(folder.path() / "tuning.db"), 5000U) << "it is left as it is";
}

TEST(Cache, DamagedEntriesAreDroppedAndNeverTrusted) {
  TemporaryFolder folder;
  {
    Cache cache(folder.path());
    for (int i = 0; i < 50; ++i) {
      cache.store(key_of(i), choice_of(i));
      cache.store_object(key_of(i), object_of(i, 3000));
    }
  }
  // Some bytes in the middle of the file, a page's content each time.
  const fs::path file = folder.path() / "tuning.db";
  const auto size = static_cast<int64_t>(fs::file_size(file));
  for (int64_t at = 4096 + 1000; at + 64 < size; at += 8192) {
    std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(at);
    out << std::string(64, '\x5a');
  }
  Cache cache(folder.path());
  for (int i = 0; i < 50; ++i) {
    if (const auto choice = cache.find(key_of(i))) {
      EXPECT_EQ(choice->parameters, choice_of(i).parameters);
    }
    if (const auto object = cache.find_object(key_of(i))) {
      EXPECT_EQ(*object, object_of(i, 3000));
    }
  }
  cache.store(key_of(99), choice_of(99));
  EXPECT_TRUE(cache.find(key_of(99)));
}

/// Runs statements on a file that nobody has open.
void run_sql(const fs::path& file, const std::string& text) {
  Database database;
  database.open(file, Database::Access::ReadWrite);
  database.run(text);
}

TEST(Cache, EveryColumnOfAChoiceIsUnderItsChecksum) {
  for (const char* damage :
       {"content = replace(content, 'contract', 'contracs')",
        "content = replace(content, '\"tile\":1', '\"tile\":2')", "measured_us = measured_us * 1.0000001",
        "measured_us = -measured_us", "measured_us = 9e999", "candidates = candidates + 1",
        "verified = 1 - verified", "check_sum = check_sum + 1", "high = high + 1", "low = low - 1"}) {
    SCOPED_TRACE(damage);
    const TemporaryFolder folder;
    Cache(folder.path()).store(key_of(1), choice_of(1));
    run_sql(folder.path() / "tuning.db", std::string("UPDATE choices SET ") + damage);
    Cache cache(folder.path());
    EXPECT_FALSE(cache.find(key_of(1)));
    const CacheKey moved_high{key_of(1).high + 1, key_of(1).low},
        moved_low{key_of(1).high, key_of(1).low - 1};
    EXPECT_FALSE(cache.find(moved_high));
    EXPECT_FALSE(cache.find(moved_low));
    EXPECT_EQ(cache.trouble(), "");
  }
}

TEST(Cache, DamagedTablesAreMarkedAndANewFileIsBegun) {
  for (const char* damage :
       {"DROP TABLE choices", "DROP TABLE objects", "ALTER TABLE choices RENAME COLUMN measured_us TO us",
        "ALTER TABLE choices ADD COLUMN more INTEGER", "PRAGMA user_version=99", "PRAGMA user_version=0",
        "CREATE TRIGGER t AFTER INSERT ON choices BEGIN DELETE FROM choices; END",
        "CREATE VIEW v AS SELECT * FROM choices", "DROP TABLE choices; CREATE TABLE choices(high, low)"}) {
    SCOPED_TRACE(damage);
    const TemporaryFolder folder;
    Cache(folder.path()).store(key_of(1), choice_of(1));
    run_sql(folder.path() / "tuning.db", damage);
    testing::internal::CaptureStderr();
    Cache cache(folder.path());
    EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("tuning.db is damaged ("));
    EXPECT_EQ(cache.trouble(), "");
    EXPECT_EQ(cache.file(), folder.path() / "tuning-1.db");
    cache.store(key_of(2), choice_of(2));
    EXPECT_TRUE(Cache(folder.path()).find(key_of(2)));
  }
}

TEST(Cache, TablesThatAreLostWhileItIsOpenAreDamageToo) {
  const TemporaryFolder folder;
  Cache cache(folder.path());
  cache.store(key_of(1), choice_of(1));
  run_sql(folder.path() / "tuning.db", "DROP TABLE choices");
  EXPECT_FALSE(cache.find(key_of(1)));
  EXPECT_EQ(cache.trouble(), "");
  cache.store(key_of(1), choice_of(1));
  EXPECT_TRUE(cache.find(key_of(1)));
}

/// Bits at random places of the whole file: nothing that was not stored comes out.
TEST(Cache, AFlippedBitIsNeverBelieved) {
  const TemporaryFolder source;
  constexpr int kEntries = 20;
  {
    Cache cache(source.path());
    for (int i = 0; i < kEntries; ++i) {
      cache.store(key_of(i), choice_of(i));
      cache.store_object(key_of(i), object_of(i, 300));
    }
  }
  const std::string good = luminal::test::content_of(source.path() / "tuning.db");
  const uint64_t seed = effort::seed(31);
  std::mt19937_64 random(seed);
  testing::internal::CaptureStderr();
  for (int64_t n = 0; n < effort::cases(300, 20'000); ++n) {
    std::string bad = good;
    const size_t at =
        n < 100 ? static_cast<size_t>(n) : random() % bad.size();  // the file's own header first
    bad[at] = static_cast<char>(bad[at] ^ (1 << random() % 8));
    const TemporaryFolder folder;
    (void)folder.file("tuning.db", bad);
    Cache cache(folder.path());
    for (int i = 0; i < kEntries; ++i) {
      const auto choice = cache.find(key_of(i));
      if (choice) {
        ASSERT_EQ(choice->parameters, choice_of(i).parameters) << "byte " << at << ", seed " << seed;
        ASSERT_EQ(choice->measured_us, choice_of(i).measured_us) << "byte " << at << ", seed " << seed;
        ASSERT_EQ(choice->effort, 3) << "byte " << at << ", seed " << seed;
      }
      const auto object = cache.find_object(key_of(i));
      if (object) {
        ASSERT_EQ(*object, object_of(i, 300)) << "byte " << at << ", seed " << seed;
      }
    }
    cache.store(key_of(99), choice_of(99));
    ASSERT_TRUE(cache.find(key_of(99))) << "byte " << at << ", seed " << seed << ": " << cache.trouble();
  }
  (void)testing::internal::GetCapturedStderr();
}

/// How a process ends that calls `action`.
int status_of(const std::function<int()>& action) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(action());
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Cache, IsReadOnAReadOnlyFileSystem) {
  const TemporaryFolder folder;
  {
    Cache cache(folder.path());
    cache.store(key_of(1), choice_of(1));
    cache.store_object(key_of(1), object_of(7, 500));
  }
  constexpr int kNotPermitted = 77;
  const int status = status_of([&] {
    const char* path = folder.path().c_str();
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount(path, path, nullptr, MS_BIND, nullptr) != 0 ||
        ::mount(nullptr, path, nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) != 0)
      return kNotPermitted;
    if (std::ofstream(folder.path() / "probe").good()) return 2;
    Cache cache(folder.path());
    cache.store(key_of(2), choice_of(2));
    if (!cache.trouble().empty()) return 3;
    if (!cache.find(key_of(1)) || !cache.find_object(key_of(1))) return 4;
    return cache.find(key_of(2)) ? 5 : 0;
  });
  if (status == kNotPermitted) GTEST_SKIP() << "this process may not mount";
  EXPECT_EQ(status, 0);
}

TEST(Cache, IsReadByThoseWhoMayNotWriteTheFolder) {
  const TemporaryFolder folder;
  Cache(folder.path()).store(key_of(1), choice_of(1));
  ::chmod(folder.path().c_str(), 0555);
  ::chmod((folder.path() / "tuning.db").c_str(), 0444);
  EXPECT_EQ(status_of([&] {
              if (::geteuid() == 0 && ::seteuid(65534) != 0) return 2;
              Cache cache(folder.path());
              return cache.trouble().empty() && cache.find(key_of(1)) ? 0 : 1;
            }),
            0);
  ::chmod(folder.path().c_str(), 0755);
}

TEST(Cache, WhatOthersMayWriteIsNotTrusted) {
  const TemporaryFolder folder;
  Cache(folder.path()).store(key_of(1), choice_of(1));
  const auto expect_distrust = [&](const fs::path& path, const std::string& what) {
    testing::internal::CaptureStderr();
    Cache cache(folder.path());
    EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("tuning results are not kept"));
    EXPECT_THAT(cache.trouble(), testing::AllOf(testing::HasSubstr(path.string()), testing::HasSubstr(what)));
    EXPECT_FALSE(cache.find(key_of(1)));
    cache.store(key_of(2), choice_of(2));
    EXPECT_FALSE(cache.find(key_of(2)));
  };
  for (const auto& [mode, text] :
       {std::pair<mode_t, const char*>{0770, "770"}, {0777, "777"}, {0702, "702"}}) {
    ::chmod(folder.path().c_str(), mode);
    expect_distrust(folder.path(), std::string("others may write to '") + folder.path().string() +
                                       "' (mode " + text +
                                       "), so what it holds cannot be trusted; run: chmod 700 ");
  }
  ::chmod(folder.path().c_str(), 0755);
  ::chmod((folder.path() / "tuning.db").c_str(), 0666);
  expect_distrust(folder.path() / "tuning.db", "run: chmod 600");
  ::chmod((folder.path() / "tuning.db").c_str(), 0644);
  EXPECT_TRUE(Cache(folder.path()).find(key_of(1)));
  if (::geteuid() != 0) return;  // only root gives folders away
  ASSERT_EQ(::chown(folder.path().c_str(), 65534, 65534), 0);
  expect_distrust(folder.path(),
                  "belongs to user 65534, and this program runs as user 0; choose a folder of your own");
}

TEST(Cache, MakesItsFolderForItsOwnerAlone) {
  const TemporaryFolder folder;
  const mode_t before = ::umask(0);
  {
    const Cache cache(folder.path() / "made/on/demand");
  }
  ::umask(before);
  EXPECT_EQ(fs::status(folder.path() / "made/on/demand").permissions(), fs::perms::owner_all);
}

TEST(Cache, AnUnusableFolderIsToldOnceAndStopsNothing) {
  TemporaryFolder folder;
  std::ofstream(folder.path() / "file") << "x";
  Cache cache(folder.path() / "file" / "below");
  EXPECT_THAT(cache.trouble(), testing::HasSubstr("cannot be created"));
  cache.store(key_of(1), choice_of(1));
  EXPECT_FALSE(cache.find(key_of(1)));
  Cache off("");
  off.store(key_of(1), choice_of(1));
  EXPECT_FALSE(off.find(key_of(1)));
}

TEST(Cache, AFullDiskStopsNothing) {
  TemporaryFolder folder;
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::signal(SIGXFSZ, SIG_IGN);  // writes past the limit fail, as on a full disk
    const rlimit limit{200'000, 200'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    Cache cache(folder.path());
    cache.store(key_of(1), choice_of(1));
    for (int i = 2; i < 100; ++i) cache.store_object(key_of(i), object_of(i, 20000));
    ::_exit(cache.trouble().empty() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  Cache cache(folder.path());
  EXPECT_EQ(cache.trouble(), "");
  EXPECT_TRUE(cache.find(key_of(1)));
}

TEST(Cache, ExportsAndMerges) {
  TemporaryFolder first, second, files;
  const fs::path file = files.path() / "tuned.db";
  {
    Cache cache(first.path());
    cache.store(key_of(1), choice_of(1));
    cache.store(key_of(2), choice_of(2));
    cache.store_object(key_of(2), object_of(2, 100));
    cache.export_to(file);
    EXPECT_THROW(cache.export_to(file), Error);
  }
  Cache cache(second.path());
  cache.store(key_of(2), choice_of(9));
  EXPECT_EQ(cache.merge(file), 1);
  EXPECT_FALSE(cache.find(key_of(1))->verified_here) << "others' entries are verified at first use";
  EXPECT_EQ(cache.find(key_of(2))->measured_us, 3);
  EXPECT_FALSE(cache.find_object(key_of(2))) << "no machine code comes in from outside";
  cache.mark_verified(key_of(1));
  EXPECT_TRUE(cache.find(key_of(1))->verified_here);
  for (const auto& [damage, message] :
       {std::pair{"PRAGMA user_version=1",
                  "its layout is 1, this program reads 2; export it with this version"},
        {"CREATE VIEW v AS SELECT 1", "its tables are not this program's"},
        {"DROP TABLE choices", "its tables are not this program's"}}) {
    const fs::path other = files.path() / "other.db";
    fs::copy_file(file, other, fs::copy_options::overwrite_existing);
    run_sql(other, damage);
    EXPECT_EQ(luminal::test::error_of<FormatError>([&] { (void)cache.merge(other); }, files.path()),
              std::string("[cache] other.db is not a cache of this program: ") + message);
  }
  std::ofstream(files.path() / "text") << "no database";
  EXPECT_THROW((void)cache.merge(files.path() / "text"), FormatError);
}

}  // namespace
}  // namespace luminal::search
