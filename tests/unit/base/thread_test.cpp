#include "base/thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "base/team.h"
#include "base/threads.h"

// What becomes of work when the system gives no more threads.
namespace luminal {
namespace {

int64_t sum_by(Team& team) {
  std::atomic<int64_t> next{0}, sum{0};
  team.run(team.size(), [&](int) {
    for (int64_t i = next++; i < 1000; i = next++) sum += i;
  });
  return sum;
}

TEST(ThreadLimit, ATeamGoesOnWithTheThreadsThatThereAre) {
  for (const int given : {0, 1, 2}) {
    const ThreadLimit limit(given);
    Team team(8);
    EXPECT_EQ(team.size(), given + 1);
    EXPECT_EQ(sum_by(team), 999 * 1000 / 2);
  }
  Team whole(3);
  EXPECT_EQ(whole.size(), 3);
  EXPECT_EQ(sum_by(whole), 999 * 1000 / 2);
}

TEST(ThreadLimit, AThreadThatIsNotThereIsToldOfOnce) {
  const ThreadLimit limit(1);
  auto first = start_thread([] {});
  ASSERT_TRUE(first);
  first->join();
  EXPECT_FALSE(start_thread([] {}));
  EXPECT_FALSE(start_thread<std::jthread>([](const std::stop_token&) {}));
}

TEST(ThreadLimitDeathTest, TheNoteSaysWhatIsMissing) {
  EXPECT_EXIT(
      {
        const ThreadLimit limit(0);
        (void)start_thread([] {});
        (void)start_thread([] {});
        std::_Exit(0);
      },
      testing::ExitedWithCode(0),
      "^\\[threads\\] the system cannot start another thread \\(Resource temporarily unavailable\\); "
      "continuing with fewer\n$");
}

}  // namespace
}  // namespace luminal
