#include "luminal/search_graph.h"

#include <gtest/gtest.h>

#include <cmath>

#include "luminal/error.h"
#include "luminal/ops.h"
#include "luminal/passes.h"

namespace luminal {
namespace {

using namespace luminal::select;

TEST(GraphSearch, FindsEachPlaceOnceAndTellsTheParts) {
  Graph cx;
  auto a = cx.tensor({2}), b = cx.tensor({2});
  auto first = (a + b).sin(), second = (a * b).sin(), third = (b + a).sin();
  auto x = node(), y = node();
  auto sum = binary(kAdd, x, y);
  GraphSearch search(unary(kSin, sum), cx);
  ASSERT_TRUE(search.next_match());
  EXPECT_EQ(search.value(), first.edge().source);
  EXPECT_EQ(search.get(x), a.node());
  EXPECT_EQ(search.get(y), b.node());
  EXPECT_TRUE(cx.is_op(cx.tensor_of(search.edge(sum)), kAdd));
  ASSERT_TRUE(search.next_match());
  EXPECT_EQ(search.value(), third.edge().source);
  EXPECT_FALSE(search.next_match());
  EXPECT_THROW((void)search.get(x), Error);
  (void)second;
}

TEST(GraphSearch, CommutativeOpsMatchInEitherOrder) {
  Graph cx;
  auto a = cx.tensor({2});
  auto left = (a.exp2() + a.sin()), right = (a.sin() + a.exp2());
  GraphSearch search(binary(kAdd, op(kExp2), op(kSin)), cx);
  EXPECT_TRUE(search.next_match());
  EXPECT_TRUE(search.next_match());
  EXPECT_FALSE(search.next_match());
  GraphSearch ordered(binary(kDiv, op(kExp2), op(kSin)), cx);
  auto quotient = cx.add_op(kDiv).input(a.sin()).input(a.exp2()).finish();
  EXPECT_FALSE(GraphSearch(binary(kDiv, op(kExp2), op(kSin)), cx).next_match());
  EXPECT_TRUE(GraphSearch(binary(kDiv, op(kSin), op(kExp2)), cx).next_match());
  (void)left, (void)right, (void)quotient;
}

TEST(GraphSearch, BacktracksWhenTheFirstOrderFailsFurtherDown) {
  Graph cx;
  auto a = cx.tensor({2}), b = cx.tensor({2});
  auto y = (a * b) + (a * 3.0);  // only the second product has a constant
  auto product = binary(kMul, node(), constant(3));
  auto other = binary(kMul, node(), node());
  GraphSearch search(binary(kAdd, product, other), cx);
  ASSERT_TRUE(search.next_match());
  EXPECT_NE(search.get(product), search.get(other));
  (void)y;
}

TEST(GraphSearch, APartUsedTwiceMatchesTheSameValueAndView) {
  Graph cx;
  auto a = cx.tensor({2, 2});
  auto square = cx.add_op(kMul).input(a).input(a).finish();
  auto mixed = cx.add_op(kMul).input(a).input(a.t()).finish();
  auto x = node();
  GraphSearch search(binary(kMul, x, x), cx);
  ASSERT_TRUE(search.next_match());
  EXPECT_EQ(search.value(), square.edge().source);
  EXPECT_FALSE(search.next_match());
  (void)mixed;
}

TEST(GraphSearch, ViewsAreOnlyLookedThroughWhenAsked) {
  Graph cx;
  auto a = cx.tensor({2, 3});
  auto plain = a.sin().sin(), moved = a.sin().t().sin(), padded = a.sin().pad({{1, 0}, {0, 0}}).sin();
  const auto count = [&](EdgeView view) {
    int matches = 0;
    for (GraphSearch search(unary(kSin, op(kSin, {op(kInput)}).through(view)), cx); search.next_match();)
      ++matches;
    return matches;
  };
  EXPECT_EQ(count(EdgeView::Identity), 1);
  EXPECT_EQ(count(EdgeView::Unpadded), 2);
  EXPECT_EQ(count(EdgeView::Any), 3);
  (void)plain, (void)moved, (void)padded;
}

TEST(GraphSearch, Constants) {
  Graph cx;
  auto a = cx.tensor({2});
  auto y = cx.add_op(kAdd).input(a).input(cx.full({2}, -0.0)).finish();
  auto z = cx.add_op(kAdd).input(a).input(cx.constant(2.0).expand({1}).pad({{0, 1}}, 3)).finish();
  const auto finds = [&](const SelectGraph& c) {
    return GraphSearch(binary(kAdd, node(), c), cx).next_match();
  };
  EXPECT_TRUE(finds(constant(-0.0)));
  EXPECT_FALSE(finds(constant(0.0)));
  EXPECT_FALSE(finds(constant(2)));  // read through padding
  EXPECT_TRUE(finds(constant()));
  (void)y, (void)z;
}

TEST(GraphSearch, ShapesBindNamedDims) {
  Graph cx;
  auto a = cx.tensor({2, 3}), b = cx.tensor({4, 4}), s = cx.tensor({"s", 3});
  auto x = cx.add_op(kSin).input(a).finish(), y = cx.add_op(kSin).input(b).finish(),
       z = cx.add_op(kSin).input(s).finish();
  GraphSearch square(op(kSin).shapes({{"N", "N"}}), cx);
  ASSERT_TRUE(square.next_match());
  EXPECT_EQ(square.value(), y.edge().source);
  EXPECT_EQ(square.dim("N"), Expression(4));
  EXPECT_FALSE(square.next_match());
  GraphSearch three(op(kSin).shapes({{"M", 3}}), cx);
  ASSERT_TRUE(three.next_match());
  EXPECT_EQ(three.dim("M"), Expression(2));
  ASSERT_TRUE(three.next_match());
  EXPECT_EQ(three.dim("M"), Expression("s"));
  EXPECT_THROW((void)three.dim("K"), Error);
  (void)x, (void)z;
}

TEST(GraphSearch, ChecksSeeTheNode) {
  Graph cx;
  auto a = cx.tensor({2}), b = cx.tensor({3});
  auto x = a.sin(), y = b.sin();
  GraphSearch search(
      op(kSin).check([](const Graph& graph, NodeId id) { return graph.type({id, 0}).dims == Shape{3}; }), cx);
  ASSERT_TRUE(search.next_match());
  EXPECT_EQ(search.value(), y.edge().source);
  EXPECT_FALSE(search.next_match());
  (void)x;
}

TEST(GraphSearch, RewritesAsInTheHeader) {
  Graph cx;
  auto a = cx.tensor({2}).set({4, 5});
  auto y = cx.add_op(kRecip).input(cx.add_op(kRecip).input(a).finish()).finish();
  auto shared = cx.add_op(kRecip).input(a).finish();
  auto z = cx.add_op(kRecip).input(shared).finish();
  auto out = (y + z).retrieve(), other = shared.sin().retrieve();
  auto x = node();
  auto inner = op(kRecip, {x});
  int refused = 0, done = 0;
  for (GraphSearch search(unary(kRecip, inner), cx); search.next_match();) {
    if (!search.check_no_delete({})) {
      ++refused;
      EXPECT_TRUE(search.check_no_delete({inner}));
      continue;
    }
    cx.replace(search.value(), search.edge(x));
    EXPECT_EQ(search.try_delete(), 2);
    ++done;
  }
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(done, 1);
  cx.execute();
  EXPECT_FLOAT_EQ(out.data<float>()[0], 8);
  EXPECT_FLOAT_EQ(other.data<float>()[0], std::sin(0.25F));
}

TEST(GraphSearch, MarkedNodesMayNotGo) {
  Graph cx;
  auto a = cx.tensor({2});
  auto inner = a.sin().retrieve();
  auto outer = inner.sin();
  auto part = op(kSin);
  GraphSearch search(unary(kSin, part), cx);
  ASSERT_TRUE(search.next_match());
  EXPECT_FALSE(search.check_no_delete({}));
  EXPECT_EQ(search.try_delete(), 1);  // the outer one: nobody reads it
  EXPECT_TRUE(inner.valid());
  EXPECT_FALSE(outer.valid());
}

}  // namespace
}  // namespace luminal
