#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "luminal/autograd.h"
#include "luminal/error.h"
#include "luminal/ops.h"
#include "luminal/passes.h"
#include "passes/arithmetic_rules.h"

namespace luminal {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr MathMode kModes[] = {MathMode::Strict, MathMode::Relaxed, MathMode::Fast};

GraphTensor node_of(Graph& cx, const OpDef& op, const std::vector<GraphTensor>& inputs,
                    Attributes attributes = {}) {
  OpBuilder builder = cx.add_op(op);
  for (const GraphTensor& input : inputs) builder.input(input);
  for (const auto& [key, value] : attributes.entries()) builder.attribute(key, value);
  return builder.finish();
}

int count_of(const Graph& cx, const OpDef& op) {
  int count = 0;
  for (const NodeId id : cx.nodes()) count += cx.node(id).op == &op ? 1 : 0;
  return count;
}

// --- Laws: from which mode on they hold

struct LawCase {
  std::string name;
  MathMode from;
  std::function<GraphTensor(Graph&, const GraphTensor&)> build;  ///< of an f32[2] input
};

/// Whether `build(x)` becomes x itself.
bool vanishes(const LawCase& law, MathMode mode, Dtype dtype) {
  Graph cx;
  auto x = cx.tensor({2}, dtype);
  auto y = law.build(cx, x);
  auto reader = node_of(cx, kMul, {y, y}).retrieve();
  (void)cx.run_pass(GenericPasses(mode));
  return cx.node(reader.node()).inputs[0].source == x.edge().source &&
         cx.node(reader.node()).inputs[0].view.is_identity();
}

TEST(ArithmeticElimination, LawsOfFloatsHoldFromTheirModeOn) {
  const auto full = [](Graph& cx, double value) { return cx.full({2}, value); };
  const std::vector<LawCase> laws = {
      {"x + -0", MathMode::Strict,
       [&](Graph& cx, auto& x) { return node_of(cx, kAdd, {x, full(cx, -0.0)}); }},
      {"-0 + x", MathMode::Strict,
       [&](Graph& cx, auto& x) { return node_of(cx, kAdd, {full(cx, -0.0), x}); }},
      {"x + 0", MathMode::Relaxed, [&](Graph& cx, auto& x) { return node_of(cx, kAdd, {x, full(cx, 0.0)}); }},
      {"x * 1", MathMode::Strict, [&](Graph& cx, auto& x) { return node_of(cx, kMul, {x, full(cx, 1)}); }},
      {"1 * x", MathMode::Strict, [&](Graph& cx, auto& x) { return node_of(cx, kMul, {full(cx, 1.0), x}); }},
      {"x / 1", MathMode::Strict, [&](Graph& cx, auto& x) { return node_of(cx, kDiv, {x, full(cx, 1)}); }},
      {"max(x, -inf)", MathMode::Strict,
       [&](Graph& cx, auto& x) {
         return node_of(cx, kMax, {x, full(cx, -kInf)}, {{"ties", std::string("split")}});
       }},
      {"max(x, x)", MathMode::Strict,
       [&](Graph& cx, auto& x) { return node_of(cx, kMax, {x, x}, {{"ties", std::string("split")}}); }},
      {"x * -1 * -1", MathMode::Strict,
       [&](Graph& cx, auto& x) {
         return node_of(cx, kMul, {node_of(cx, kMul, {x, full(cx, -1)}), full(cx, -1)});
       }},
      {"recip(recip x)", MathMode::Relaxed,
       [&](Graph& cx, auto& x) { return node_of(cx, kRecip, {node_of(cx, kRecip, {x})}); }},
      {"log2(exp2 x)", MathMode::Relaxed,
       [&](Graph& cx, auto& x) { return node_of(cx, kLog2, {node_of(cx, kExp2, {x})}); }},
      {"exp2(log2 x)", MathMode::Fast,
       [&](Graph& cx, auto& x) { return node_of(cx, kExp2, {node_of(cx, kLog2, {x})}); }},
      {"x * 2 * 0.5", MathMode::Relaxed,
       [&](Graph& cx, auto& x) {
         return node_of(cx, kMul, {node_of(cx, kMul, {x, full(cx, 2)}), full(cx, 0.5)});
       }},
      {"where(true, x, 0)", MathMode::Strict,
       [&](Graph& cx, auto& x) {
         return node_of(cx, kWhere, {cx.full({2}, true, Dtype::Bool), x, full(cx, 0)});
       }},
      {"where(c, x, x)", MathMode::Strict,
       [&](Graph& cx, auto& x) {
         return node_of(cx, kWhere, {node_of(cx, kLessThan, {x, full(cx, 0)}), x, x});
       }},
      {"cast to its type", MathMode::Strict,
       [&](Graph& cx, auto& x) { return node_of(cx, kCast, {x}, {{"dtype", Dtype::F32}}); }},
      {"to f64 and back", MathMode::Strict,
       [&](Graph& cx, auto& x) {
         return node_of(cx, kCast, {node_of(cx, kCast, {x}, {{"dtype", Dtype::F64}})},
                        {{"dtype", Dtype::F32}});
       }},
      {"recip(flip(recip(flip x)))", MathMode::Relaxed,
       [&](Graph& cx, auto& x) { return node_of(cx, kRecip, {node_of(cx, kRecip, {x.flip(0)}).flip(0)}); }},
  };
  for (const LawCase& law : laws)
    for (const MathMode mode : kModes)
      EXPECT_EQ(vanishes(law, mode, Dtype::F32), mode >= law.from)
          << law.name << " in " << name(mode) << " mode";
}

TEST(ArithmeticElimination, NeverHolds) {
  const std::vector<LawCase> others = {
      {"to f16 and back rounds",
       {},
       [](Graph& cx, auto& x) {
         return node_of(cx, kCast, {node_of(cx, kCast, {x}, {{"dtype", Dtype::F16}})},
                        {{"dtype", Dtype::F32}});
       }},
      {"0 padding of 1 * x is no x",
       {},
       [](Graph& cx, auto& x) {
         return node_of(cx, kAdd, {x, cx.constant(0.0).pad({}).expand({1}).pad({{0, 1}}, 5)});
       }},
      {"padding between",
       {},
       [](Graph& cx, auto& x) {
         return node_of(cx, kRecip, {node_of(cx, kRecip, {x}).slice({{0, 1}}).pad({{0, 1}}, 4)});
       }},
      {"x / -1", {}, [](Graph& cx, auto& x) { return node_of(cx, kDiv, {x, cx.full({2}, -1)}); }},
      {"1 / x", {}, [](Graph& cx, auto& x) { return node_of(cx, kDiv, {cx.full({2}, 1), x}); }},
      {"max(x, inf)",
       {},
       [](Graph& cx, auto& x) {
         return node_of(cx, kMax, {x, cx.full({2}, kInf)}, {{"ties", std::string("split")}});
       }},
      {"x * 1e-30 * 1e30 through 1e-40",
       {},
       [](Graph& cx, auto& x) {
         return node_of(cx, kMul, {node_of(cx, kMul, {x, cx.full({2}, 1e-40)}), cx.full({2}, 1e40)});
       }},
  };
  for (const LawCase& other : others)
    for (const MathMode mode : kModes) EXPECT_FALSE(vanishes(other, mode, Dtype::F32)) << other.name;
}

TEST(ArithmeticElimination, LawsOfIntegersHoldInEveryMode) {
  const std::vector<LawCase> laws = {
      {"x + 0", {}, [](Graph& cx, auto& x) { return node_of(cx, kAdd, {x, cx.full({2}, 0, Dtype::I32)}); }},
      {"x * 1", {}, [](Graph& cx, auto& x) { return node_of(cx, kMul, {cx.full({2}, 1, Dtype::I32), x}); }},
      {"x | 0", {}, [](Graph& cx, auto& x) { return node_of(cx, kOr, {x, cx.full({2}, 0, Dtype::I32)}); }},
      {"x & -1", {}, [](Graph& cx, auto& x) { return node_of(cx, kAnd, {x, cx.full({2}, -1, Dtype::I32)}); }},
      {"x ^ 5 ^ 5",
       {},
       [](Graph& cx, auto& x) {
         return node_of(cx, kXor,
                        {node_of(cx, kXor, {x, cx.full({2}, 5, Dtype::I32)}), cx.full({2}, 5, Dtype::I32)});
       }},
      {"x + 2^31 + 2^31 wraps",
       {},
       [](Graph& cx, auto& x) {
         return node_of(cx, kAdd,
                        {node_of(cx, kAdd, {x, cx.full({2}, INT32_MIN, Dtype::I32)}),
                         cx.full({2}, INT32_MIN, Dtype::I32)});
       }},
      {"shift by 0",
       {},
       [](Graph& cx, auto& x) { return node_of(cx, kShift, {x, cx.full({2}, 0, Dtype::I32)}); }},
      {"i32 to f64 and back",
       {},
       [](Graph& cx, auto& x) {
         return node_of(cx, kCast, {node_of(cx, kCast, {x}, {{"dtype", Dtype::F64}})},
                        {{"dtype", Dtype::I32}});
       }},
  };
  for (const LawCase& law : laws)
    for (const MathMode mode : kModes)
      EXPECT_TRUE(vanishes(law, mode, Dtype::I32)) << law.name << " in " << name(mode);
  const LawCase lossy{"i32 to f32 and back", {}, [](Graph& cx, auto& x) {
                        return node_of(cx, kCast, {node_of(cx, kCast, {x}, {{"dtype", Dtype::F32}})},
                                       {{"dtype", Dtype::I32}});
                      }};
  EXPECT_FALSE(vanishes(lossy, MathMode::Fast, Dtype::I32));
}

TEST(ArithmeticElimination, TimesZeroIsZeroInFastModeOnly) {
  for (const MathMode mode : kModes) {
    Graph cx;
    auto x = cx.tensor({2}).set({1.0, std::nan("")});
    auto y = (node_of(cx, kMul, {x, cx.full({2}, 0.0)}) + 1).retrieve();
    (void)cx.run_pass(GenericPasses(mode));
    cx.execute();
    EXPECT_EQ(std::isnan(y.data<float>()[1]), mode != MathMode::Fast);
  }
}

TEST(ArithmeticElimination, ConstantsAreFoldedByTheOpItself) {
  Graph cx;
  auto y = ((cx.constant(2.0).sin() + 1).exp2() * cx.full({3}, 0.5)).retrieve();
  (void)cx.run_pass(GenericPasses(MathMode::Strict));
  EXPECT_LE(cx.node_count(), 3U);  // the retrieved product stays, of two constants
  cx.execute();
  const float expected = std::exp2(static_cast<float>(std::sin(2.0)) + 1) * 0.5F;
  EXPECT_THAT(y.data<float>(), testing::Each(testing::FloatEq(expected)));
}

TEST(ArithmeticElimination, JoinsConstantsAlongAChain) {
  Graph cx;
  auto a = cx.tensor({4}).set({1, 2, 3, 4});
  auto y = (2 * a) * 3;
  for (int i = 0; i < 5; ++i) y = y * 2;
  y = (y + 1).retrieve();
  (void)cx.run_pass(GenericPasses());
  EXPECT_EQ(count_of(cx, kMul), 1);
  cx.execute();
  EXPECT_EQ(y.data<float>(), (std::vector<float>{193, 385, 577, 769}));
}

TEST(ArithmeticElimination, DoesNotJoinConstantsIntoAnOverflow) {
  Graph cx;
  auto a = cx.tensor({1}).set({1e-30F});
  auto y = node_of(cx, kAdd,
                   {node_of(cx, kMul, {node_of(cx, kMul, {a, cx.full({1}, 1e30)}), cx.full({1}, 1e30)}),
                    cx.full({1}, 1)})
               .retrieve();
  (void)cx.run_pass(GenericPasses(MathMode::Fast));
  cx.execute();
  EXPECT_FLOAT_EQ(y.data<float>()[0], 1e30F);
}

TEST(ArithmeticElimination, EveryRuleHasANameAndAReason) {
  std::set<std::string_view> names;
  for (const passes::ArithmeticRule& rule : passes::arithmetic_rules()) {
    EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
    EXPECT_NE(rule.name.find('-'), std::string_view::npos) << rule.name;
    EXPECT_FALSE(rule.reason.empty()) << rule.name;
  }
}

// --- Common subexpressions

TEST(Cse, MergesEqualNodesOnly) {
  Graph cx;
  auto x = cx.tensor({2, 2});
  auto y = (x.sin() + x.sin()) * (x.sin().t() + x.cos());
  y.retrieve();
  (void)cx.run_pass(CSE());
  EXPECT_EQ(count_of(cx, kSin), 1);
  EXPECT_EQ(count_of(cx, kAdd), 2);  // x.t() is read through another view
}

TEST(Cse, OperandsOfCommutativeOpsMayBeExchangedButNotForStrictFloats) {
  for (const MathMode mode : kModes)
    for (const Dtype dtype : {Dtype::F32, Dtype::I32}) {
      Graph cx;
      auto a = cx.tensor({2}, dtype), b = cx.tensor({2}, dtype);
      auto y = node_of(cx, kMul, {node_of(cx, kAdd, {a, b}), node_of(cx, kAdd, {b, a})}).retrieve();
      (void)cx.run_pass(CSE(mode));
      EXPECT_EQ(count_of(cx, kAdd), mode == MathMode::Strict && dtype == Dtype::F32 ? 2 : 1);
      (void)y;
    }
}

TEST(Cse, NeverMergesInputsRandomNumbersAndMarkedOrKeptValues) {
  Graph cx;
  auto a = cx.tensor({2}).set({1, 2}), b = cx.tensor({2}).set({3, 4});
  auto r = cx.uniform({2}), s = cx.uniform({2});
  auto kept = (a * 2).keep(), again = a * 2;
  auto y = (a + b + r + s + again).retrieve();
  auto z = (a * 2).retrieve();
  cx.execute();
  (void)cx.run_pass(GenericPasses(), kept);
  EXPECT_EQ(count_of(cx, kInput), 2);
  EXPECT_EQ(count_of(cx, kRandom), 2);
  a.set({10, 20});
  cx.execute();
  EXPECT_EQ(kept.data<float>(), (std::vector<float>{2, 4}));  // computed once
  EXPECT_EQ(z.data<float>(), (std::vector<float>{20, 40}));
  EXPECT_GE(y.data<float>()[0], 33);
}

// --- The other passes

TEST(RemoveUnusedNodes, KeepsRootsInputsHandlesAndEffects) {
  Graph cx;
  auto x = cx.tensor({2}).set({1, 2}), unused_input = cx.tensor({3});
  auto handle = x.sin(), dead = x.cos().tan(), wanted = x.exp2().retrieve();
  auto state = cx.tensor({2}).set({0, 0});
  state.assign(state + x);
  (void)(x + 5).print("shown");
  (void)cx.run_pass(RemoveUnusedNodes(), handle);
  EXPECT_TRUE(handle.valid());
  EXPECT_TRUE(unused_input.valid());
  EXPECT_FALSE(dead.valid());
  EXPECT_TRUE(wanted.valid());
  EXPECT_EQ(count_of(cx, kPrint), 1);
  EXPECT_EQ(cx.state_updates().size(), 1U);
  EXPECT_THROW((void)dead.edge(), Error);
}

TEST(RemoveSingleReductions, BecomeViews) {
  for (const MathMode mode : kModes) {
    Graph cx;
    auto x = cx.tensor({1, 3, 1});
    auto sum = node_of(cx, kSumReduce, {x}, {{"axes", std::vector<int64_t>{0, 2}}});
    auto max =
        node_of(cx, kMaxReduce, {x}, {{"axes", std::vector<int64_t>{2}}, {"ties", std::string("split")}});
    auto both = node_of(cx, kSumReduce, {x}, {{"axes", std::vector<int64_t>{1, 2}}});
    auto y = (node_of(cx, kExp2, {sum}).sum() + node_of(cx, kExp2, {max}).sum() + both.sum()).retrieve();
    (void)cx.run_pass(RemoveSingleReductions(mode));
    EXPECT_EQ(count_of(cx, kMaxReduce), 0);
    // 0 + -0 is 0: the sum stays in strict mode.
    const auto is_reduced = [&](const GraphTensor& t) { return cx.node(t.node()).op == &kSumReduce; };
    EXPECT_EQ(is_reduced(sum), mode == MathMode::Strict);
    EXPECT_TRUE(is_reduced(both));
    EXPECT_EQ(std::get<std::vector<int64_t>>(*cx.node(both.node()).attributes.find("axes")).size(), 1U);
    (void)y;
  }
}

TEST(GenericPasses, HandlesFollowTheirValues) {
  Graph cx;
  auto x = cx.tensor({2}).set({3, 4});
  auto same = node_of(cx, kMul, {x.sin(), cx.full({2}, 1)});
  auto after = (same + same).retrieve();
  (void)cx.run_pass(GenericPasses(), same);
  EXPECT_TRUE(cx.is_op(same, kSin));
  same.retrieve();
  cx.execute();
  EXPECT_FLOAT_EQ(same.data<float>()[0], std::sin(3.0F));
  EXPECT_FLOAT_EQ(after.data<float>()[1], 2 * std::sin(4.0F));
}

TEST(GenericPasses, AHandleNeverBecomesAnotherNameOfAnInput) {
  Graph cx;
  auto x = cx.tensor({2}).set({3, 4});
  auto copy = node_of(cx, kMul, {x, cx.full({2}, 1)}).retrieve();
  (void)cx.run_pass(GenericPasses(), copy);
  cx.execute();
  copy.drop();
  EXPECT_EQ(x.data<float>(), (std::vector<float>{3, 4}));
}

TEST(GenericPasses, StateStaysState) {
  Graph cx;
  auto count = cx.tensor({1}).set({0});
  count.assign(node_of(cx, kAdd, {node_of(cx, kAdd, {count, cx.full({1}, 1)}), cx.full({1}, 1)}));
  (void)cx.run_pass(GenericPasses());
  EXPECT_EQ(count_of(cx, kAdd), 1);
  for (int i = 0; i < 3; ++i) cx.execute();
  EXPECT_EQ(count.data<float>(), (std::vector<float>{6}));
}

TEST(GenericPasses, IsLinearInTheGraph) {
  // Work is counted in versions of the graph: each rewrite and removal is one, so a pass that comes back to
  // nodes again and again would show.
  const auto versions = [](int length) {
    Graph cx;
    auto x = cx.tensor({2});
    auto y = x;
    for (int i = 0; i < length; ++i)
      y = node_of(cx, kAdd, {node_of(cx, kMul, {y, cx.full({2}, 1)}), cx.full({2}, 0.5)}).sin();
    y.retrieve();
    const uint64_t before = cx.version();
    (void)cx.run_pass(GenericPasses());
    return static_cast<double>(cx.version() - before);
  };
  const double small = versions(50), large = versions(500);
  EXPECT_NEAR(large / small, 10, 1);
}

TEST(GenericPasses, SecondRunChangesNothing) {
  Graph cx;
  auto x = cx.tensor({4, 4});
  auto w = cx.tensor({4, 4});
  auto loss = (x.matmul(w) * 1.0 + 0.0).softmax(-1).log().mean();
  auto gradients = cx.run_pass(Autograd({w}, loss));
  gradients[0].retrieve();
  EXPECT_LE(cx.run_pass(Looped(GenericPasses())), 3);
  const uint64_t version = cx.version();
  (void)cx.run_pass(GenericPasses());
  EXPECT_EQ(cx.version(), version);
}

}  // namespace
}  // namespace luminal
