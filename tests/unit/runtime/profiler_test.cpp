#include "runtime/profiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "luminal/ops.h"
#include "support/files.h"
#include "unit/runtime/fakes.h"

namespace luminal::runtime::test {
namespace {

using testing::HasSubstr;

const kernel::MachineLimits kLimits{.flops_per_us = 1000,
                                    .memory_bytes_per_us = 10,
                                    .cache_bytes_per_us = 100,
                                    .cache_bytes = 1000,
                                    .l2_bytes_per_us = 400,
                                    .l2_bytes = 50};

TEST(Profiler, TheRooflineIsTheGreaterOfComputeAndTheLevelThatHoldsTheData) {
  EXPECT_DOUBLE_EQ(kernel::roofline_us(5000, 40, kLimits), 5);      // compute
  EXPECT_DOUBLE_EQ(kernel::roofline_us(0, 40, kLimits), 0.1);       // within the threads' own caches
  EXPECT_DOUBLE_EQ(kernel::roofline_us(0, 1000, kLimits), 10);      // within the last cache
  EXPECT_DOUBLE_EQ(kernel::roofline_us(5000, 2000, kLimits), 200);  // from memory
}

TEST(Profiler, AddsUpTheRunsOfEachLaunch) {
  Plan plan;
  plan.launches = {{.name = "slow", .origin = "matmul at model.cpp:1", .flops = 10'000, .bytes = 10},
                   {.name = "fast", .origin = "relu at model.cpp:2", .flops = 10, .bytes = 1000}};
  Profiler profiler(kLimits);
  const auto start = Profiler::Clock::now();
  const auto at = [&](int us) { return start + std::chrono::microseconds(us); };
  profiler.record(plan, 0, at(0), at(30));
  profiler.record(plan, 1, at(30), at(50));
  profiler.record(plan, 0, at(100), at(110));
  ASSERT_EQ(profiler.rows().size(), 2U);
  const Profiler::Row& slow = profiler.rows()[0];
  EXPECT_EQ(slow.runs, 2);
  EXPECT_DOUBLE_EQ(slow.mean_us(), 20);
  EXPECT_DOUBLE_EQ(slow.least_us, 10);
  EXPECT_DOUBLE_EQ(profiler.share_of_roofline(slow), 0.5);
  EXPECT_DOUBLE_EQ(profiler.share_of_roofline(profiler.rows()[1]), 0.5);
  const std::string table = profiler.table();
  EXPECT_LT(table.find("slow"), table.find("fast"));
  EXPECT_THAT(table, HasSubstr("matmul at model.cpp:1"));

  const auto trace = nlohmann::json::parse(profiler.trace_json());
  const auto& events = trace.at("traceEvents");
  ASSERT_EQ(events.size(), 4U);  // the process's name, then the launches in order
  EXPECT_EQ(events[1].at("name"), "slow");
  EXPECT_EQ(events[1].at("ph"), "X");
  EXPECT_NEAR(events[1].at("dur").get<double>(), 30, 1e-9);
  EXPECT_NEAR(events[3].at("ts").get<double>() - events[1].at("ts").get<double>(), 100, 1e-6);
  EXPECT_NEAR(events[1].at("args").at("share_of_roofline").get<double>(), 1.0 / 3, 1e-9);
}

TEST(Profiler, SeesEveryLaunchOfAnExecutor) {
  Graph cx;
  GraphTensor x = cx.tensor({3}, Dtype::I64).set(std::vector<int64_t>{1, 2, 3});
  const GraphTensor y = (x + 1).retrieve();
  PlanBuilder b;
  const TensorIndex in = b.input(x), one = b.computed({3}), two = b.computed({3});
  const auto twice = [](const int64_t* v) { return 2 * v[0]; };
  b.launch(elementwise(1, twice, 3), {in}, {one});
  b.launch(elementwise(1, twice, 3), {one}, {two});
  b.result(y, two);
  Executor executor(backends::make_null_device(), b.plan);
  Profiler profiler(kLimits);
  for (int run = 0; run < 5; ++run) executor.run(cx, nullptr, &profiler);
  ASSERT_EQ(profiler.rows().size(), 2U);
  EXPECT_EQ(profiler.rows()[0].runs, 5);
  EXPECT_EQ(profiler.rows()[1].name, "kernel1");
  EXPECT_GT(profiler.rows()[1].total_us, 0);
  EXPECT_EQ(y.data<int64_t>(), (std::vector<int64_t>{4, 8, 12}));
}

// LUMINAL_DEBUG=2 tells a line for each launch; with LUMINAL_DUMP the trace is in a file afterwards.
TEST(Profiler, LeavesATraceInTheDumpFolder) {
  const luminal::test::TemporaryFolder folder;
  ::setenv("LUMINAL_DEBUG", "2", 1);
  ::setenv("LUMINAL_DUMP", (folder.path() / "dump").c_str(), 1);
  ::setenv("LUMINAL_CACHE", "off", 1);
  {
    Graph cx;
    const GraphTensor x = cx.tensor({3}, Dtype::I64);
    GraphTensor(x).set(std::vector<int64_t>{1, 2, 3});
    const GraphTensor y = (x + 1).retrieve();
    PlanBuilder b;
    const TensorIndex in = b.input(x), out = b.computed({3});
    b.launch(elementwise(1, [](const int64_t* v) { return v[0] + 1; }, 3), {in}, {out});
    b.result(y, out);
    b.plan.key = 0xabc;
    Executor executor(backends::make_null_device(), b.plan);
    for (int run = 0; run < 2; ++run) executor.run(cx);
  }
  for (const char* name : {"LUMINAL_DEBUG", "LUMINAL_DUMP", "LUMINAL_CACHE"}) ::unsetenv(name);
  const auto trace = nlohmann::json::parse(
      luminal::test::content_of(folder.path() / "dump" / "profile_0000000000000abc.json"));
  EXPECT_EQ(trace.at("traceEvents").size(), 3U);
}

}  // namespace
}  // namespace luminal::runtime::test
