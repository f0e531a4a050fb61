#include <gtest/gtest.h>

#include "luminal/ops.h"
#include "unit/runtime/counted_allocations.h"
#include "unit/runtime/fakes.h"

namespace luminal::runtime::test {
namespace {

// Around the end of 64 bits: a state that doubles gets there.
const auto kWrappingSum = [](const int64_t* x) {
  return static_cast<int64_t>(static_cast<uint64_t>(x[0]) + static_cast<uint64_t>(x[1]));
};

/// Writes what it reads: a host op that allocates nothing itself.
const OpDef kCopy = {
    .name = "test_copy",
    .arity = 1,
    .infer = [](std::span<const TensorType> in, const Attributes&) { return std::vector<TensorType>{in[0]}; },
    .evaluate =
        [](EvalContext& context) {
          std::ranges::copy(context.inputs[0]->bytes, context.outputs[0].bytes.begin());
        }};

/// A step as training has it: a batch, a state updated in place, one that swaps, a host op, a retrieved loss.
struct Step {
  Graph cx;
  GraphTensor x = cx.tensor({"n", 3}, Dtype::I64), weight = cx.tensor({"n", 3}, Dtype::I64),
              moment = cx.tensor({300}, Dtype::I64);
  GraphTensor loss = (x + weight).retrieve(), same = (x + weight).retrieve(), next = (moment + 1).retrieve();

  Step() {
    weight.assign(weight + 1);
    moment.assign(moment + moment);
    use_plans(cx, [this](Graph&) { return plan(); });
    set(100);
    moment.set(std::vector<int64_t>(300, 1));
  }
  void set(int64_t n) {
    x.set(std::vector<int64_t>(static_cast<size_t>(3 * n), n));
    weight.set(std::vector<int64_t>(static_cast<size_t>(3 * n), 0));
  }

  [[nodiscard]] Plan plan() const {
    PlanBuilder b;
    const Shape dims{"n", 3};
    const TensorIndex in = b.input(x), w = b.input(weight), m = b.input(moment), sum = b.computed(dims),
                      copied = b.computed(dims), out = b.computed(dims), next_w = b.computed(dims),
                      next_m = b.computed({300});
    b.launch(flat(2, kWrappingSum), {in, w}, {sum});
    b.host(kCopy, {sum}, {copied});
    b.launch(flat(1, kIncrement), {copied}, {out}, {{0, 0}});
    b.launch(elementwise(2, kWrappingSum, 300), {m, m}, {next_m});
    b.launch(flat(1, kIncrement), {w}, {next_w}, {{0, 0}});
    b.result(loss, out);
    b.result(same, out);     // two values, one tensor
    b.result(next, next_m);  // a result that is a next state as well
    b.update(weight, next_w);
    b.update(moment, next_m);
    return b.plan;
  }

  /// Elementwise over the n * 3 elements.
  template <class F>
  static std::shared_ptr<FakeKernel> flat(int inputs, F f) {
    const auto body = [inputs, f](const TaskView& view, int64_t task) {
      int64_t values[8];
      for (int64_t i = task * kGrain; i < std::min(3 * view.n, (task + 1) * kGrain); ++i) {
        for (int k = 0; k < inputs; ++k) values[k] = view.buffer(k)[i];
        view.buffer(inputs)[i] = f(values);
      }
    };
    return std::make_shared<FakeKernel>(
        std::vector<FakeKernel::Stage>{{[](int64_t n) { return grains(3 * n); }, body}}, "n");
  }
};

TEST(SteadyState, ExecuteAllocatesNothing) {
  Step step;
  for (int i = 0; i < 3; ++i) step.cx.execute();
  const int64_t before = allocations();
  for (int i = 0; i < 100; ++i) step.cx.execute();
  EXPECT_EQ(allocations() - before, 0);
  EXPECT_EQ(step.loss.data<int64_t>()[0], 100 + 102 + 1);
  EXPECT_EQ(step.weight.data<int64_t>()[0], 103);
  EXPECT_EQ(step.same.data<int64_t>(), step.loss.data<int64_t>());
  EXPECT_EQ(step.next.data<int64_t>(), step.moment.data<int64_t>());
}

TEST(SteadyState, CompiledCallsOfTwoExecutablesAllocateNothing) {
  Step step;
  Compiled one = step.cx.compile(Fast{}), other = step.cx.compile(Fast{});
  for (int i = 0; i < 3; ++i) {
    one();
    other();
  }
  const int64_t before = allocations();
  for (int i = 0; i < 50; ++i) {
    one();
    other();
  }
  EXPECT_EQ(allocations() - before, 0);
  EXPECT_EQ(step.weight.data<int64_t>()[0], 106);
}

TEST(SteadyState, SizesMetBeforeAllocateNothingInTheRuntime) {
  Step step;
  for (const int64_t n : {100, 40, 100, 40}) {
    step.set(n);
    for (int i = 0; i < 2; ++i) step.cx.execute();
  }
  step.set(100);
  step.cx.execute();
  const int64_t before = allocations();
  step.cx.execute();
  EXPECT_EQ(allocations() - before, 0);
}

// The whole way, with kernels that the search made.
TEST(SteadyState, ACompiledGraphAllocatesNothing) {
  Graph cx;
  cx.set_device("cpu");
  const GraphTensor x = cx.tensor({"batch", 64});
  GraphTensor weight = cx.tensor({64, 16});
  const GraphTensor hidden = x.matmul(weight).relu();
  GraphTensor loss = (hidden * hidden).sum(1).sum(0).retrieve();
  weight.assign(weight * 0.5F);
  GraphTensor(x).set(std::vector<float>(size_t{32} * 64, 1));
  weight.set(std::vector<float>(size_t{64} * 16, 1));
  for (int i = 0; i < 3; ++i) cx.execute();
  const int64_t before = allocations();
  for (int i = 0; i < 5; ++i) cx.execute();
  EXPECT_EQ(allocations() - before, 0);
  // Each run sees the weights halved once more: 32 * 16 outputs of (64 / 2^7)^2.
  EXPECT_FLOAT_EQ(loss.data<float>()[0], 32 * 16 * 0.25F);
}

// The hook itself: a run at new sizes is seen to allocate.
TEST(SteadyState, NewSizesAllocate) {
  Step step;
  step.cx.execute();
  step.set(200);
  const int64_t before = allocations();
  step.cx.execute();
  EXPECT_GT(allocations() - before, 0);
}

}  // namespace
}  // namespace luminal::runtime::test
