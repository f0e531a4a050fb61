#include "luminal/scan.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <stop_token>
#include <thread>

#include "luminal/autograd.h"
#include "luminal/cancel.h"
#include "luminal/compile_report.h"
#include "support/deferred_device.h"
#include "support/recurrences.h"

namespace luminal::search {
namespace {

using test::Recurrence;
using test::recurrences;
using test::Tensors;
using testing::ElementsAre;
using testing::HasSubstr;

struct LoopValues {
  std::vector<float> all;                     ///< carries and outputs
  std::vector<std::vector<float>> gradients;  ///< of a weighted sum of them
  std::string report;
};

LoopValues run_recurrence(const Recurrence& r, const std::string& device, const CompilationMode& mode,
                          const test::Loop& loop, const ScanOptions& options) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> draw(-1, 1);
  Graph cx;
  cx.set_device(device);
  Tensors in;
  for (const auto& sizes : r.inputs) {
    in.push_back(cx.tensor(Shape(sizes.begin(), sizes.end())));
    std::vector<float> values(static_cast<size_t>(element_count(in.back().dims()).constant().value()));
    for (float& value : values) value = draw(random);
    in.back().set(values);
  }
  GraphTensor all = test::in_a_row(r.make(in, loop, options), Dtype::F32);
  const GraphTensor loss = (all * (cx.arange(all.dim(0)).cast(Dtype::F32) * 0.7).cos()).sum();
  std::vector<GraphTensor> gradients = cx.run_pass(Autograd(in, loss), all);
  retrieve(gradients);
  all.retrieve();
  auto compiled = cx.compile(mode);
  compiled();
  compiled();  // what a run leaves behind does not disturb the next
  LoopValues values{all.data<float>(), {}, compiled.report()};
  for (const GraphTensor& gradient : gradients) values.gradients.push_back(gradient.data<float>());
  return values;
}

void expect_near(const std::vector<float>& got, const std::vector<float>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], 2e-5F * (1 + std::abs(expected[i]))) << "element " << i;
}

class CompiledLoop : public testing::TestWithParam<Recurrence> {
 protected:
  static void expect_steps(const CompilationMode& mode, const ScanOptions& options,
                           const std::string& device = "cpu") {
    const LoopValues loop = run_recurrence(GetParam(), device, mode, test::as_scan, options);
    const LoopValues steps = run_recurrence(GetParam(), "reference", Fast{}, test::step_by_step, options);
    expect_near(loop.all, steps.all);
    ASSERT_EQ(loop.gradients.size(), steps.gradients.size());
    for (size_t i = 0; i < loop.gradients.size(); ++i) {
      SCOPED_TRACE("input " + std::to_string(i));
      expect_near(loop.gradients[i], steps.gradients[i]);
    }
    EXPECT_THAT(loop.report, HasSubstr("ops_outside_plan: 0"));
  }
};
INSTANTIATE_TEST_SUITE_P(Scan, CompiledLoop, testing::ValuesIn(recurrences()),
                         [](const auto& which) { return which.param.name; });

TEST_P(CompiledLoop, ComputesWhatItsStepsComputeOneByOne) {
  for (const bool reverse : {false, true}) expect_steps(Fast{}, {.reverse = reverse});
}
TEST_P(CompiledLoop, InSegments) { expect_steps(Fast{}, {.checkpoint_every = 2}); }
/// Memory that the host cannot follow, work that is done late: nothing of a step may go through the host.
TEST_P(CompiledLoop, OnADeviceOfItsOwnMemory) {
  test::add_deferred_device();
  expect_steps(Fast{}, {}, "deferred");
  expect_steps(Fast{}, {.reverse = true, .checkpoint_every = 2}, "deferred");
}
TEST_P(CompiledLoop, WhenItIsTuned) { expect_steps(TimeBudget{std::chrono::milliseconds(300)}, {}); }

class CompiledScan : public testing::Test {
 protected:
  void SetUp() override { cx.set_device("cpu"); }
  Graph cx;
};

