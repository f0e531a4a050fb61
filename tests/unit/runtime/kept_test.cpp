#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <map>

#include "luminal/ops.h"
#include "runtime/plan_runner.h"
#include "runtime/prepared_weights.h"
#include "unit/runtime/fakes.h"

// What kernels prepare of weights: made before the first run, kept, and made anew when a weight has other data.
namespace luminal::runtime::test {
namespace {

constexpr int64_t kSize = 100;

/// out[i] = 10 * w[i] + x[i] of inputs w and x, where the first term is prepared. Counts how often it is.
std::shared_ptr<FakeKernel> ten_times_and(std::atomic<int>& prepared, uint64_t preparation = 0,
                                          std::vector<int> spent = {}) {
  const auto prepare = [&prepared](const TaskView& view, int64_t) {
    ++prepared;
    for (int64_t i = 0; i < view.n; ++i) view.prepared()[i] = 10 * view.buffer(0)[i];
  };
  const auto add = [](const TaskView& view, int64_t) {
    for (int64_t i = 0; i < view.n; ++i) view.buffer(2)[i] = view.prepared()[i] + view.buffer(1)[i];
  };
  const auto one = [](int64_t) { return int64_t{1}; };
  auto kernel =
      std::make_shared<FakeKernel>(std::vector<FakeKernel::Stage>{{one, prepare}, {one, add}}, kSize);
  kernel->with_preparation(1, kSize * 8, preparation, std::move(spent));
  return kernel;
}

std::vector<int64_t> count_from(int64_t first) {
  std::vector<int64_t> values(kSize);
  for (int64_t i = 0; i < kSize; ++i) values[static_cast<size_t>(i)] = first + i;
  return values;
}

class Kept : public ::testing::Test {
 protected:
  Kept() {
    w.set(count_from(1));
    x.set(count_from(0));
    const TensorIndex weight = plan.input(w), other = plan.input(x), sum = plan.computed({kSize});
    plan.launch(ten_times_and(prepared), {weight, other}, {sum}).kernel->frozen = {0};
    result = (w * 10 + x).retrieve();
    plan.result(result, sum);
  }
  /// The last element of the result.
  int64_t run(Executor& executor) {
    executor.run(cx);
    return cx.value(result.edge().source)->as<int64_t>().back();
  }

