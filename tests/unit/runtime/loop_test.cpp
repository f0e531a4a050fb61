#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/runtime/counted_allocations.h"
#include "unit/runtime/fakes.h"

// Loops of plans: what a step reads and writes lies in the tensors of the plan around the body.
namespace luminal::runtime::test {
namespace {

constexpr int64_t kLoopWidth = 4;
const auto kLoopSum = [](const int64_t* x) { return x[0] + x[1]; };

/// next = state + element + shared: the state behind the last step, and by step the next state, the element
/// and a constant.
struct SumLoop {
  /// With `preparations` the body's first kernel prepares what it reads of `shared`, and counts how often.
  explicit SumLoop(bool reverse, int* preparations = nullptr)
      : reverse_(reverse), preparations_(preparations) {
    use_plans(cx, [this](Graph&) { return plan(); });
  }
  Graph cx;
  GraphTensor first = cx.tensor({kLoopWidth}, Dtype::I64), x = cx.tensor({"t", kLoopWidth}, Dtype::I64),
              shared = cx.tensor({kLoopWidth}, Dtype::I64);
  GraphTensor last = (first + 1).retrieve(), sums = (x + 1).retrieve(), elements = (x + 2).retrieve(),
              constants = (x + 3).retrieve();

  void set(int64_t steps) {
    std::vector<int64_t> values;
    for (int64_t i = 0; i < steps * kLoopWidth; ++i) values.push_back(i * i % 11);
    x.set_dyn(values, {steps, kLoopWidth});
    first.set(std::vector<int64_t>{1, 2, 3, 4});
    shared.set(std::vector<int64_t>{10, 20, 30, 40});
  }

  [[nodiscard]] std::shared_ptr<const Plan> body() {
    const GraphTensor state = body_->tensor({kLoopWidth}, Dtype::I64),
                      element = body_->tensor({kLoopWidth}, Dtype::I64),
                      same = body_->tensor({kLoopWidth}, Dtype::I64), next = state + element;
    PlanBuilder b;
    const TensorIndex s = b.input(state), e = b.input(element), w = b.input(same),
                      both = b.computed({kLoopWidth}), sum = b.computed({kLoopWidth});
    const TensorIndex constant =
        b.constant(TensorData::of<int64_t>({kLoopWidth}, std::vector<int64_t>{7, 8, 9, 10}));
    b.launch(first_kernel(), {s, w}, {both}).kernel->frozen = {1};
    b.launch(elementwise(2, kLoopSum, kLoopWidth), {both, e}, {sum}, {{0, 0}});
    b.result(next, sum);
    b.result(element, e);
    b.result(same, constant);
    return std::make_shared<const Plan>(std::move(b.plan));
  }

  [[nodiscard]] std::shared_ptr<const backends::Kernel> first_kernel() const {
    if (preparations_ == nullptr) return elementwise(2, kLoopSum, kLoopWidth);
    const auto once = [](int64_t) { return int64_t{1}; };
    const auto prepare = [count = preparations_](const TaskView& view, int64_t) {
      ++*count;
      std::copy_n(view.buffer(1), kLoopWidth, view.prepared());
    };
    const auto add = [](const TaskView& view, int64_t) {
      for (int64_t i = 0; i < kLoopWidth; ++i) view.buffer(2)[i] = view.buffer(0)[i] + view.prepared()[i];
    };
    auto kernel = std::make_shared<FakeKernel>(std::vector<FakeKernel::Stage>{{once, prepare}, {once, add}},
                                               kLoopWidth);
    kernel->with_preparation(1, kLoopWidth * 8);
    return kernel;
  }

