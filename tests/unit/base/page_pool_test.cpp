#include "base/page_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <set>
#include <span>
#include <vector>

#include "base/memory.h"

#ifdef __linux__
#include <sys/wait.h>
#include <unistd.h>

namespace luminal {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

/// Runs `body` in a process that the pool serves: whether it returned true.
bool served(PagePool& pool, const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    pool.serve();
    ::_exit(body() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(PagePool, OneProcessAfterTheOtherGetsTheSamePages) {
  PagePool pool(8 * kMiB);
  EXPECT_TRUE(served(pool, [&] {
    std::byte* memory = pool.take(6 * kMiB);
    if (memory == nullptr || !pool.owns(memory)) return false;
    std::memset(memory, 0x37, static_cast<size_t>(6 * kMiB));
    return true;  // and ends without giving it back
  }));
  EXPECT_TRUE(served(pool, [&] {
    const std::byte* memory =
        pool.take(6 * kMiB);  // the first process took it from its own list of free pages
    return memory != nullptr &&
           std::all_of(memory, memory + 6 * kMiB, [](std::byte b) { return b == std::byte{0x37}; });
  }));
}

TEST(PagePool, ServesOnlyWhoAsksAndOnlyLargeTensors) {
  PagePool pool(8 * kMiB);
  EXPECT_EQ(PagePool::serving(), nullptr);
  EXPECT_EQ(take_pooled(4 * kMiB), nullptr);
  EXPECT_TRUE(served(pool, [&] {
    std::byte* large = take_pooled(4 * kMiB);
    int elsewhere = 0;
    return PagePool::serving() == &pool && take_pooled(4096) == nullptr && pool.owns(large) &&
           !give_back_pooled(&elsewhere, sizeof(elsewhere)) && give_back_pooled(large, 4 * kMiB);
  }));
}

TEST(PagePool, WithoutRoomGivesNothing) {
  PagePool none(0), pool(4 * kMiB);
  EXPECT_TRUE(served(none, [&] { return PagePool::serving() == nullptr && none.take(kMiB) == nullptr; }));
  EXPECT_TRUE(served(pool, [&] {
    std::byte* all = pool.take(4 * kMiB);
    if (all == nullptr || pool.take(4096) != nullptr || pool.take(8 * kMiB) != nullptr) return false;
    pool.give_back(all, 4 * kMiB);
    return pool.take(4 * kMiB) == all;
  }));
}

/// Processes that run at the same time get pages of their own, and each as many as the others of those that are there.
TEST(PagePool, ProcessesOfOneTimeShareWhatEarlierOnesTouched) {
  constexpr int64_t kEach = 32 * kMiB, kTouched = 24 * kMiB;
  PagePool pool(kEach, 3);
  EXPECT_TRUE(served(pool, [&] {
    std::byte* memory = pool.take(kTouched);
    if (memory == nullptr || pool.take(kEach) != nullptr)
      return false;  // one process has no more than its own
    std::memset(memory, 0x37, static_cast<size_t>(kTouched));
    return true;
  }));
  for (const int processes : {1, 2, 3, 5}) {
    const std::vector<PagePool::Share> shares = pool.shares(processes);
    ASSERT_EQ(shares.size(), static_cast<size_t>(processes));
    std::vector<PagePool::Stretch> all;
    for (const PagePool::Share& share : shares) {
      int64_t bytes = 0;
      for (const PagePool::Stretch& stretch : share) bytes += stretch.bytes;
      EXPECT_GE(bytes, std::min(kEach, 3 * kEach / processes) - 4 * kMiB) << processes;
      EXPECT_LE(bytes, kEach) << processes;
      all.insert(all.end(), share.begin(), share.end());
    }
    std::ranges::sort(all, {}, &PagePool::Stretch::begin);
    for (size_t i = 1; i < all.size(); ++i)
      EXPECT_GE(all[i].begin, all[i - 1].begin + all[i - 1].bytes) << processes;
    if (processes != 3) continue;
    for (const PagePool::Share& share : shares) {
      const pid_t child = ::fork();
      if (child == 0) {
        pool.serve(share);
        const std::byte* old = pool.take(kTouched / 3);
        const std::byte* fresh = pool.take(16 * kMiB);
        const auto is = [](const std::byte* memory, int64_t bytes, int what) {
          return memory != nullptr && std::all_of(memory, memory + bytes, [&](std::byte b) {
                   return b == static_cast<std::byte>(what);
                 });
        };
        ::_exit(is(old, kTouched / 3, 0x37) && is(fresh, 16 * kMiB, 0) ? 0 : 1);
      }
      int status = 0;
      ::waitpid(child, &status, 0);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
  }
}

/// What repeats a stretch takes no more of the pool than that, nobody writes there, and a second view shows the same.
TEST(PagePool, RepeatsAStretchInAsMuchAddressSpaceAsIsAskedFor) {
  PagePool pool(16 * kMiB);
  constexpr int64_t kStretch = 6 * kMiB, kBytes = 100 * kMiB + 12;
  const auto number = [](int64_t at) { return static_cast<std::byte>(at % kStretch % 251); };
  const auto fill = [&](std::span<std::byte> out) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = number(static_cast<int64_t>(i));
  };
  const auto shows_it = [&](const std::byte* memory) {
    for (int64_t at = 0; at < kBytes; ++at)
      if (memory[at] != number(at)) return false;
    return true;
  };
  EXPECT_TRUE(served(pool, [&] {
    for (int round = 0; round < 5; ++round) {  // what is given back is free again
      std::byte* a = pool.take_repeated(kBytes, kStretch, fill);
      std::byte* b = pool.take_repeated(kBytes, kStretch, fill);
      if (a == nullptr || b == nullptr || pool.take_repeated(kBytes, kStretch, fill) != nullptr) return false;
      std::byte* place = reserve_pages(static_cast<size_t>(kBytes));
      if (!pool.owns(a) || !shows_it(a) || !shows_it(b) || !pool.show_at(place, a, kBytes) ||
          !shows_it(place))
        return false;
      if (!give_back_pooled(a, static_cast<size_t>(kBytes)) ||
          !give_back_pooled(b, static_cast<size_t>(kBytes)) || pool.owns(a))
        return false;
    }
    return pool.take(16 * kMiB) != nullptr;
  }));
  EXPECT_FALSE(served(pool, [&] {
    std::byte* memory = pool.take_repeated(kBytes, kStretch, fill);
    memory[kBytes - 1] = std::byte{1};
    return true;
  }));
}

/// What repeats has a number of its own, whatever had its address before, and its stretch is free when it came back.
TEST(PagePool, NumbersWhatRepeats) {
  PagePool pool(8 * kMiB);
  constexpr int64_t kStretch = 6 * kMiB + 4096, kLong = 20 * kMiB;
  const auto fill = [](std::span<std::byte> out) { std::ranges::fill(out, std::byte{1}); };
  EXPECT_TRUE(served(pool, [&] {
    std::set<uint64_t> numbers{0};
    for (int round = 0; round < 3; ++round) {
      std::byte* memory = pool.take_repeated(kLong, kStretch, fill);
      if (memory == nullptr || !numbers.insert(pool.number_of_repeated(memory)).second) return false;
      if (pool.take(8 * kMiB) != nullptr) return false;
      pool.give_back(memory, kLong);
    }
    std::byte* all = pool.take(8 * kMiB);
    return all != nullptr && pool.number_of_repeated(all) == 0;
  }));
}

/// What is given never overlaps, small pages are whole pages, huge ones begin at a multiple of their size, and what all
/// came back is one piece again.
TEST(PagePool, GivesNoByteTwice) {
  PagePool pool(64 * kMiB);
  EXPECT_TRUE(served(pool, [&] {
    struct Taken {
      std::byte* at;
      int64_t bytes;
      std::byte mark;
    };
    std::vector<Taken> taken;
    std::mt19937 random(5);
    const auto is_whole = [](const Taken& t) {
      return std::all_of(t.at, t.at + t.bytes, [&](std::byte b) { return b == t.mark; });
    };
    for (int step = 0; step < 600; ++step) {
      if (random() % 2 == 0 || taken.empty()) {
        const int64_t bytes = random() % 3 == 0 ? 2 * kMiB + random() % (4 * kMiB) : 1 + random() % 100'000;
        std::byte* at = pool.take(bytes);
        if (at == nullptr) continue;
        const int64_t page = bytes >= 2 * kMiB ? 2 * kMiB : 4096;
        if (reinterpret_cast<intptr_t>(at) % page != 0) return false;
        taken.push_back({at, bytes, static_cast<std::byte>(step)});
        std::memset(at, step, static_cast<size_t>(bytes));
      } else {
        const size_t k = random() % taken.size();
        if (!is_whole(taken[k])) return false;
        pool.give_back(taken[k].at, taken[k].bytes);
        taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(k));
      }
    }
    for (const Taken& t : taken) {
      if (!is_whole(t)) return false;
      pool.give_back(t.at, t.bytes);
    }
    return pool.take(64 * kMiB) != nullptr;
  }));
}

}  // namespace
}  // namespace luminal
#endif