  Graph cx;
  GraphTensor w = cx.tensor({kSize}, Dtype::I64), x = cx.tensor({kSize}, Dtype::I64), result;
  PlanBuilder plan;
  std::atomic<int> prepared{0};
  std::shared_ptr<backends::Device> device = backends::make_null_device();
};

TEST_F(Kept, IsMadeOnceForAllRuns) {
  Executor executor(device, plan.plan);
  EXPECT_EQ(prepared, 0);
  for (int64_t run_number = 0; run_number < 3; ++run_number) {
    x.set(count_from(run_number));  // no weight
    EXPECT_EQ(run(executor), 10 * 100 + run_number + 99);
    EXPECT_EQ(prepared, 1);
  }
  const MemoryUse memory = executor.memory({});
  EXPECT_EQ(memory.kept_bytes, backends::aligned(kSize * 8));
  plan.plan.launches[0].kernel->frozen.clear();
  EXPECT_EQ(Executor(device, plan.plan).memory({}).arena_bytes - memory.arena_bytes, memory.kept_bytes)
      << "it lies in the arena unless it is kept";
}

TEST_F(Kept, IsMadeAnewForOtherData) {
  Executor executor(device, plan.plan);
  EXPECT_EQ(run(executor), 1099);
  w.set(count_from(2));
  EXPECT_EQ(run(executor), 1109);
  EXPECT_EQ(prepared, 2);
  w.set(count_from(2));  // equal data: nobody compares them
  EXPECT_EQ(run(executor), 1109);
  EXPECT_EQ(prepared, 3);
  GraphTensor other = cx.tensor({kSize}, Dtype::I64).set(count_from(3));
  cx.swap_tensors(w, other);
  EXPECT_EQ(run(executor), 1119);
  EXPECT_EQ(prepared, 4);
  w.set_lazily([] { return TensorData::of<int64_t>({kSize}, count_from(4)); });
  EXPECT_EQ(run(executor), 1129);
  EXPECT_EQ(run(executor), 1129);
  EXPECT_EQ(prepared, 5);
  cx.swap_tensors(w, other);
  EXPECT_EQ(run(executor), 1109);
}

/// The same graph's values may be written by other plans: in place, so that they stay where they are.
TEST_F(Kept, IsMadeAnewWhenAnotherPlanWroteTheWeight) {
  Executor executor(device, plan.plan);
  EXPECT_EQ(run(executor), 1099);
  PlanBuilder step;
  const TensorIndex weight = step.input(w), next = step.computed({kSize});
  step.launch(elementwise(1, kIncrement, kSize), {weight}, {next}, {{.output = 0, .input = 0}});
  step.update(w, next);
  Executor training(device, step.plan);
  const void* before = cx.value(w.edge().source)->bytes.data();
  training.run(cx);
  EXPECT_EQ(cx.value(w.edge().source)->bytes.data(), before) << "else the test shows little";
  EXPECT_EQ(run(executor), 1109);
  EXPECT_EQ(prepared, 2);
  training.run(cx);
  training.run(cx);
  EXPECT_EQ(run(executor), 1129);
  EXPECT_EQ(run(executor), 1129);
  EXPECT_EQ(prepared, 3);
}

TEST_F(Kept, IsMadeInEachRunWhereTheWeightIsWritten) {
  PlanBuilder step = plan;
  const TensorIndex next = step.computed({kSize});
  step.launch(elementwise(1, kIncrement, kSize), {step.plan.launches[0].kernel->inputs[0]}, {next},
              {{.output = 0, .input = 0}});
  step.update(w, next);
  Executor executor(device, step.plan);
  for (int64_t run_number = 0; run_number < 3; ++run_number)
    EXPECT_EQ(run(executor), 10 * (100 + run_number) + 99);
  EXPECT_EQ(prepared, 3);
  EXPECT_EQ(executor.memory({}).kept_bytes, 0);
}

TEST_F(Kept, IsMadeInEachRunWhereNoSlotIsFrozen) {
  plan.plan.launches[0].kernel->frozen.clear();
  Executor executor(device, plan.plan);
  for (int run_number = 0; run_number < 3; ++run_number) EXPECT_EQ(run(executor), 1099);
  EXPECT_EQ(prepared, 3);
}

TEST_F(Kept, AFailedRunLeavesItRight) {
  Executor executor(device, plan.plan);
  EXPECT_EQ(run(executor), 1099);
  x.drop();
  EXPECT_THROW(executor.run(cx), InternalError);
  x.set(count_from(0));
  w.set(count_from(2));
  EXPECT_EQ(run(executor), 1109);
}

TEST_F(Kept, RunnersOfPlansMakeItBeforeTheyRun) {
  for (const auto memory : {PlanRunner::Memory::AsPlanned, PlanRunner::Memory::Separate}) {
    prepared = 0;
    Given given;
    const std::vector<TensorIndex>& inputs = plan.plan.launches[0].kernel->inputs;
    given[inputs[0]] = std::make_shared<TensorData>(TensorData::of<int64_t>({kSize}, count_from(1)));
    given[inputs[1]] = std::make_shared<TensorData>(TensorData::of<int64_t>({kSize}, count_from(0)));
    PlanRunner runner(*device, plan.plan, {}, given, memory);
    const auto last = [&] {
      const auto bytes = runner.bytes(plan.plan.results[0].tensor);
      return reinterpret_cast<const int64_t*>(bytes.data())[kSize - 1];
    };
    runner.run();
    runner.run();
    (void)runner.sample_us(1);
    EXPECT_EQ(last(), 1099);
    EXPECT_EQ(prepared, 1);
    runner.give(inputs[0], std::make_shared<TensorData>(TensorData::of<int64_t>({kSize}, count_from(2))));
    runner.restore();
    runner.run_launch(0);
    EXPECT_EQ(last(), 1109);
    EXPECT_EQ(prepared, 2);
  }
}

/// Plans of one graph, each with a launch of a kernel of its own.
class Shared : public ::testing::Test {
 protected:
  Shared() {
    for (size_t i = 0; i < 2; ++i) w[i].set(count_from(static_cast<int64_t>(i) + 1));
    x.set(count_from(0));
    result = (w[0] * 10 + x).retrieve();
  }
  std::unique_ptr<Executor> executor(uint64_t preparation, std::vector<size_t> weights = {0}) {
    PlanBuilder plan = plan_of(preparation, std::move(weights));
    return std::make_unique<Executor>(device, plan.plan, nullptr, store);
  }
  PlanBuilder plan_of(uint64_t preparation, std::vector<size_t> weights, const std::vector<int>& spent = {}) {
    PlanBuilder plan;
    const TensorIndex other = plan.input(x);
    std::map<size_t, TensorIndex> inputs;
    TensorIndex sum = -1;
    for (const size_t i : weights) {
      if (!inputs.contains(i)) inputs[i] = plan.input(w[i]);
      sum = plan.computed({kSize});
      plan.launch(ten_times_and(prepared, preparation, spent), {inputs[i], other}, {sum}).kernel->frozen = {
          0};
    }
    plan.result(result, sum);
    return plan;
  }
  int64_t run(Executor& executor) {
    executor.run(cx);
    return cx.value(result.edge().source)->as<int64_t>().back();
  }

