#include "backends/host/stage_scheduler.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/hash.h"
#include "runtime/dependencies.h"
#include "unit/runtime/fakes.h"

namespace luminal::runtime::test {
namespace {

using backends::StageScheduler;
using backends::StageWork;

// A random graph of stages over cells of one array: dependencies derived from what they touch are enough for
// every number of threads to give the sequential result.
TEST(StageScheduler, DependenciesFromMemoryGiveTheSequentialResult) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    constexpr int kStages = 60, kCells = 12;
    constexpr int64_t kWidth = 40;
    struct Op {
      int a = 0, b = 0, out = 0;
      int64_t tasks = 0;
    };
    std::vector<Op> ops;
    Dependencies dependencies;
    for (int i = 0; i < kStages; ++i) {
      Op op{static_cast<int>(random() % kCells), static_cast<int>(random() % kCells),
            static_cast<int>(random() % kCells),
            static_cast<int64_t>(random() % 3 == 0 ? 1 : random() % kWidth)};
      // Cells that a stage writes it does not read elsewhere.
      if (op.a == op.out || op.b == op.out) op.a = op.b = (op.out + 1) % kCells;
      ops.push_back(op);
      for (const int cell : {op.a, op.b}) dependencies.read(i, cell * kWidth, (cell + 1) * kWidth);
      dependencies.write(i, op.out * kWidth, (op.out + 1) * kWidth);
    }
    const auto before = dependencies.reduced(kStages);
    std::vector<int64_t> memory;
    std::vector<std::shared_ptr<FakeKernel>> kernels;
    std::vector<StageWork> stages;
    for (int i = 0; i < kStages; ++i) {
      const Op op = ops[static_cast<size_t>(i)];
      const auto body = [&memory, op, i](const TaskView&, int64_t task) {
        const auto cell = [&](int c, int64_t k) -> int64_t& {
          return memory[static_cast<size_t>(c * kWidth + k)];
        };
        cell(op.out, task) =
            static_cast<int64_t>(combine(combine(static_cast<uint64_t>(cell(op.a, kWidth - 1 - task)),
                                                 static_cast<uint64_t>(cell(op.b, task))),
                                         static_cast<uint64_t>(i)));
      };
      kernels.push_back(std::make_shared<FakeKernel>(
          std::vector<FakeKernel::Stage>{{[op](int64_t) { return op.tasks; }, body}}, 0));
      stages.push_back({kernels.back().get(), 0, op.tasks, {}, before[static_cast<size_t>(i)]});
    }
    std::vector<int64_t> start(static_cast<size_t>(kCells * kWidth));
    for (int64_t& v : start) v = static_cast<int64_t>(random());
    memory = start;
    for (const StageWork& work : stages) work.kernel->run(0, {}, 0, work.tasks);
    const std::vector<int64_t> expected = memory;
    for (const int workers : {1, 2, 4}) {
      Team team(workers);
      StageScheduler scheduler(stages, workers);
      for (int run = 0; run < 10; ++run) {
        memory = start;
        scheduler.run(team, 0, kStages);
        ASSERT_EQ(memory, expected) << "seed " << seed << ", " << workers << " workers";
      }
    }
  }
}

