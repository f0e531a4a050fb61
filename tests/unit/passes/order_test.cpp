#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "luminal/ops.h"
#include "luminal/passes.h"

namespace luminal {
namespace {

size_t place_of(const std::vector<NodeId>& order, const GraphTensor& tensor) {
  return static_cast<size_t>(std::ranges::find(order, tensor.node()) - order.begin());
}

/// Every node behind what it reads and what it is ordered after.
void expect_valid(const Graph& cx, const std::vector<NodeId>& order) {
  ASSERT_EQ(order.size(), cx.node_count());
  std::set<NodeId> seen;
  for (const NodeId id : order) {
    for (const Edge& edge : cx.node(id).inputs) EXPECT_TRUE(seen.contains(edge.source.node));
    for (const NodeId before : cx.node(id).after) EXPECT_TRUE(seen.contains(before));
    seen.insert(id);
  }
}

TEST(DepthFirst, BringsDownThePeakOfInterleavedBranches) {
  // Eight wide branches, each reduced to one number; by creation all wide values come first.
  Graph cx;
  auto x = cx.tensor({1000});
  std::vector<GraphTensor> wide;
  for (int i = 0; i < 8; ++i) wide.push_back((x * (i + 2.5)).sin());
  GraphTensor total = wide[0].sum();
  for (int i = 1; i < 8; ++i) total = total + wide[static_cast<size_t>(i)].sum();
  total.retrieve();
  const DepthFirst::Order result = cx.run_pass(DepthFirst(), total);
  EXPECT_GE(result.peak_bytes_before, 8 * 4000);
  EXPECT_LE(result.peak_bytes, 3 * 4000);
  expect_valid(cx, result.order);
  EXPECT_EQ(cx.topological_order(), result.order);  // the order edges leave one order only
}

TEST(DepthFirst, TakesTheOperandThatNeedsMostFirst) {
  Graph cx;
  auto x = cx.tensor({100});
  auto cheap = (x * 3.0).slice({{0, 10}}).sin();                             // holds 40 bytes
  auto expensive = x.expand_dim(0, 50).sin().sum(0).slice({{0, 10}}).cos();  // 20,000 bytes on the way
  auto y = (cheap + expensive).retrieve();
  const auto result = cx.run_pass(DepthFirst(), y);
  EXPECT_LT(place_of(result.order, expensive), place_of(result.order, cheap));
}

TEST(DepthFirst, KeepsOrderEdgesAndTheProgramOrderOfEffects) {
  Graph cx;
  auto x = cx.tensor({4}).set({1, 2, 3, 4});
  auto a = x.sin(), b = x.cos(), c = x.exp2();
  auto p1 = (c * 2).print("one"), p2 = (a * 2).print("two"), p3 = x.print("three");
  cx.order(c, a);
  cx.order(b, c);
  auto y = (a + b + c).retrieve();
  const auto results = cx.run_pass(std::tuple(GenericPasses(), DepthFirst()), y, a, b, c);
  const std::vector<NodeId>& order = std::get<1>(results).order;
  expect_valid(cx, order);
  EXPECT_LT(place_of(order, b), place_of(order, c));
  EXPECT_LT(place_of(order, c), place_of(order, a));
  EXPECT_LT(place_of(order, p1), place_of(order, p2));
  EXPECT_LT(place_of(order, p2), place_of(order, p3));
  cx.execute();
  EXPECT_EQ(y.data<float>().size(), 4U);
}

TEST(OrderEdges, SurviveEveryPass) {
  const auto build = [](Graph& cx) {
    auto x = cx.tensor({4}).set({1, 2, 3, 4});
    // All three are equal, and would be merged, folded away or dropped if nobody ordered them.
    std::vector<GraphTensor> ordered;
    for (int i = 0; i < 3; ++i) ordered.push_back(cx.add_op(kMul).input(x).input(cx.full({4}, 1)).finish());
    cx.order(ordered[2], ordered[1]);
    cx.order(ordered[1], ordered[0]);
    (ordered[0] + ordered[2]).retrieve();
    return ordered;
  };
  const auto expect_kept = [](Graph& cx, const std::vector<GraphTensor>& t) {
    const auto order = cx.topological_order();
    EXPECT_LT(place_of(order, t[2]), place_of(order, t[0]));
    if (t[1].valid()) {
      EXPECT_LT(place_of(order, t[2]), place_of(order, t[1]));
      EXPECT_LT(place_of(order, t[1]), place_of(order, t[0]));
    }
    cx.execute();
  };
  const auto check = [&](auto pass) {
    Graph cx;
    const auto ordered = build(cx);
    (void)cx.run_pass(pass);
    expect_kept(cx, ordered);
  };
  check(RemoveUnusedNodes());  // drops the middle one and joins its edges
  check(CSE());
  check(ArithmeticElimination(MathMode::Fast));
  check(RemoveSingleReductions(MathMode::Fast));
  check(DepthFirst());
  check(std::tuple(GenericPasses(MathMode::Fast), DepthFirst(), GenericPasses(MathMode::Fast)));
}

TEST(OrderEdges, ContradictionsAreErrors) {
  Graph cx;
  auto x = cx.tensor({4});
  auto a = x.sin(), b = a.cos();
  EXPECT_THROW(cx.order(b, a), std::exception);
}

}  // namespace
}  // namespace luminal
