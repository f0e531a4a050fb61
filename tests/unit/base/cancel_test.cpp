#include "base/cancel.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/team.h"

namespace luminal {
namespace {

TEST(Cancel, NobodyAsksOutsideAScope) {
  EXPECT_FALSE(is_cancelled());
  throw_if_cancelled();
}

TEST(Cancel, ScopesNestAndEachOfThemCounts) {
  std::atomic<bool> flag{false};
  std::stop_source stop;
  {
    const CancelScope outer(flag);
    {
      const CancelScope inner(stop.get_token());
      EXPECT_FALSE(is_cancelled());
      flag = true;
      EXPECT_TRUE(is_cancelled());
      EXPECT_THROW(throw_if_cancelled(), Cancelled);
      flag = false;
      stop.request_stop();
      EXPECT_TRUE(is_cancelled());
    }
    EXPECT_FALSE(is_cancelled());
  }
  flag = true;
  EXPECT_FALSE(is_cancelled());
}

TEST(Cancel, IsForOneThreadAndForTheJobsThatItGives) {
  std::atomic<bool> flag{true};
  const CancelScope scope(flag);
  bool elsewhere = true;
  std::thread([&] { elsewhere = is_cancelled(); }).join();
  EXPECT_FALSE(elsewhere);
  Team team(3);
  std::atomic<int> there{0}, cancelled{0};
  team.run(3, [&](int) {
    ++there;
    if (is_cancelled()) ++cancelled;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (there < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  });
  EXPECT_GE(there, 2);
  EXPECT_EQ(there, cancelled);
  EXPECT_THROW(team.run(3, [](int) { throw_if_cancelled(); }), Cancelled);
}

}  // namespace
}  // namespace luminal