  [[nodiscard]] Plan plan() {
    PlanBuilder b;
    const TensorIndex s = b.input(first), e = b.input(x), w = b.input(shared);
    const TensorIndex end = b.computed({kLoopWidth}), y = b.computed({"t", kLoopWidth}),
                      z = b.computed({"t", kLoopWidth}), c = b.computed({"t", kLoopWidth}),
                      doubled = b.computed({kLoopWidth});
    LoopLaunch loop{.body = body(),
                    .graph = body_,
                    .length = Expression::dim("t"),
                    .reverse = reverse_,
                    .inputs = {s, e, w},
                    .outputs = {end, y, z, c},
                    .carries = 1,
                    .sequences = 1,
                    .body_inputs = {0, 1, 2},
                    .body_outputs = {4, 4, 1, 5}};
    b.plan.launches.push_back({.loop = std::move(loop), .name = "loop"});
    b.launch(elementwise(2, kLoopSum, kLoopWidth), {end, end}, {doubled});  // a reader in the arena
    b.result(last, doubled);
    b.result(sums, y);
    b.result(elements, z);
    b.result(constants, c);
    return std::move(b.plan);
  }

  void expect_steps(int64_t steps) {
    const std::vector<int64_t> in = x.data<int64_t>(), add = shared.data<int64_t>();
    std::vector<int64_t> state = first.data<int64_t>(), by_step(in.size());
    for (int64_t done = 0; done < steps; ++done) {
      const int64_t t = reverse_ ? steps - 1 - done : done;
      for (int64_t i = 0; i < kLoopWidth; ++i)
        by_step[at(static_cast<int>(t * kLoopWidth + i))] = state[at(static_cast<int>(i))] +=
            in[at(static_cast<int>(t * kLoopWidth + i))] + add[at(static_cast<int>(i))];
    }
    for (int64_t& value : state) value *= 2;
    EXPECT_EQ(last.data<int64_t>(), state) << steps;
    EXPECT_EQ(sums.data<int64_t>(), by_step) << steps;
    EXPECT_EQ(elements.data<int64_t>(), in) << steps;
    std::vector<int64_t> sevens;
    for (int64_t i = 0; i < steps * kLoopWidth; ++i) sevens.push_back(7 + i % kLoopWidth);
    EXPECT_EQ(constants.data<int64_t>(), sevens) << steps;
  }

 private:
  bool reverse_;
  int* preparations_;
  std::shared_ptr<Graph> body_ = std::make_shared<Graph>();
};

TEST(PlanLoop, StepsOverSlicesOfThePlansTensors) {
  for (const bool reverse : {false, true}) {
    SumLoop loop(reverse);
    for (const int64_t steps : {4, 7, 0, 1, 2, 7}) {
      loop.set(steps);
      loop.cx.execute();
      loop.expect_steps(steps);
    }
  }
}

TEST(PlanLoop, PreparesWhatAllStepsShareOnceForARun) {
  int preparations = 0;
  SumLoop loop(false, &preparations);
  for (const int64_t steps : {4, 7, 0, 1}) {
    preparations = 0;
    loop.set(steps);
    loop.shared.set(std::vector<int64_t>{steps, 20, 30, 40});
    loop.cx.execute();
    loop.expect_steps(steps);
    EXPECT_EQ(preparations, steps > 0 ? 1 : 0);
  }
}

TEST(PlanLoop, AllocatesNothingAtSizesMetBefore) {
  SumLoop loop(false);
  loop.set(40);
  for (int i = 0; i < 3; ++i) loop.cx.execute();
  const int64_t before = allocations();
  for (int i = 0; i < 5; ++i) loop.cx.execute();
  EXPECT_EQ(allocations() - before, 0);
  loop.expect_steps(40);
}

TEST(PlanLoop, ShowsItsBody) {
  SumLoop loop(false);
  const std::string text = loop.plan().to_string();
  EXPECT_THAT(text, testing::HasSubstr("loop loop(%0 i64[4], %1 i64[t, 4], %2 i64[4]) -> %3 i64[4]"));
  EXPECT_THAT(text, testing::HasSubstr("      kernel0(%0 i64[4], %2 i64[4]) -> %3 i64[4]"));
}

}  // namespace
}  // namespace luminal::runtime::test