  Graph cx;
  std::array<GraphTensor, 2> w{cx.tensor({kSize}, Dtype::I64), cx.tensor({kSize}, Dtype::I64)};
  GraphTensor x = cx.tensor({kSize}, Dtype::I64), result;
  std::atomic<int> prepared{0};
  std::shared_ptr<backends::Device> device = backends::make_null_device();
  std::shared_ptr<PreparedWeights> store = std::make_shared<PreparedWeights>(*device);
};

TEST_F(Shared, PlansThatPrepareTheSameHaveOneCopy) {
  const auto first = executor(7), second = executor(7);
  EXPECT_EQ(run(*first), 1099);
  EXPECT_EQ(run(*second), 1099);
  EXPECT_EQ(prepared, 1);
  EXPECT_EQ(store->bytes(), kSize * 8);
  w[0].set(count_from(2));
  EXPECT_EQ(run(*second), 1109);
  EXPECT_EQ(run(*first), 1109);
  EXPECT_EQ(prepared, 2);
}

TEST_F(Shared, OtherPreparationsAndOtherWeightsHaveTheirOwn) {
  const auto first = executor(7), other_order = executor(8), other_weight = executor(7, {1}),
             alone = executor(0);
  EXPECT_EQ(run(*first), 1099);
  EXPECT_EQ(run(*other_order), 1099);
  EXPECT_EQ(run(*other_weight), 1109);
  EXPECT_EQ(run(*alone), 1099);
  EXPECT_EQ(run(*executor(0)), 1099);
  EXPECT_EQ(prepared, 5);
  EXPECT_EQ(run(*first), 1099);
  EXPECT_EQ(prepared, 5);
  EXPECT_EQ(store->bytes(), 4 * kSize * 8) << "of what is held";
}

TEST_F(Shared, LaunchesOfOnePlanShareItToo) {
  const auto twice = executor(7, {0, 0}), both = executor(7, {1, 0});
  EXPECT_EQ(twice->memory({}).kept_bytes, backends::aligned(kSize * 8));
  EXPECT_EQ(both->memory({}).kept_bytes, 2 * backends::aligned(kSize * 8));
  EXPECT_EQ(run(*twice), 1099);
  EXPECT_EQ(store->bytes(), kSize * 8);
}

TEST_F(Shared, ACopyGoesWithItsLastPlan) {
  auto first = executor(7), second = executor(7);
  EXPECT_EQ(run(*first), 1099);
  EXPECT_EQ(run(*second), 1099);
  first.reset();
  EXPECT_EQ(store->bytes(), kSize * 8);
  EXPECT_EQ(run(*second), 1099);
  EXPECT_EQ(prepared, 1);
  second.reset();
  EXPECT_EQ(store->bytes(), 0);
}

TEST_F(Shared, WithoutRoomEachRunPrepares) {
  store = std::make_shared<PreparedWeights>(*device, kSize * 8);
  const auto first = executor(7), other = executor(8), like_first = executor(7);
  EXPECT_EQ(run(*first), 1099);
  EXPECT_EQ(other->memory({}).kept_bytes, 0);
  EXPECT_EQ(like_first->memory({}).kept_bytes, backends::aligned(kSize * 8));
  for (int run_number = 0; run_number < 3; ++run_number) EXPECT_EQ(run(*other), 1099);
  EXPECT_EQ(prepared, 4);
  EXPECT_EQ(run(*like_first), 1099);
  EXPECT_EQ(prepared, 4);
  EXPECT_EQ(store->bytes(), kSize * 8);
}

/// Weights that can be read again, of which kernels read what they prepare alone.
class Spent : public Shared {
 protected:
  Spent() {
    for (size_t i = 0; i < 2; ++i)
      w[i].set_from([this, i] {
        ++reads[i];
        return TensorData::of<int64_t>({kSize}, count_from(static_cast<int64_t>(i) + 1));
      });
  }
  /// Spent: neither a kernel's second stage nor anything else of the plan reads the weights.
  Executor executor(uint64_t preparation, std::vector<size_t> weights, bool spent = true) {
    return {device,
            plan_of(preparation, std::move(weights), spent ? std::vector{0} : std::vector<int>()).plan,
            nullptr, store};
  }
  /// Whether the graph has no data of it.
  bool is_gone(size_t i) {
    const int before = reads[i];
    (void)cx.value(w[i].edge().source);
    return reads[i] > before;
  }

