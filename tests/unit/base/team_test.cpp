#include "base/team.h"

#include <gtest/gtest.h>
#ifdef __linux__
#include <sched.h>
#endif

#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>

#include "base/thread.h"
#include "base/threads.h"

namespace luminal {
namespace {

/// Counts 0..total-1 off between the workers.
int64_t count_off(Team& team, int limit, int64_t total, std::vector<std::atomic<int>>& taken) {
  std::atomic<int64_t> next{0};
  std::atomic<int64_t> sum{0};
  team.run(limit, [&](int worker) {
    EXPECT_GE(worker, 0);
    EXPECT_LT(worker, limit);
    for (int64_t i = next++; i < total; i = next++) {
      ++taken[static_cast<size_t>(i)];
      sum += i;
    }
  });
  return sum;
}

#ifdef __linux__
/// The processors that the calling thread may use.
std::set<int> allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(::sched_getaffinity(0, sizeof(set), &set), 0);
  std::set<int> processors;
  for (int p = 0; p < CPU_SETSIZE; ++p)
    if (CPU_ISSET(p, &set)) processors.insert(p);
  return processors;
}

/// A worker begins on a processor of its own, and is not held there.
TEST(Team, WorkersBeginApartAndMayGoAnywhere) {
  const std::set<int> all = allowed_processors();
  const int home = processor_here();
  ASSERT_TRUE(all.contains(home));
  std::set<int> begun;
  constexpr int kTimes = 20;  // the system may move a thread at once, but hardly each time to where it was
  std::thread([&] {
    for (int number = 0; number < kTimes * static_cast<int>(all.size()); ++number) {
      begin_on_own_processor(number, home);
      EXPECT_EQ(allowed_processors(), all);
      begun.insert(processor_here());
    }
  }).join();
  if (all.size() > 1) {
    EXPECT_GT(begun.size(), 1);
  }
  Team team(2);
  team.run(2, [&](int) { EXPECT_EQ(allowed_processors(), all); });
}
#endif

TEST(Team, EveryJobIsDoneOnce) {
  for (const int workers : {1, 2, 3, 8}) {
    Team team(workers);
    EXPECT_EQ(team.size(), workers);
    for (int job = 0; job < 200; ++job) {
      std::vector<std::atomic<int>> taken(50);
      ASSERT_EQ(count_off(team, workers, 50, taken), 49 * 50 / 2);
      for (const auto& count : taken) ASSERT_EQ(count, 1);
    }
  }
}

TEST(Team, WorkersJoinAndKeepTheLimit) {
  Team team(4);
  std::mutex mutex;
  std::set<int> seen;
  std::set<std::thread::id> threads;
  for (int job = 0; job < 100 && threads.size() < 2; ++job)
    team.run(2, [&](int worker) {
      const std::lock_guard lock(mutex);
      seen.insert(worker);
      threads.insert(std::this_thread::get_id());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
  EXPECT_EQ(threads.size(), 2U);
  EXPECT_EQ(seen, (std::set<int>{0, 1}));
}

// Sleepers wake: jobs far apart find the workers parked.
TEST(Team, WakesSleepers) {
  Team team(2);
  for (int job = 0; job < 5; ++job) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic<int> inside{0};
    team.run(2, [&](int) {
      ++inside;
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (inside < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    });
    EXPECT_EQ(inside, 2);
  }
}

TEST(Team, ErrorsReachTheCallerAndTheTeamGoesOn) {
  Team team(3);
  for (int job = 0; job < 50; ++job) {
    EXPECT_THROW(team.run(3, [&](int) { throw std::runtime_error("broken"); }), std::runtime_error);
    std::vector<std::atomic<int>> taken(9);
    EXPECT_EQ(count_off(team, 3, 9, taken), 36);
  }
}

TEST(Team, AJobInsideAJobRunsOnItsThread) {
  Team team(3);
  std::atomic<int> inner{0};
  std::atomic<int> outer{0};
  team.run(3, [&](int) {
    EXPECT_TRUE(Team::inside_job());
    ++outer;
    const auto thread = std::this_thread::get_id();
    team.run(3, [&](int worker) {
      EXPECT_EQ(worker, 0);
      EXPECT_EQ(std::this_thread::get_id(), thread);
      ++inner;
    });
    EXPECT_TRUE(Team::inside_job());
  });
  EXPECT_EQ(inner, outer);
  EXPECT_FALSE(Team::inside_job());
}

TEST(Team, SeveralCallersTakeTurns) {
  Team team(2);
  std::atomic<int64_t> total{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i)
    callers.emplace_back([&] {
      for (int job = 0; job < 100; ++job) {
        std::vector<std::atomic<int>> taken(10);
        total += count_off(team, 2, 10, taken);
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total, 3 * 100 * 45);
}

TEST(Team, ForEachCallsEachOnceAndWaitsForNoOtherCaller) {
  Team team(3);
  std::vector<std::atomic<int>> taken(1000);
  team.for_each(taken.size(), [&](size_t i) { ++taken[i]; });
  for (const auto& count : taken) ASSERT_EQ(count, 1);
  team.for_each(0, [](size_t) { FAIL(); });
  EXPECT_THROW(team.for_each(10, [](size_t) { throw std::runtime_error("piece"); }), std::runtime_error);
  std::atomic<bool> is_in{false}, may_go{false};
  std::thread other([&] {
    team.run(1 + team.size(), [&](int) {
      is_in = true;
      while (!may_go) std::this_thread::yield();
    });
  });
  while (!is_in) std::this_thread::yield();
  std::set<std::thread::id> threads;
  team.for_each(100, [&](size_t) { threads.insert(std::this_thread::get_id()); });
  EXPECT_EQ(threads, std::set{std::this_thread::get_id()}) << "the team is another caller's";
  may_go = true;
  other.join();
}

// More workers than any machine has processors: nobody spins, everything still gets done.
TEST(Team, DoesNotSpinWhereProcessorsAreShort) {
  Team team(static_cast<int>(std::thread::hardware_concurrency()) + 3);
  EXPECT_EQ(team.spin_ns(), 0);
  std::vector<std::atomic<int>> taken(1000);
  EXPECT_EQ(count_off(team, team.size(), 1000, taken), 999 * 1000 / 2);
}

TEST(ParallelFor, CoversTheRangeAndRunsEveryPieceInSpiteOfErrors) {
  std::vector<std::atomic<int>> touched(10'000);
  const auto touch = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ++touched[static_cast<size_t>(i)];
  };
  parallel_for(10'000, 16, touch);
  for (const auto& count : touched) ASSERT_EQ(count, 1);
  EXPECT_THROW(parallel_for(10'000, 16,
                            [&](int64_t begin, int64_t end) {
                              touch(begin, end);
                              throw std::runtime_error("piece");
                            }),
               std::runtime_error);
  for (const auto& count : touched) ASSERT_EQ(count, 2);
  parallel_for(100, 1, [&](int64_t, int64_t) { parallel_for(10, 1, [](int64_t, int64_t) {}); });
}

}  // namespace
}  // namespace luminal