/// Sizes of a step are named, and so is the number of steps.
TEST_F(CompiledScan, TakesNamedSizes) {
  const GraphTensor x = cx.tensor({"t", "n"});
  auto [last, all] = scan({cx.zeros({"n"})}, {x}, [](auto carry, auto element) -> ScanStep {
    const GraphTensor next = carry[0] + element[0] - element[0].mean(0);
    return {{next}, {next}};
  });
  last[0].retrieve();
  all[0].retrieve();
  auto gradient = cx.run_pass(Autograd({x}, (last[0] * last[0]).sum()))[0].retrieve();
  auto compiled = cx.compile(Fast{});
  for (const auto& [steps, width] :
       std::vector<std::pair<int64_t, int64_t>>{{3, 4}, {9, 5}, {0, 5}, {1, 40}, {3, 4}}) {
    std::vector<float> values, expected, state(static_cast<size_t>(width), 0.0F);
    for (int64_t t = 0; t < steps; ++t) {
      float mean = 0;
      for (int64_t i = 0; i < width; ++i)
        mean += (values.emplace_back() = static_cast<float>((t * 7 + i * i) % 5));
      mean /= static_cast<float>(width);
      for (int64_t i = 0; i < width; ++i)
        expected.push_back(state[static_cast<size_t>(i)] +=
                           values[static_cast<size_t>(t * width + i)] - mean);
    }
    GraphTensor(x).set_dyn(values, {steps, width});
    compiled();
    EXPECT_THAT(all[0].data<float>(), testing::Pointwise(testing::FloatNear(1e-4F), expected));
    EXPECT_THAT(last[0].data<float>(), testing::Pointwise(testing::FloatNear(1e-4F), state));
    const std::vector<float> slopes = gradient.data<float>();
    for (size_t i = 0; i < slopes.size(); ++i)  // the state's mean is 0, so that the mean's gradient is 0
      EXPECT_NEAR(slopes[i], 2 * state[i % static_cast<size_t>(width)], 1e-3F);
  }
}

/// Launch by launch, keeping all values, looking for what is not finite.
TEST_F(CompiledScan, EveryWayToRunGivesTheSame) {
  const GraphTensor x = cx.tensor({5, 2}).set({1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  auto [last, all] = scan({x.sum(0)}, {x}, [](auto carry, auto element) -> ScanStep {
    const GraphTensor next = (carry[0] * element[0]).sqrt();
    return {{next}, {next + 1}};
  });
  GraphTensor y = (all[0] * 2).retrieve();
  cx.execute();
  const std::vector<float> expected = y.data<float>();
  EXPECT_NEAR(expected[0], 2 * (std::sqrt(25.0F) + 1), 1e-5F);
  const auto trace = cx.execute_debug();
  EXPECT_EQ(std::ranges::count(trace, "scan", &TraceEntry::op), 1);
  EXPECT_EQ(y.data<float>(), expected);
  cx.execute_no_delete();
  EXPECT_EQ(y.data<float>(), expected);
  EXPECT_EQ(last[0].data<float>().size(), 2U);
}

/// A plan's report counts the kernels of a body as often as steps run them.
TEST_F(CompiledScan, ReportsTheKernelsOfBodies) {
  const GraphTensor x = cx.tensor({50, 2, 8}), w = cx.tensor({8, 8});
  (void)scan({cx.zeros({2, 8})}, {x},
             [&](auto carry, auto element) -> ScanStep { return {{carry[0].matmul(w) + element[0]}, {}}; })
      .carry[0]
      .retrieve();
  const CompileReport report = cx.compile(Fast{}).details();
  EXPECT_THAT(report.kernels, testing::Contains(testing::Field(&KernelReport::launches, 50)));
  double body_us = 0;
  for (const KernelReport& kernel : report.kernels)
    if (kernel.launches == 50) body_us += 50 * kernel.predicted_us;
  EXPECT_GT(body_us, 0);
  EXPECT_GE(report.predicted_us, 0.99 * body_us);
}

/// Ops with an evaluation of their own run inside a step too: here each step chooses the row of the next one.
class SteppingGather : public CompiledScan, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Scan, SteppingGather, testing::Values("cpu", "deferred"));
TEST_P(SteppingGather, ChoosesTheRowOfTheNextStep) {
  test::add_deferred_device();
  cx.set_device(GetParam());
  const GraphTensor table = cx.tensor({4}, Dtype::I32).set({2, 3, 1, 0});
  const GraphTensor start = cx.tensor({1}, Dtype::I32).set({0});
  auto [last, visited] = scan({start}, {},
                              [&](auto carry, auto) -> ScanStep {
                                const GraphTensor next = table.index_select(0, carry[0]);
                                return {{next}, {next * 10}};
                              },
                              {.length = 5});
  visited[0].retrieve();
  last[0].retrieve();
  auto compiled = cx.compile(Fast{});
  for (int run = 0; run < 2; ++run) {
    compiled();
    EXPECT_THAT(visited[0].data<int32_t>(), ElementsAre(20, 10, 30, 0, 20));
    EXPECT_THAT(last[0].data<int32_t>(), ElementsAre(2));
  }
}

TEST_F(CompiledScan, AFaultInAStepNamesWhatMadeIt) {
  const GraphTensor table = cx.tensor({4}, Dtype::I32).set({1, 2, 3, 9});
  auto [last, none] = scan(
      {cx.tensor({1}, Dtype::I32).set({0})}, {},
      [&](auto carry, auto) -> ScanStep { return {{table.index_select(0, carry[0])}, {}}; }, {.length = 5});
  last[0].retrieve();
  try {
    cx.execute();
    FAIL() << "index 9 of 4";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("index_select"));
    EXPECT_THAT(error.what(), HasSubstr("(made at scan_test.cpp:"));
  }
}

