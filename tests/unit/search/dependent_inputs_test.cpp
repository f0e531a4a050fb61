#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "luminal/luminal.h"
#include "search/verification/derive.h"

// Inputs of kernels that depend on each other in the user's graph.
namespace luminal::search {
namespace {

Names name_of(const GraphTensor& x) { return {x.edge().source}; }

/// The origins of tensors, as values.
std::vector<Value> origins(const Graph& cx, const std::vector<GraphTensor>& tensors,
                           const DeriveLimits& limits = {}) {
  std::vector<Names> names;
  for (const GraphTensor& x : tensors) names.push_back(name_of(x));
  std::vector<Value> values;
  for (const Names& origin : common_origins(cx, {}, names, limits).tensors) values.push_back(origin[0]);
  return values;
}
Value value(const GraphTensor& x) { return x.edge().source; }

TEST(Origins, ATensorAloneIsItsOwn) {
  Graph cx;
  const auto x = cx.tensor({4, 8}), w = cx.tensor({4, 8});
  const auto y = x.exp(), z = w.exp();
  EXPECT_THAT(origins(cx, {y, z}), testing::UnorderedElementsAre(value(y), value(z)));
}

TEST(Origins, ARowAndItsMaximumComeFromTheRow) {
  Graph cx;
  const auto x = cx.tensor({4, 8});
  const auto row = x.exp(), peak = row.max(1);
  EXPECT_THAT(origins(cx, {row, peak}), testing::UnorderedElementsAre(value(row)));
}

TEST(Origins, FollowTheGraphAsItIsNow) {
  for (int graph = 0; graph < 2; ++graph) {
    Graph cx;
    const auto x = cx.tensor({3});
    const auto once = x + x;
    const std::vector<float> numbers{1, 2, 3};
    const Leaves leaves{{value(x), std::make_shared<TensorData>(TensorData::of<float>({3}, numbers))}};
    const std::vector before{value(once)};
    EXPECT_EQ(evaluate_from(cx, {}, leaves, before)[0]->as<float>()[2], 6);
    const auto twice = once * once;
    const std::vector after{value(twice)};
    EXPECT_EQ(evaluate_from(cx, {}, leaves, after)[0]->as<float>()[2], 36);
    EXPECT_THAT(origins(cx, {once, twice}), testing::UnorderedElementsAre(value(once)));
  }
}

TEST(Origins, TwoFunctionsOfOneValueComeFromThatValue) {
  Graph cx;
  const auto x = cx.tensor({4, 8}), w = cx.tensor({4, 8});
  const auto shared = x * w;
  const auto row = shared.exp(), peak = shared.max(1);
  EXPECT_THAT(origins(cx, {row, peak}), testing::UnorderedElementsAre(value(shared)));
}

TEST(Origins, NumbersDrawnAtRandomAreNoIndices) {
  Graph cx;
  const auto table = cx.tensor({5, 8}), index = cx.tensor({4}, Dtype::I64);
  const auto rows = table.index_select(0, index), peak = rows.max(1);
  const auto number = index.cast(Dtype::F32) * 2;
  EXPECT_THAT(origins(cx, {rows, peak, number}), testing::Contains(value(rows)));
  for (const Value& origin : origins(cx, {rows, peak, number})) EXPECT_NE(origin, value(index));
}

TEST(Origins, WhatIsTheSameInEveryRunIsComputed) {
  Graph cx;
  const auto x = cx.tensor({4, 8});
  const auto ramp = cx.arange(8, Dtype::F32) * 2;
  EXPECT_THAT(origins(cx, {x, ramp}), testing::UnorderedElementsAre(value(x)));
}

TEST(Origins, NearNodesAreAffordedWhereFarOnesAreNot) {
  Graph cx;
  const auto a = cx.tensor({64, 64}), b = cx.tensor({64, 64});
  const auto x = a.matmul(b);
  const auto centred = x - x.mean(1).unsqueeze(1), spread = (centred * centred).sum(1);
  const auto gradient = x.exp().matmul(b);
  // One product takes 64^3 operations and more: what it makes stays an origin.
  EXPECT_THAT(origins(cx, {gradient, centred, spread}, {.of_one_node = 100'000}),
              testing::UnorderedElementsAre(value(gradient), value(centred)));
}

// Both the statistics and the gradient that comes back depend on x, but the gradient on weights too: any may stand
// beside x, where the scale of another x may not.
TEST(Origins, WhatTheOthersDetermineIsAffordedFirst) {
  Graph cx;
  const auto x = cx.tensor({64, 64}), w = cx.tensor({64, 64});
  const auto row = x * 2, centred = row - row.mean(0), squares = centred.square(),
             scale = (squares.mean(0) + 1e-5).rsqrt();
  GraphTensor gradient = centred * scale;
  for (int i = 0; i < 8; ++i) gradient = (gradient * w).exp();
  const std::vector<Value> found = origins(cx, {row, scale, gradient}, {.operations = 10 * 64 * 64});
  EXPECT_THAT(found, testing::Contains(value(row)));
  for (const Value& origin : found) {  // no step of the statistics: those have one number for each column
    EXPECT_EQ(element_count(cx.type(origin).dims).exec({}), 64 * 64) << cx.type(origin).to_string();
    EXPECT_NE(origin, value(centred));
    EXPECT_NE(origin, value(squares));
  }
}

/// Whatever may be spent: a step back that leads to what the others determine is not taken where that cannot be
/// evaluated.
TEST(Origins, WhatTheOthersDetermineIsNeverDrawn) {
  Graph cx;
  const auto x = cx.tensor({64, 64}), w = cx.tensor({64, 64});
  const auto row = x * 2, centred = row - row.mean(0), scale = (centred.square().mean(0) + 1e-5).rsqrt(),
             normal = centred * scale;
  GraphTensor gradient = normal;
  for (int i = 0; i < 4; ++i) gradient = (gradient * w).exp();
  bool all_afforded = false, none_afforded = false;
  for (int64_t nodes = 4; nodes < 60; ++nodes) {
    const std::vector<Value> found =
        origins(cx, {row, centred, scale, gradient}, {.operations = nodes * 64 * 64});
    all_afforded = all_afforded || std::ranges::find(found, value(w)) != found.end();
    none_afforded = none_afforded || std::ranges::find(found, value(gradient)) != found.end();
    if (std::ranges::find(found, value(row)) == found.end()) continue;  // centred and scale may be drawn
    EXPECT_THAT(found, testing::Not(testing::Contains(value(normal)))) << nodes;
  }
  EXPECT_TRUE(all_afforded);
  EXPECT_TRUE(none_afforded);
}

/// A kernel that reads a, b and the mean computes the product itself, where the mean may be any.
TEST(Origins, AProductOfOthersThatTakesTooLongIsNotDrawnBesideThem) {
  Graph cx;
  const auto a = cx.tensor({64, 64}), b = cx.tensor({64, 64});
  const auto mean = a.matmul(b).mean(1);
  EXPECT_THAT(origins(cx, {a, b, mean}, {.of_one_node = 100'000}),
              testing::UnorderedElementsAre(value(a), value(b), value(mean)));
}

TEST(Origins, WhatIsEvaluatedIsWhatTheGraphMakes) {
  Graph cx;
  const auto x = cx.tensor({2, 3});
  const auto row = x * 2, peak = x.max(1);
  auto data = std::make_shared<TensorData>(Dtype::F32, std::vector<int64_t>{2, 3});
  std::ranges::copy(std::vector<float>{1, 5, 2, -1, -7, -3}, data->as<float>().begin());
  const std::vector<Value> wanted{value(row), value(peak)};
  const auto made = evaluate_from(cx, {}, {{value(x), data}}, wanted);
  EXPECT_THAT(made[0]->as<float>(), testing::ElementsAre(2, 10, 4, -2, -14, -6));
  EXPECT_THAT(made[1]->as<float>(), testing::ElementsAre(5, -1));
}

/// What Optimal says while it compiles a graph; results are compared with the reference interpreter.
template <class Build>
std::string told_by_optimal(Build build) {
  std::vector<std::vector<float>> results[2];
  std::string told;
  for (const bool reference : {true, false}) {
    Graph cx;
    cx.set_device(reference ? "reference" : "cpu");
    std::vector<GraphTensor> wanted = build(cx);
    for (GraphTensor& each : wanted) each.retrieve();
    testing::internal::CaptureStderr();
    Compiled compiled = cx.compile(Optimal{});
    compiled();
    told = testing::internal::GetCapturedStderr();
    for (GraphTensor& each : wanted) {
      const auto data = each.data<float>();
      results[reference ? 0 : 1].emplace_back(data.begin(), data.end());
    }
  }
  for (size_t i = 0; i < results[0].size(); ++i)
    for (size_t k = 0; k < results[0][i].size(); ++k)
      EXPECT_NEAR(results[1][i][k], results[0][i][k], 2e-4 * (1 + std::abs(results[0][i][k])));
  return told;
}

GraphTensor filled(Graph& cx, const std::vector<int64_t>& dims, int seed) {
  std::vector<Expression> sizes(dims.begin(), dims.end());
  int64_t count = 1;
  for (const int64_t size : dims) count *= size;
  std::vector<float> data;
  for (int64_t i = 0; i < count; ++i)
    data.push_back(std::sin(static_cast<float>(i * 7 + seed * 13 + i * i % 11)));
  return cx.tensor(sizes).set(data);
}

TEST(Optimal, TakesCausalAttentionAndItsGradientsWithoutDoubt) {
  EXPECT_EQ(told_by_optimal([](Graph& cx) {
              const auto q = filled(cx, {2, 24, 8}, 1), k = filled(cx, {2, 24, 8}, 2),
                         v = filled(cx, {2, 24, 8}, 3);
              const auto loss = (attention(q, k, v, {.causal = true}) * filled(cx, {2, 24, 8}, 4)).sum();
              std::vector<GraphTensor> wanted = cx.run_pass(Autograd({q, k, v}, loss));
              wanted.push_back(loss);
              return wanted;
            }),
            "");
}

TEST(Optimal, TakesLayerNormAndCrossEntropyWithTheirGradientsWithoutDoubt) {
  EXPECT_EQ(told_by_optimal([](Graph& cx) {
              const auto x = filled(cx, {12, 40}, 1), w = filled(cx, {40, 40}, 2);
              const auto normed = x.matmul(w).layer_norm(-1) + x;
              const auto loss =
                  -(normed.layer_norm(-1).matmul(w).log_softmax(-1) * filled(cx, {12, 40}, 3)).sum();
              std::vector<GraphTensor> wanted = cx.run_pass(Autograd({x, w}, loss));
              wanted.push_back(loss);
              return wanted;
            }),
            "");
}

}  // namespace
}  // namespace luminal::search
