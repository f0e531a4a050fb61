#include "runtime/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "luminal/error.h"
#include "luminal/ops.h"
#include "support/files.h"
#include "unit/runtime/fakes.h"

namespace luminal::runtime::test {
namespace {

using luminal::test::error_of;
using testing::ElementsAre;
using testing::HasSubstr;

const auto kSum = [](const int64_t* x) { return x[0] + x[1]; };
const auto kDouble = [](const int64_t* x) { return 2 * x[0]; };

std::vector<int64_t> counting(int64_t n) {
  std::vector<int64_t> values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) values[static_cast<size_t>(i)] = i;
  return values;
}

TEST(Executor, RunsLaunchesInOrderAndHandsResultsOver) {
  Graph cx;
  const GraphTensor x = cx.tensor({1000}, Dtype::I64).set(counting(1000));
  GraphTensor y = (x + x).retrieve();
  use_plans(cx, [&](Graph&) {
    PlanBuilder b;
    const TensorIndex in = b.input(x), one = b.computed({1000}), two = b.computed({1000});
    b.launch(elementwise(1, kIncrement, 1000), {in}, {one});
    b.launch(elementwise(2, kSum, 1000), {in, one}, {two});
    b.result(y, two);
    return b.plan;
  });
  cx.execute();
  std::vector<int64_t> expected = counting(1000);
  for (int64_t& v : expected) v = 2 * v + 1;
  EXPECT_EQ(y.data<int64_t>(), expected);
}

// The result's memory is used again unless the program holds it.
TEST(Executor, ResultsThatAreHeldStayAsTheyWere) {
  Graph cx;
  GraphTensor x = cx.tensor({2}, Dtype::I64).set(std::vector<int64_t>{1, 2});
  const GraphTensor y = (x + x).retrieve();
  use_plans(cx, [&](Graph&) {
    PlanBuilder b;
    const TensorIndex in = b.input(x), out = b.computed({2});
    b.launch(elementwise(1, kDouble, 2), {in}, {out});
    b.result(y, out);
    return b.plan;
  });
  cx.execute();
  const Value value = y.edge().source;
  const std::shared_ptr<const TensorData> held = cx.value(value);
  x.set(std::vector<int64_t>{3, 4});
  cx.execute();
  EXPECT_THAT(held->as<int64_t>(), ElementsAre(2, 4));
  EXPECT_THAT(cx.value(value)->as<int64_t>(), ElementsAre(6, 8));
  const void* second = cx.value(value)->bytes.data();
  cx.execute();
  EXPECT_EQ(cx.value(value)->bytes.data(), second);
}

Plan counter_plan(const GraphTensor& state, const GraphTensor& shown, bool in_place) {
  PlanBuilder b;
  const TensorIndex before = b.input(state), twice = b.computed({4}), after = b.computed({4});
  b.launch(elementwise(1, kDouble, 4), {before}, {twice});
  b.launch(elementwise(1, kIncrement, 4), {before}, {after},
           in_place ? std::vector<InPlace>{{0, 0}} : std::vector<InPlace>{});
  b.result(shown, twice);
  b.update(state, after);
  return b.plan;
}

class States : public testing::TestWithParam<bool> {};

TEST_P(States, AdvanceByEachRunAndAreThereOnDemand) {
  Graph cx;
  GraphTensor state = cx.tensor({4}, Dtype::I64).set(std::vector<int64_t>{0, 10, 20, 30});
  const GraphTensor shown = (state * 2).retrieve();
  state.assign(state + 1);
  use_plans(cx, [&](Graph&) { return counter_plan(state, shown, GetParam()); });
  for (int run = 1; run <= 3; ++run) {
    cx.execute();
    EXPECT_THAT(state.data<int64_t>(), ElementsAre(run, 10 + run, 20 + run, 30 + run));
    EXPECT_EQ(shown.data<int64_t>()[1], 2 * (9 + run));
  }
  const auto held = cx.value(state.edge().source);
  cx.execute();
  EXPECT_THAT(held->as<int64_t>(), ElementsAre(3, 13, 23, 33));  // a reader's copy does not change
  EXPECT_THAT(state.data<int64_t>(), ElementsAre(4, 14, 24, 34));
  state.set(std::vector<int64_t>{7, 7, 7, 7});
  cx.execute();
  EXPECT_THAT(state.data<int64_t>(), ElementsAre(8, 8, 8, 8));
  EXPECT_EQ(shown.data<int64_t>()[0], 14);
}

TEST_P(States, AreSeenByEveryExecutableOfTheGraph) {
  Graph cx;
  GraphTensor state = cx.tensor({4}, Dtype::I64).set(std::vector<int64_t>{0, 0, 0, 0});
  const GraphTensor shown = (state * 2).retrieve();
  state.assign(state + 1);
  use_plans(cx, [&](Graph&) { return counter_plan(state, shown, GetParam()); });
  Compiled one = cx.compile(Fast{}), other = cx.compile(Fast{});
  cx.set_device("reference");
  Compiled third = cx.compile(Fast{});
  for (int i = 0; i < 3; ++i) {
    one();
    other();
    third();
  }
  EXPECT_THAT(state.data<int64_t>(), ElementsAre(9, 9, 9, 9));
  EXPECT_THAT(shown.data<int64_t>(), ElementsAre(16, 16, 16, 16));
}
INSTANTIATE_TEST_SUITE_P(InPlaceOrSwapped, States, testing::Bool());

TEST(Executor, UpdatesAStateWhereItLies) {
  Graph cx;
  GraphTensor state = cx.tensor({4}, Dtype::I64).set(std::vector<int64_t>{1, 2, 3, 4});
  state.assign(state + 1);
  const void* memory = cx.value(state.edge().source)->bytes.data();
  PlanBuilder b;
  const TensorIndex before = b.input(state), after = b.computed({4});
  b.launch(elementwise(1, kIncrement, 4), {before}, {after}, {{0, 0}});
  b.update(state, after);
  Executor executor(backends::make_null_device(), b.plan);
  executor.run(cx);
  EXPECT_EQ(cx.value(state.edge().source)->bytes.data(), memory);
  EXPECT_THAT(state.data<int64_t>(), ElementsAre(2, 3, 4, 5));
}

// a, b = b, a and both = a: updates happen all at once and may share one buffer.
TEST(Executor, StatesExchangeTheirValues) {
  Graph cx;
  GraphTensor a = cx.tensor({2}, Dtype::I64).set(std::vector<int64_t>{1, 2}),
              b = cx.tensor({2}, Dtype::I64).set(std::vector<int64_t>{3, 4}),
              c = cx.tensor({2}, Dtype::I64).set(std::vector<int64_t>{0, 0});
  PlanBuilder build;
  const TensorIndex x = build.input(a), y = build.input(b);
  build.update(a, y);
  build.update(b, x);
  build.update(c, x);
  Executor executor(backends::make_null_device(), build.plan);
  executor.run(cx);
  EXPECT_THAT(a.data<int64_t>(), ElementsAre(3, 4));
  EXPECT_THAT(b.data<int64_t>(), ElementsAre(1, 2));
  EXPECT_THAT(c.data<int64_t>(), ElementsAre(1, 2));
  executor.run(cx);
  EXPECT_THAT(a.data<int64_t>(), ElementsAre(1, 2));
  EXPECT_THAT(b.data<int64_t>(), ElementsAre(3, 4));
  EXPECT_THAT(c.data<int64_t>(), ElementsAre(3, 4));
}

TEST(Executor, ConstantsMayBeResultsAndNextValues) {
  Graph cx;
  GraphTensor state = cx.tensor({2}, Dtype::I64).set(std::vector<int64_t>{5, 5});
  const GraphTensor shown = (state + 1).retrieve();
  PlanBuilder b;
  const TensorIndex zero = b.constant(TensorData::of<int64_t>({2}, std::vector<int64_t>{0, 0}));
  const TensorIndex in = b.input(state), next = b.computed({2});
  b.launch(elementwise(2, kSum, 2), {in, zero}, {next}, {{0, 0}, {0, 1}});
  b.result(shown, zero);
  b.update(state, zero);
  Executor executor(backends::make_null_device(), b.plan);
  for (int i = 0; i < 2; ++i) executor.run(cx);
  EXPECT_THAT(state.data<int64_t>(), ElementsAre(0, 0));
  EXPECT_THAT(shown.data<int64_t>(), ElementsAre(0, 0));
}

TEST(Executor, DonatedInputsAreGoneAfterwards) {
  Graph cx;
  GraphTensor x = cx.tensor({2}, Dtype::I64).set(std::vector<int64_t>{1, 2});
  const GraphTensor y = (x + 1).retrieve();
  PlanBuilder b;
  const TensorIndex in = b.input(x), out = b.computed({2});
  b.plan.tensors[0].donated = true;
  b.launch(elementwise(1, kIncrement, 2), {in}, {out}, {{0, 0}});
  b.result(y, out);
  const void* memory = cx.value(x.edge().source)->bytes.data();
  Executor executor(backends::make_null_device(), b.plan);
  executor.run(cx);
  EXPECT_THAT(y.data<int64_t>(), ElementsAre(2, 3));
  EXPECT_EQ(cx.value(y.edge().source)->bytes.data(), memory);
  EXPECT_EQ(cx.value(x.edge().source), nullptr);
}

// --- Host ops

const OpDef kAddStep = {
    .name = "test_add_step",
    .arity = 1,
    .infer = [](std::span<const TensorType> in, const Attributes&) { return std::vector<TensorType>{in[0]}; },
    .evaluate =
        [](EvalContext& context) {
          const auto from = context.inputs[0]->as<int64_t>();
          for (size_t i = 0; i < from.size(); ++i) {
            if (from[i] < 0) throw Error("[test_add_step] negative");
            context.outputs[0].as<int64_t>()[i] += from[i] + static_cast<int64_t>(context.step);
          }
        }};

TEST(Executor, HostOpsSeeTheRunsNumberAndZeroedOutputs) {
  Graph cx;
  GraphTensor x = cx.tensor({3}, Dtype::I64).set(std::vector<int64_t>{1, 2, 3});
  const GraphTensor y = (x + 1).retrieve();
  use_plans(cx, [&](Graph&) {
    PlanBuilder b;
    const TensorIndex in = b.input(x), one = b.computed({3}), two = b.computed({3}), three = b.computed({3});
    b.launch(elementwise(1, kDouble, 3), {in}, {one});
    b.host(kAddStep, {one}, {two});
    b.launch(elementwise(1, kIncrement, 3), {two}, {three});
    b.result(y, three);
    return b.plan;
  });
  for (int64_t run = 0; run < 3; ++run) {
    cx.execute();
    EXPECT_THAT(y.data<int64_t>(), ElementsAre(3 + run, 5 + run, 7 + run));
  }
}

TEST(Executor, AFailedRunLeavesStatesAsTheyWere) {
  Graph cx;
  GraphTensor x = cx.tensor({2}, Dtype::I64).set(std::vector<int64_t>{-1, 2});
  GraphTensor state = cx.tensor({2}, Dtype::I64).set(std::vector<int64_t>{1, 1});
  const GraphTensor y = (x + 1).retrieve();
  PlanBuilder b;
  const TensorIndex in = b.input(x), before = b.input(state), after = b.computed({2}), out = b.computed({2}),
                    late = b.computed({2}), second = b.computed({2});
  b.launch(elementwise(1, kIncrement, 2), {before}, {after}, {{0, 0}});  // before the op that fails
  b.host(kAddStep, {in}, {out});
  b.launch(elementwise(2, kSum, 2), {out, after}, {late});
  b.launch(elementwise(1, kDouble, 2), {late}, {second});
  b.result(y, second);
  b.update(state, after);
  Executor executor(backends::make_null_device(), b.plan);
  EXPECT_EQ(error_of<Error>([&] { executor.run(cx); }), "[test_add_step] negative");
  EXPECT_THAT(state.data<int64_t>(), ElementsAre(1, 1));
  EXPECT_THAT(x.data<int64_t>(), ElementsAre(-1, 2));
  x.set(std::vector<int64_t>{5, 6});
  executor.run(cx);
  EXPECT_THAT(state.data<int64_t>(), ElementsAre(2, 2));
  EXPECT_THAT(y.data<int64_t>(), ElementsAre(14, 16));
}

// --- Sizes

TEST(Executor, RunsAtAnySizeOfItsBucket) {
  Graph cx;
  GraphTensor x = cx.tensor({"n"}, Dtype::I64);
  const GraphTensor y = (x + 1).retrieve();
  PlanBuilder b;
  const TensorIndex in = b.input(x), one = b.computed({"n"}), two = b.computed({"n"});
  b.launch(elementwise(1, kDouble, "n"), {in}, {one});
  b.launch(elementwise(1, kIncrement, "n"), {one}, {two});
  b.result(y, two);
  b.plan.bucket.facts["n"] = {.min = 0, .max = 4096, .multiple_of = 2};
  Executor executor(backends::make_null_device(2), b.plan);
  EXPECT_GE(executor.arena_bytes({{"n", 1000}}), 8000);
  EXPECT_LT(executor.arena_bytes({{"n", 1000}}), 8000 + 4096);
  for (const int64_t n : {2, 1000, 0, 64, 1000, 4096, 2}) {
    x.set(counting(n));
    executor.run(cx);
    std::vector<int64_t> expected = counting(n);
    for (int64_t& v : expected) v = 2 * v + 1;
    ASSERT_EQ(y.data<int64_t>(), expected);
  }
  x.set(counting(3));
  EXPECT_EQ(error_of<Error>([&] { executor.run(cx); }),
            "[execute] dim 'n' is 3, and this plan was compiled for multiples of 2 in [0, 4096]; compile the "
            "graph again");
}

/// The plans of several buckets: what one left in the arena the next one writes over.
TEST(Executor, TakesTurnsWithOthersInOneArena) {
  Graph cx;
  GraphTensor x = cx.tensor({"n"}, Dtype::I64);
  const GraphTensor y = (x + 1).retrieve();
  const auto device = backends::make_null_device(2);
  const auto arena = std::make_shared<backends::Buffer>(*device);
  std::vector<std::unique_ptr<Executor>> executors;
  for (const int64_t top : {64, 4096, 512}) {
    PlanBuilder b;
    const TensorIndex in = b.input(x), one = b.computed({"n"}), two = b.computed({"n"});
    b.launch(elementwise(1, kDouble, "n"), {in}, {one});
    b.launch(elementwise(1, kIncrement, "n"), {one}, {two});
    b.result(y, two);
    b.plan.bucket.facts["n"] = {.min = 0, .max = top, .multiple_of = 1};
    executors.push_back(std::make_unique<Executor>(device, b.plan, arena));
  }
  const auto run = [&](size_t plan, int64_t n) {
    x.set(counting(n));
    executors[plan]->run(cx);
    std::vector<int64_t> expected = counting(n);
    for (int64_t& v : expected) v = 2 * v + 1;
    ASSERT_EQ(y.data<int64_t>(), expected) << plan;
  };
  for (const size_t plan : {0U, 1U, 2U, 0U, 2U, 1U, 0U}) run(plan, 60);
  run(1, 4000);
  EXPECT_EQ(arena->bytes(), executors[1]->arena_bytes({{"n", 4096}}))
      << "of the largest, not of all together";
  for (const size_t plan : {0U, 2U, 1U}) run(plan, 50);
}

TEST(Executor, TracesAndDescribesItsLaunches) {
  Graph cx;
  GraphTensor x = cx.tensor({3}, Dtype::I64).set(std::vector<int64_t>{1, 2, 3});
  const GraphTensor y = (x + 1).retrieve();
  PlanBuilder b;
  const TensorIndex in = b.input(x), one = b.computed({3}), two = b.computed({3});
  b.launch(elementwise(1, kDouble, 3), {in}, {one});
  b.launch(elementwise(2, kSum, 3), {in, one}, {two});
  b.result(y, two);
  Executor executor(backends::make_null_device(), b.plan);
  std::vector<TraceEntry> trace;
  executor.run(cx, &trace);
  ASSERT_EQ(trace.size(), 2U);
  EXPECT_EQ(trace[1].op, "kernel1");
  EXPECT_EQ(trace[1].shapes, "i64[3] i64[3] -> i64[3]");
  EXPECT_GT(trace[1].time_us, 0);
  EXPECT_THAT(y.data<int64_t>(), ElementsAre(3, 6, 9));
  EXPECT_EQ(executor.plan().to_string(),
            "plan 0000000000000000\n"
            "  input %0 i64[3] = #0\n"
            "  kernel0(%0 i64[3]) -> %1 i64[3]\n"
            "  kernel1(%0 i64[3], %1 i64[3]) -> %2 i64[3]\n"
            "  result #2 = %2\n");
}

TEST(Executor, RefusesPlansThatContradictThemselves) {
  const auto refuses = [](const std::function<void(PlanBuilder&)>& make, const std::string& part) {
    PlanBuilder b;
    make(b);
    EXPECT_THAT(error_of<InternalError>([&] { Executor(backends::make_null_device(), b.plan); }),
                HasSubstr(part));
  };
  refuses(
      [](PlanBuilder& b) {
        const TensorIndex never = b.computed({2}), out = b.computed({2});
        b.launch(elementwise(1, kDouble, 2), {never}, {out});
      },
      "reads tensor 0 before it is written");
  refuses(
      [](PlanBuilder& b) {
        const TensorIndex constant = b.constant(TensorData(Dtype::I64, {2}));
        b.launch(elementwise(1, kDouble, 2), {constant}, {constant});
      },
      "writes tensor 0, which is given or written already");
  refuses([](PlanBuilder& b) { b.launch(elementwise(0, kDouble, 2), {}, {3}); }, "tensor 3 of 0");
  refuses([](PlanBuilder& b) { b.plan.launches.push_back({.name = "empty"}); }, "launch 'empty'");
}

}  // namespace
}  // namespace luminal::runtime::test