  std::array<int, 2> reads{0, 0};
};

TEST_F(Spent, WeightsAreReadOnceAndGo) {
  Executor first = executor(7, {1, 0}), second = executor(7, {0});
  for (int run_number = 0; run_number < 3; ++run_number) EXPECT_EQ(run(first), 1099);
  EXPECT_EQ(run(second), 1099) << "it finds what the first has prepared";
  EXPECT_EQ(reads, (std::array{1, 1}));
  EXPECT_EQ(prepared, 2);
  EXPECT_TRUE(is_gone(0));
  EXPECT_TRUE(is_gone(1));
  EXPECT_EQ(run(first), 1099);
  EXPECT_TRUE(is_gone(0)) << "what somebody else asked for goes with the next run";
}

TEST_F(Spent, WeightsAreReadAgainForAnotherPreparation) {
  Executor first = executor(7, {0}), other = executor(8, {0});
  EXPECT_EQ(run(first), 1099);
  EXPECT_EQ(run(other), 1099);
  EXPECT_EQ(run(first), 1099);
  EXPECT_EQ(reads[0], 2);
  EXPECT_TRUE(is_gone(0));
}

TEST_F(Spent, WeightsStayWhereAPlanReadsThem) {
  Executor spends = executor(7, {0}), reads_them = executor(8, {0}, false);
  for (int run_number = 0; run_number < 3; ++run_number) {
    EXPECT_EQ(run(spends), 1099);
    EXPECT_EQ(run(reads_them), 1099);
  }
  EXPECT_EQ(reads[0], 2) << "they would go and come with each run";
  EXPECT_FALSE(is_gone(0));
}

TEST_F(Spent, WeightsStayWhereAResultOfThePlanIsOne) {
  PlanBuilder plan = plan_of(7, {0}, {0});
  GraphTensor result_too = (w[0] + 0).retrieve();
  plan.result(result_too, plan.plan.launches[0].kernel->inputs[0]);
  Executor executor(device, plan.plan, nullptr, store);
  for (int run_number = 0; run_number < 2; ++run_number) EXPECT_EQ(run(executor), 1099);
  EXPECT_EQ(cx.value(result_too.edge().source)->as<int64_t>().back(), 100);
  EXPECT_EQ(reads[0], 1);
}

TEST_F(Spent, OtherDataAreNotLost) {
  Executor executor = this->executor(7, {0});
  EXPECT_EQ(run(executor), 1099);
  w[0].set(count_from(2));
  EXPECT_EQ(run(executor), 1109);
  EXPECT_EQ(cx.value(w[0].edge().source)->as<int64_t>().back(), 101);
  EXPECT_EQ(reads[0], 1);
}

TEST_F(Spent, AReadThatFailsLeavesTheGraphAsItWas) {
  bool fails = false;
  w[0].set_from([&] {
    if (fails) fail("[test] the file is gone");
    return TensorData::of<int64_t>({kSize}, count_from(1));
  });
  Executor first = executor(7, {0}), other = executor(8, {0});
  EXPECT_EQ(run(first), 1099);
  fails = true;
  EXPECT_THROW(other.run(cx), Error);
  EXPECT_EQ(run(first), 1099);
  fails = false;
  EXPECT_EQ(run(other), 1099);
}

}  // namespace
}  // namespace luminal::runtime::test