/// A break in a body is its input by another name, also where that is the carry, an element, or leaves the body.
TEST_F(CompiledScan, BreaksInABodyAreWhatTheyBreak) {
  const GraphTensor x = cx.tensor({2, 3}).set({1, 2, 3, 4, 5, 6}), start = cx.tensor({3}).set({5, 6, 7});
  auto [last, each] = scan({start, cx.zeros({3})}, {x}, [](auto carry, auto element) -> ScanStep {
    const GraphTensor kept = carry[0].graph_break(), sum = (carry[1] + element[0]).graph_break();
    return {{kept, sum}, {element[0].graph_break(), kept, (sum * 2).graph_break()}};
  });
  for (GraphTensor& state : last) state.retrieve();
  for (GraphTensor& output : each) output.retrieve();
  auto compiled = cx.compile(Fast{});
  for (int run = 0; run < 2; ++run) {
    compiled();
    EXPECT_THAT(last[0].data<float>(), ElementsAre(5, 6, 7));
    EXPECT_THAT(last[1].data<float>(), ElementsAre(5, 7, 9));
    EXPECT_THAT(each[0].data<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_THAT(each[1].data<float>(), ElementsAre(5, 6, 7, 5, 6, 7));
    EXPECT_THAT(each[2].data<float>(), ElementsAre(2, 4, 6, 10, 14, 18));
  }
}

/// A state that a loop moves on: the next run begins where this one ended.
TEST_F(CompiledScan, MayMoveAStateOn) {
  const GraphTensor state = cx.tensor({2}).set({1, 10}), x = cx.tensor({3, 2}).set({1, 2, 3, 4, 5, 6});
  state.assign(scan({state}, {x}, [](auto carry, auto element) -> ScanStep {
                 return {{carry[0] + element[0]}, {}};
               }).carry[0]);
  cx.execute();
  EXPECT_THAT(state.data<float>(), ElementsAre(10, 22));
  cx.execute();
  EXPECT_THAT(state.data<float>(), ElementsAre(19, 34));
}

/// Loops with equal bodies share what was searched and compiled.
TEST_F(CompiledScan, EqualBodiesAreCompiledOnce) {
  const GraphTensor w = cx.tensor({8, 8}).set(std::vector<float>(64, 0.125F));
  GraphTensor x = cx.tensor({6, 2, 8}).set(std::vector<float>(96, 1.0F));
  for (int layer = 0; layer < 3; ++layer)
    x = scan({cx.zeros({2, 8})}, {x}, [&](auto carry, auto element) -> ScanStep {
          const GraphTensor next = (carry[0].matmul(w) + element[0]).tanh();
          return {{next}, {next}};
        }).outputs[0];
  x.retrieve();
  auto compiled = cx.compile(Fast{});
  compiled();
  EXPECT_THAT(compiled.report(), HasSubstr("loops: 3 of 1 body"));
  Graph one;
  one.set_device("reference");
  EXPECT_EQ(x.data<float>().size(), 96U);
}

TEST_F(CompiledScan, StopsBetweenSteps) {
  std::stop_source source;
  auto [last, none] =
      scan({cx.zeros({4})}, {}, [](auto carry, auto) -> ScanStep { return {{carry[0] + 1}, {}}; },
           {.length = int64_t{1} << 40});
  last[0].retrieve();
  auto compiled = cx.compile(Fast{});
  cx.set_stop_token(source.get_token());
  std::jthread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    source.request_stop();
  });
  EXPECT_THROW(compiled(), Cancelled);
}

}  // namespace
}  // namespace luminal::search