TEST(StageScheduler, IndependentStagesRunSideBySide) {
  Team team(2);
  std::atomic<int> inside{0};
  std::atomic<bool> met{false};
  // One task each: without overlap they could never meet.
  const auto body = [&](const TaskView&, int64_t) {
    ++inside;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (inside < 2 && !met && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    met = met || inside == 2;
    --inside;
  };
  const FakeKernel kernel({{[](int64_t) { return int64_t{1}; }, body}}, 0);
  StageScheduler scheduler({{&kernel, 0, 1, {}, {}}, {&kernel, 0, 1, {}, {}}}, 2);
  for (int run = 0; run < 20 && !met; ++run) scheduler.run(team, 0, 2);
  EXPECT_TRUE(met);
}

// Dependencies are reduced: the last stage names only the empty one between it and the first.
TEST(StageScheduler, AStageWithoutTasksIsCompleteOnlyAfterThoseBeforeIt) {
  Team team(2);
  std::atomic<bool> written{false};
  std::atomic<int> early{0};
  const FakeKernel slow({{[](int64_t) { return int64_t{1}; },
                          [&](const TaskView&, int64_t) {
                            std::this_thread::sleep_for(std::chrono::milliseconds(2));
                            written = true;
                          }}},
                        0);
  const FakeKernel nothing({{[](int64_t) { return int64_t{0}; }, [](const TaskView&, int64_t) {}}}, 0);
  const FakeKernel reader(
      {{[](int64_t) { return int64_t{1}; }, [&](const TaskView&, int64_t) { early += !written; }}}, 0);
  StageScheduler scheduler(
      {{&slow, 0, 1, {}, {}}, {&nothing, 0, 0, {}, {0}}, {&nothing, 0, 0, {}, {1}}, {&reader, 0, 1, {}, {2}}},
      2);
  for (int run = 0; run < 20; ++run) {
    written = false;
    scheduler.run(team, 0, 4);
  }
  EXPECT_EQ(early, 0);
}

TEST(StageScheduler, AnErrorEndsTheRunOnEveryThread) {
  Team team(3);
  const FakeKernel fine({{[](int64_t) { return int64_t{10}; }, [](const TaskView&, int64_t) {}}}, 0);
  const FakeKernel broken({{[](int64_t) { return int64_t{10}; },
                            [](const TaskView&, int64_t task) {
                              if (task == 7) throw std::runtime_error("task 7");
                            }}},
                          0);
  StageScheduler scheduler({{&fine, 0, 10, {}, {}}, {&broken, 0, 10, {}, {0}}, {&fine, 0, 10, {}, {1}}}, 3);
  for (int run = 0; run < 20; ++run) EXPECT_THROW(scheduler.run(team, 0, 3), std::runtime_error);
}

// --- Dependencies

/// All launches that `launch` follows, directly or not.
std::set<int> ancestors(const std::vector<std::vector<int>>& before, int launch) {
  std::set<int> all;
  for (const int b : before[static_cast<size_t>(launch)]) {
    all.insert(b);
    all.merge(ancestors(before, b));
  }
  return all;
}

TEST(Dependencies, AreExactlyTheConflictsAndNoneIsSuperfluous) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    std::mt19937_64 random(seed);
    struct Touch {
      int64_t begin, end;
      bool write;
    };
    std::vector<std::vector<Touch>> launches(15);
    Dependencies dependencies;
    for (int i = 0; i < 15; ++i)
      for (int k = 0; k < 3; ++k) {
        const auto begin = static_cast<int64_t>(random() % 60);
        const Touch touch{begin, begin + static_cast<int64_t>(random() % 12), k == 2};
        launches[static_cast<size_t>(i)].push_back(touch);
        if (touch.write)
          dependencies.write(i, touch.begin, touch.end);
        else
          dependencies.read(i, touch.begin, touch.end);
      }
    const auto conflict = [&](int a, int b) {
      for (const Touch& x : launches[static_cast<size_t>(a)])
        for (const Touch& y : launches[static_cast<size_t>(b)])
          if ((x.write || y.write) && std::max(x.begin, y.begin) < std::min(x.end, y.end)) return true;
      return false;
    };
    std::vector<std::vector<int>> every(15);
    for (int b = 0; b < 15; ++b)
      for (int a = 0; a < b; ++a)
        if (conflict(a, b)) every[static_cast<size_t>(b)].push_back(a);
    const auto reduced = dependencies.reduced(15);
    for (int i = 0; i < 15; ++i) {
      ASSERT_EQ(ancestors(reduced, i), ancestors(every, i)) << "seed " << seed << " launch " << i;
      for (const int direct : reduced[static_cast<size_t>(i)])
        for (const int other : reduced[static_cast<size_t>(i)])
          ASSERT_FALSE(ancestors(reduced, other).contains(direct)) << "superfluous";
    }
  }
}

}  // namespace
}  // namespace luminal::runtime::test
