#include "luminal/scan.h"

#include <gmock/gmock.h>

#include "gradient_check.h"
#include "graph/subgraph.h"
#include "luminal/error.h"
#include "luminal/ops.h"
#include "luminal/passes.h"
#include "support/recurrences.h"

namespace luminal {
namespace {

using test::as_scan;
using test::Recurrence;
using test::recurrences;
using test::step_by_step;
using test::Tensors;
using testing::ElementsAre;
using testing::HasSubstr;

std::string scan_error(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::vector<double> values_of(const Recurrence& r, const test::Loop& loop, const ScanOptions& options) {
  std::mt19937_64 random(3);
  Graph cx;
  cx.set_device("reference");
  Tensors in;
  for (const auto& sizes : r.inputs)
    in.push_back(cx.tensor(test::static_shape(sizes), Dtype::F64)
                     .set(test::random_values(random, {.sizes = sizes, .low = -1, .high = 1})));
  GraphTensor all = test::in_a_row(r.make(in, loop, options), Dtype::F64).retrieve();
  cx.execute();
  return all.data<double>();
}

class EachRecurrence : public testing::TestWithParam<Recurrence> {};
INSTANTIATE_TEST_SUITE_P(Scan, EachRecurrence, testing::ValuesIn(recurrences()),
                         [](const auto& which) { return which.param.name; });

TEST_P(EachRecurrence, ComputesWhatItsStepsComputeOneByOne) {
  for (const bool reverse : {false, true})
    for (const int64_t every : {1, 2, 3, 100}) {
      const ScanOptions options{.reverse = reverse, .checkpoint_every = every};
      EXPECT_EQ(values_of(GetParam(), as_scan, options), values_of(GetParam(), step_by_step, options))
          << "reverse " << reverse << ", checkpoint_every " << every;
    }
}

TEST_P(EachRecurrence, HasGradientsOfFirstAndSecondOrder) {
  std::vector<test::Argument> arguments;
  for (const auto& sizes : GetParam().inputs) arguments.push_back({sizes, -1, 1});
  for (const int64_t every : {1, 2}) {
    const test::Function function = [&](Graph& cx, const Tensors& in) {
      cx.set_device("reference");
      const ScanOptions options{.reverse = every == 2, .checkpoint_every = every};
      return test::in_a_row(GetParam().make(in, as_scan, options), Dtype::F64);
    };
    test::expect_gradients(arguments, function);
    test::expect_gradients(arguments, test::gradient_of(function));
  }
}

class ScanGraph : public testing::Test {
 protected:
  void SetUp() override { cx.set_device("reference"); }
  size_t count(const OpDef& op) const {
    size_t found = 0;
    for (const NodeId id : cx.nodes()) found += cx.node(id).op == &op ? 1 : 0;
    return found;
  }
  static ScanStep sum(std::span<const GraphTensor> carry, std::span<const GraphTensor> x) {
    const GraphTensor next = carry[0] + x[0];
    return {{next}, {next}};
  }
  Graph cx;
};

TEST_F(ScanGraph, LeavesOneNodeAndWhatNeedsNoStep) {
  const GraphTensor x = cx.tensor({5, 3}), w = cx.tensor({3});
  const size_t before = cx.node_count();
  const auto result = scan({cx.zeros({3})}, {x}, [&](auto carry, auto element) -> ScanStep {
    return {{(carry[0] + element[0]) * w.exp()}, {}};
  });
  EXPECT_EQ(count(kScan), 1U);
  EXPECT_EQ(count(kExp), 1U) << "of a weight alone: computed once";
  EXPECT_EQ(count(kMul), 0U);
  EXPECT_EQ(cx.node_count(), before + 3) << cx.to_string();  // zeros, exp, scan
  EXPECT_THAT(cx.to_string(), HasSubstr("body=<3 inputs, 2 nodes, 1 output>"));
}

TEST_F(ScanGraph, EqualBodiesAreOne) {
  const GraphTensor x = cx.tensor({4, 2}), first = cx.tensor({2});
  const auto a = scan({first}, {x}, sum), b = scan({first}, {x * 2}, sum), c = scan({first}, {x}, sum);
  const auto other = scan({first}, {x}, [](auto carry, auto element) -> ScanStep {
    const GraphTensor next = carry[0] + element[0] * 2;
    return {{next}, {next}};
  });
  const auto attributes = [&](const ScanResult& r) { return cx.node(r.carry[0].node()).attributes; };
  EXPECT_EQ(attributes(a), attributes(b));
  EXPECT_EQ(attributes(a).hash(), attributes(b).hash());
  EXPECT_NE(attributes(a), attributes(other));
  cx.run_pass(CSE(), a.carry[0], b.carry[0], c.carry[0], other.carry[0]);
  EXPECT_EQ(a.carry[0].node(), c.carry[0].node());
  EXPECT_NE(a.carry[0].node(), b.carry[0].node());
}

TEST_F(ScanGraph, WithoutStepsTheCarryStays) {
  const GraphTensor x = cx.tensor({0, 2}).set(std::vector<float>{}), first = cx.tensor({2}).set({3, 4});
  auto [last, sums] = scan({first}, {x}, sum);
  last[0].retrieve();
  sums[0].retrieve();
  auto gradient = cx.run_pass(Autograd({first}, last[0] * 2))[0].retrieve();
  cx.execute();
  EXPECT_THAT(last[0].data<float>(), ElementsAre(3, 4));
  EXPECT_EQ(sums[0].dims(), (Shape{0, 2}));
  EXPECT_THAT(gradient.data<float>(), ElementsAre(2, 2));
}

TEST_F(ScanGraph, TheLengthMayBeNamed) {
  const GraphTensor x = cx.tensor({"t", 2}), first = cx.tensor({2}).set({1, 1});
  auto [last, sums] = scan({first}, {x}, sum, {.checkpoint_every = 3});
  sums[0].retrieve();
  auto gradient = cx.run_pass(Autograd({x}, (last[0] * last[0]).sum()))[0].retrieve();
  for (const int64_t length : {7, 2, 0, 6}) {
    std::vector<float> values, expected, slopes;
    float total[2] = {1, 1};
    for (int64_t i = 0; i < 2 * length; ++i) {
      values.push_back(static_cast<float>(i % 5));
      expected.push_back(total[i % 2] += values.back());
    }
    for (int64_t i = 0; i < 2 * length; ++i) slopes.push_back(2 * total[i % 2]);
    GraphTensor(x).set_dyn(values, {length, 2});
    cx.execute();
    EXPECT_EQ(sums[0].data<float>(), expected) << length;
    EXPECT_EQ(gradient.data<float>(), slopes) << length;
  }
}

/// The states of a loop that is linear in them are no part of its gradient.
TEST_F(ScanGraph, KeepsOnlyStatesThatTheGradientReads) {
  const GraphTensor x = cx.tensor({5, 2}), first = cx.tensor({2});
  auto linear = scan({first}, {x}, sum);
  auto square = scan({first}, {x}, [](auto carry, auto element) -> ScanStep {
    return {{carry[0] * carry[0] + element[0]}, {}};
  });
  (void)cx.run_pass(Autograd({first}, linear.carry[0] + square.carry[0]));
  EXPECT_EQ(cx.node(linear.carry[0].node()).outputs.size(), 2U);
  EXPECT_EQ(cx.node(square.carry[0].node()).outputs.size(), 2U) << "the state and those before each step";
}

/// A weight's gradient is one contraction over all steps; the loop back carries gradients of the state alone.
TEST_F(ScanGraph, SumsOfWeightGradientsAreTakenBehindTheLoop) {
  for (const Recurrence& r : recurrences()) {
    if (r.name != "cell") continue;
    Tensors in;
    for (const auto& sizes : r.inputs) in.push_back(cx.tensor(test::static_shape(sizes)));
    const auto result = r.make(in, as_scan, {});
    (void)cx.run_pass(Autograd(in, result.outputs[0].sum()));
    std::vector<int64_t> carries;
    for (const NodeId id : cx.nodes())
      if (cx.node(id).op == &kScan) carries.push_back(cx.node(id).attributes.get<int64_t>("carries"));
    EXPECT_THAT(carries, ElementsAre(2, 2)) << cx.to_string();
  }
}

/// A rule that replaces a node must not lose the gradient of what the node gave.
TEST_F(ScanGraph, WhatAScanGivesMayBeAParameter) {
  const GraphTensor x = cx.tensor({3}).set({1, 2, 3});
  auto [last, squares] = scan({cx.constant(1)}, {x}, [](auto carry, auto element) -> ScanStep {
    const GraphTensor next = carry[0] * element[0];
    return {{next}, {next}};
  });
  auto gradients = cx.run_pass(Autograd({squares[0], x}, (squares[0] * squares[0]).sum()));
  retrieve(gradients);
  cx.execute();
  EXPECT_THAT(gradients[0].data<float>(), ElementsAre(2, 4, 12));
  // 1, x1 x2 and x1 x2 x3 squared: 2 a + 2 a b^2 + 2 a b^2 c^2 and so on.
  EXPECT_THAT(gradients[1].data<float>(), ElementsAre(2 + 8 + 72, 4 + 36, 24));
}

/// Cumulative sums, products and maxima are scans; their own forms are shorter to compute.
TEST_F(ScanGraph, CumulativeOpsAreSpecialCases) {
  const GraphTensor x =
      cx.tensor({6, 2}, Dtype::F64).set(std::vector<double>{3, -1, 0.5, 2, 2, 2.5, -4, 1, 0.25, 7, 1, -3});
  const auto cumulative = [&](Number neutral, auto combine) {
    return scan({cx.full({2}, neutral, Dtype::F64)}, {x},
                [&](auto carry, auto element) -> ScanStep {
                  const GraphTensor next = combine(carry[0], element[0]);
                  return {{next}, {next}};
                })
        .outputs[0];
  };
  Tensors pairs{x.cumsum(0),  cumulative(0.0, [](auto a, auto b) { return a + b; }),
                x.cumprod(0), cumulative(1.0, [](auto a, auto b) { return a * b; }),
                x.cummax(0),  cumulative(-1e300, [](auto a, auto b) { return a.maximum(b); })};
  Tensors slopes;
  for (const GraphTensor& each : pairs)
    slopes.push_back(cx.run_pass(Autograd({x}, test::weighted_sum(cx, each)))[0]);
  retrieve(pairs);
  retrieve(slopes);
  cx.execute();
  for (size_t i = 0; i < pairs.size(); i += 2) {
    EXPECT_THAT(pairs[i].data<double>(), testing::Pointwise(testing::DoubleEq(), pairs[i + 1].data<double>()))
        << i;
    EXPECT_THAT(slopes[i].data<double>(),
                testing::Pointwise(testing::DoubleNear(1e-12), slopes[i + 1].data<double>()))
        << i;
  }
}

TEST_F(ScanGraph, SaysWhatABodyMayNotDo) {
  GraphTensor x = cx.tensor({4, 2}), first = cx.tensor({2});
  const auto message = [&](const ScanBody& body) {
    return scan_error([&] { (void)scan({first}, {x}, body); });
  };
  const size_t before = cx.node_count();
  EXPECT_THAT(
      message([](auto carry, auto) -> ScanStep { return {{carry[0].sum()}, {}}; }),
      HasSubstr("[scan] carry 0 goes into a step as f32[2] and comes out as f32[]; a carry keeps its dims "
                "from step to step (made at scan_test.cpp:"));
  EXPECT_THAT(
      message([](auto carry, auto) -> ScanStep { return {{carry[0].cast(Dtype::F64)}, {}}; }),
      HasSubstr("[scan] carry 0 goes into a step as f32[2] and comes out as f64[2]; cast() it in the body"));
  EXPECT_THAT(message([](auto, auto element) -> ScanStep { return {{}, {element[0]}}; }),
              HasSubstr("[scan] a step takes 1 carries and gives 0; give the next value of each"));
  EXPECT_THAT(
      message([](auto carry, auto) -> ScanStep { return {{carry[0].dropout(0.5)}, {}}; }),
      HasSubstr("[scan] the body calls 'dropout', whose value differs from run to run; draw [T, ...] before "
                "the scan and give it as a sequence"));
  EXPECT_THAT(message([](auto carry, auto) -> ScanStep { return {{carry[0].print("state")}, {}}; }),
              HasSubstr("[scan] the body calls 'print', which acts in each run"));
  EXPECT_THAT(message([](auto carry, auto) -> ScanStep {
                GraphTensor next = carry[0] * 2;
                return {{next.retrieve()}, {}};
              }),
              HasSubstr("[scan] the body marks a value with retrieve() or keep()"));
  EXPECT_THAT(message([&](auto carry, auto) -> ScanStep {
                first.assign(carry[0] * 2);
                return {{carry[0]}, {}};
              }),
              HasSubstr("[scan] the body assigns a state"));
  EXPECT_THAT(message([](auto, auto) -> ScanStep { throw Error("of the body"); }), HasSubstr("of the body"));
  // But for what reads no stand-in: constants, and the random numbers of a dropout.
  EXPECT_LE(cx.node_count(), before + 14) << "what was recorded is gone: " << cx.to_string();
  EXPECT_EQ(count(kInput), 2U);
}

TEST_F(ScanGraph, SaysWhatItCannotStepThrough) {
  const GraphTensor x = cx.tensor({4, 2}), y = cx.tensor({3}), first = cx.tensor({2});
  const auto message = [&](Tensors carry, Tensors sequences, ScanOptions options = {}) {
    return scan_error([&] { (void)scan(std::move(carry), std::move(sequences), sum, options); });
  };
  EXPECT_THAT(message({}, {}), HasSubstr("[scan] there is neither a carry nor a sequence"));
  EXPECT_THAT(message({first}, {}), HasSubstr("[scan] there is no sequence to say how many steps there are"));
  EXPECT_THAT(
      message({first}, {x, y}),
      HasSubstr("[scan] sequence 1 is f32[3], and the scan has 4 steps; give sequences of one length"));
  EXPECT_THAT(message({first}, {cx.constant(1)}), HasSubstr("[scan] sequence 0 is f32[] and has no axis"));
  EXPECT_THAT(message({first}, {x}, {.checkpoint_every = 0}), HasSubstr("[scan] checkpoint_every is 0"));
  Graph other;
  EXPECT_THAT(message({first}, {other.tensor({4, 2})}),
              HasSubstr("[scan] the tensors belong to different graphs"));
}

}  // namespace
}  // namespace luminal
