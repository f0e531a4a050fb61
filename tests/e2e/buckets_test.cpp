#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "luminal/luminal.h"
#include "support/environment.h"

// Plans for several sizes of a named dim.
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

}  // namespace
}  // namespace luminal::search
