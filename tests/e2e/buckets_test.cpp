#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/stopwatch.h"
#include "luminal/compile_report.h"
#include "luminal/luminal.h"
#include "search/cache/kernel_cache.h"
#include "support/environment.h"

// Plans for several sizes of a named dim: what one search found the next one uses.
namespace luminal::search {
namespace {

/// A transformer block over "length" tokens.
struct TokenBlock {
  Graph cx;
  GraphTensor x, y;
  explicit TokenBlock(int64_t size) {
    cx.set_device("cpu");
    const nn::TransformerEncoderBlock block(
        cx, size, 2, {.dim_feedforward = 4 * size, .dropout = 0, .batch_first = true, .norm_first = true});
    x = cx.named_tensor("x", {1, "length", size});
    y = block.forward(x, {.causal = true}).retrieve();
  }
  void give(int64_t length) {
    const int64_t size = x.dim(2).exec();
    std::vector<float> data(static_cast<size_t>(length * size));
    for (size_t i = 0; i < data.size(); ++i) data[i] = 0.01F * static_cast<float>(i % 97);
    x.set_dyn(data, {1, length, size});
  }
};

/// As the prompt and the single tokens of a language model: the largest plan's memory serves all of them.
TEST(Buckets, ShareOneArenaAndOneCopyOfTheWeights) {
  const luminal::test::EnvironmentVariable level("LUMINAL_DEBUG", "1");
  TokenBlock block(32);
  Compiled compiled = block.cx.compile(Fast{});
  const auto told_at = [&](int64_t length) {
    block.give(length);
    testing::internal::CaptureStderr();
    compiled();
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(told_at(1), testing::HasSubstr("runtime: the arena has"));
  std::map<Value, const void*> weights;
  for (const NodeId id : block.cx.nodes())
    if (const auto data = block.cx.value({id, 0});
        data && id != block.x.edge().source.node && id != block.y.edge().source.node)
      weights[{id, 0}] = data->bytes.data();
  EXPECT_GT(weights.size(), 10U);
  EXPECT_THAT(told_at(500), testing::HasSubstr("runtime: the arena has")) << "it grows";
  for (const int64_t length : {1, 8, 30, 100, 200, 500}) {
    const std::string told = told_at(length);
    EXPECT_THAT(told, testing::Not(testing::HasSubstr("runtime: the arena has"))) << length;
  }
  for (const auto& [value, lies] : weights) EXPECT_EQ(block.cx.value(value)->bytes.data(), lies);
}

struct BucketWork {
  int timed = 0, compiled = 0;
  double seconds = 0;
};

TEST(Buckets, SeveralCostLittleMoreThanOne) {
  TokenBlock block(64);
  Compiled compiled = block.cx.compile(Optimal{});
  std::vector<BucketWork> costs;
  for (const int64_t length : {200, 100, 300, 50, 600}) {
    block.give(length);
    const auto start = std::chrono::steady_clock::now();
    compiled();
    const CompileReport report = compiled.details();
    costs.push_back({report.timed, report.compiled, seconds_since(start)});
    std::cout << "length " << length << ": " << report.timed << " candidates timed, " << report.compiled
              << " compiled, " << costs.back().seconds << " s\n";
  }
  int others = 0;
  for (size_t i = 1; i < costs.size(); ++i) others += costs[i].timed;
  EXPECT_LT(others, 2 * costs[0].timed) << "four more buckets";
}

}  // namespace
}  // namespace luminal::search
