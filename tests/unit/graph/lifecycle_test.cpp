#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "luminal/error.h"
#include "luminal/graph.h"
#include "luminal/ops.h"
#include "support/files.h"

// Handles, values and runs: what lives how long, and what happens when it does not.
namespace luminal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Lifecycle, MovedGraphKeepsItsHandles) {
  Graph first;
  GraphTensor x = first.tensor({3}).set({1, 2, 3});
  GraphTensor y = (x + x).retrieve();
  Graph second = std::move(first);
  second.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(2, 4, 6));
  Graph third;
  third = std::move(second);
  x.set({4, 5, 6});
  third.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(8, 10, 12));
}

TEST(Lifecycle, HandleOfADeadGraphIsAnError) {
  std::optional<Graph> cx(std::in_place);
  GraphTensor x = cx->tensor({3});
  cx.reset();
  EXPECT_FALSE(x.valid());
  EXPECT_EQ(
      test::error_of<Error>([&] { (void)x.dtype(); }),
      "[tensor] the graph of this tensor is gone; keep the Graph alive as long as its tensors are used");
}

TEST(Lifecycle, ASecondGraphDisturbsNothing) {
  Graph a;
  GraphTensor x = a.tensor({2}).set({1, 2});
  GraphTensor y = (x * 2).retrieve();
  {
    Graph b;
    GraphTensor u = b.tensor({2}).set({5, 6});
    GraphTensor v = (u * 3).retrieve();
    b.execute();
    EXPECT_THAT(v.data<float>(), ElementsAre(15, 18));
    EXPECT_THAT(test::error_of<Error>([&] { (void)(x + u); }), HasSubstr("graph"));
  }
  a.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(2, 4));
}

TEST(Lifecycle, KeepComputesOnceAndDropForgets) {
  Graph cx;
  GraphTensor x = cx.tensor({1}).set({1});
  GraphTensor kept = (x + 1).keep();
  GraphTensor out = (kept * 10).retrieve();
  cx.execute();
  x.set({5});
  cx.execute();
  EXPECT_THAT(out.data<float>(), ElementsAre(20));  // kept stays what it was
  kept.drop();
  cx.execute();
  EXPECT_THAT(out.data<float>(), ElementsAre(60));
}

TEST(Lifecycle, ResetDropsWhatIsNotKeptOrSet) {
  Graph cx;
  GraphTensor x = cx.tensor({1}).set({1});
  GraphTensor kept = (x + 1).keep(), out = (x + 2).retrieve();
  cx.execute();
  cx.reset();
  EXPECT_THAT(kept.data<float>(), ElementsAre(2));
  EXPECT_THAT(test::error_of<Error>([&] { (void)out.data<float>(); }),
              HasSubstr("has no value; mark it with retrieve() or keep() and call execute() first"));
  cx.execute();
  EXPECT_THAT(out.data<float>(), ElementsAre(3));
}

TEST(Lifecycle, StatesChangeAllAtOnce) {
  Graph cx;
  GraphTensor a = cx.tensor({1}).set({1}), b = cx.tensor({1}).set({2});
  assign(a, b);
  assign(b, a + b);
  for (int i = 0; i < 3; ++i) cx.execute();  // (1,2) (2,3) (3,5) (5,8)
  EXPECT_THAT(a.data<float>(), ElementsAre(5));
  EXPECT_THAT(b.data<float>(), ElementsAre(8));
}

TEST(Lifecycle, DeferredInputsAreLoadedAtEachRun) {
  Graph cx;
  float next = 1;
  GraphTensor x =
      cx.tensor({1}).set_deferred([&] { return TensorData::of<float>({1}, std::vector{next++}); });
  GraphTensor y = (x * 10).retrieve();
  cx.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(10));
  cx.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(20));
}

TEST(Lifecycle, ValuesMoveBetweenGraphs) {
  Graph a, b;
  GraphTensor x = a.tensor({2}).set({1, 2});
  GraphTensor y = (x * 2).keep();
  a.execute();
  GraphTensor u = b.tensor({2});
  GraphTensor v = (u + 1).retrieve();
  transfer_data(std::vector{y}, a, std::vector{u}, b);
  b.execute();
  EXPECT_THAT(v.data<float>(), ElementsAre(3, 5));
  EXPECT_THROW((void)y.data<float>(), Error);
  EXPECT_THROW(transfer_data(std::vector{y}, a, std::vector{u}, b), Error);
}

TEST(Lifecycle, SwapExchangesAndStepAfterExecutionWorksByHand) {
  Graph cx;
  GraphTensor state = cx.tensor({1}).set({1});
  GraphTensor next = (state * 2).keep();
  for (int i = 0; i < 3; ++i) {
    cx.execute();
    transfer_data_same_graph(std::vector{next}, std::vector{state}, cx);
  }
  EXPECT_THAT(state.data<float>(), ElementsAre(8));
  GraphTensor other = cx.tensor({1}).set({7});
  cx.swap_tensors(state, other);
  EXPECT_THAT(state.data<float>(), ElementsAre(7));
  EXPECT_THAT(other.data<float>(), ElementsAre(8));
}

TEST(Lifecycle, DeleteInputsCutsWhatFeeds) {
  Graph cx;
  GraphTensor x = cx.tensor({1}).set({3});
  GraphTensor middle = (x * 2).keep();
  GraphTensor out = (middle + 1).retrieve();
  cx.execute();
  const size_t before = cx.node_count();
  cx.delete_inputs(std::vector{middle});
  EXPECT_LT(cx.node_count(), before);
  cx.execute();
  EXPECT_THAT(out.data<float>(), ElementsAre(7));
}

TEST(Lifecycle, DimsComeFromDataOrFromSetDim) {
  Graph cx;
  GraphTensor x = cx.named_tensor("x", {"rows", 2});
  GraphTensor y = x.sum(1).retrieve();
  x.set(std::vector<float>{1, 2, 3, 4, 5, 6});
  cx.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(3, 7, 11));
  x.set_dyn(std::vector<float>{1, 1}, {1, 2});
  cx.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(2));
  EXPECT_THAT(test::error_of<ShapeError>([&] { x.set(std::vector<float>{1, 2, 3}); }),
              HasSubstr("[set] 3 elements are not a whole number of 'rows' in 'x' f32[rows, 2] (made at "
                        "lifecycle_test.cpp:"));
  cx.set_dim("rows", 2);
  EXPECT_THAT(test::error_of<ShapeError>([&] { x.set_dyn(std::vector<float>{1, 1}, {1, 2}); }),
              HasSubstr("[set] data of [1, 2] does not fit 'x' f32[rows, 2]; ranks and sizes must be equal"));
}

TEST(Lifecycle, InputsThatContradictAreAnError) {
  Graph cx;
  GraphTensor x = cx.named_tensor("x", {"n"}).set_dyn(std::vector<float>{1, 2}, {2});
  GraphTensor y = cx.named_tensor("y", {"n"}).set_dyn(std::vector<float>{1, 2, 3}, {3});
  GraphTensor z = (x + y).retrieve();
  EXPECT_THAT(test::error_of<ShapeError>([&] { cx.execute(); }),
              HasSubstr("[execute] 'x' f32[n] (made at lifecycle_test.cpp:"));
}

TEST(Lifecycle, UnsetInputsAreAnErrorWithTheUsersLine) {
  Graph cx;
  GraphTensor x = cx.named_tensor("weights", {2});
  GraphTensor y = (x + 1).retrieve();
  const std::string message = test::error_of<Error>([&] { cx.execute(); });
  EXPECT_THAT(message, HasSubstr("[execute] input 'weights' f32[2] (made at lifecycle_test.cpp:"));
  EXPECT_THAT(message, HasSubstr("is not set; give its data with set() before execute()"));
}

TEST(Lifecycle, DataMustFit) {
  Graph cx;
  GraphTensor x = cx.tensor({2, 2}), i = cx.tensor({2}, Dtype::I64);
  EXPECT_THAT(test::error_of<ShapeError>([&] { x.set({1, 2, 3}); }),
              HasSubstr("[set] 3 elements do not fill f32[2, 2], which holds 4"));
  EXPECT_THAT(test::error_of<ShapeError>([&] { x.set({{1, 2}, {3}}); }),
              HasSubstr("ragged: item 0 is [2] and item 1 is [1]"));
  EXPECT_THAT(test::error_of<DtypeError>([&] { i.set({1.5, 2.5}); }),
              HasSubstr("[set] f64 numbers do not fit i64[2]; give integers"));
  EXPECT_THAT(test::error_of<Error>([&] { (x + 1).set({1}); }),
              HasSubstr("only inputs take data, and this f32[2, 2] is made by 'add'"));
  i.set({(int64_t{1} << 53) + 1, -1});
  EXPECT_THAT(i.data<int64_t>(), ElementsAre((int64_t{1} << 53) + 1, -1));
}

TEST(Lifecycle, ExecuteNoDeleteLeavesEverything) {
  Graph cx;
  GraphTensor x = cx.tensor({2}).set({1, 2});
  GraphTensor middle = x * 2, out = middle + 1;
  cx.execute_no_delete();
  EXPECT_THAT(middle.data<float>(), ElementsAre(2, 4));
  EXPECT_THAT(out.data<float>(), ElementsAre(3, 5));
}

TEST(Lifecycle, ZeroSizes) {
  Graph cx;
  GraphTensor x = cx.tensor({0, 3}).set(std::vector<float>{});
  GraphTensor sum = x.sum(0).retrieve(), same = (x + 1).retrieve();
  cx.execute();
  EXPECT_THAT(sum.data<float>(), ElementsAre(0, 0, 0));
  EXPECT_TRUE(same.data<float>().empty());
}

TEST(Lifecycle, CompiledIsCalledAgainAndAgain) {
  Graph cx;
  GraphTensor x = cx.tensor({1}).set({1});
  GraphTensor y = (x + 1).retrieve();
  Compiled run = cx.compile(Fast{});
  run();
  EXPECT_THAT(y.data<float>(), ElementsAre(2));
  x.set({9});
  run();
  EXPECT_THAT(y.data<float>(), ElementsAre(10));
  EXPECT_THAT(run.report(), HasSubstr("reference"));
}

TEST(Lifecycle, UnknownDevice) {
  Graph cx;
  std::string devices;  // which ones depends on the build
  for (const std::string& name : session_devices()) devices += (devices.empty() ? "" : ", ") + name;
  EXPECT_THAT(devices, HasSubstr("reference-f64"));
  EXPECT_EQ(test::error_of<DeviceError>([&] { cx.set_device("refrence"); }),
            "[device] there is no device 'refrence' in this build; there are: " + devices +
                "; did you mean 'reference'?");
}

TEST(Lifecycle, OrderIsKeptAndCyclesAreRefused) {
  Graph cx;
  GraphTensor x = cx.tensor({1}).set({1});
  GraphTensor late = x + 1, early = x + 2;
  cx.order(early, late);
  const auto order = cx.topological_order();
  EXPECT_LT(std::ranges::find(order, early.node()), std::ranges::find(order, late.node()));
  GraphTensor next = late * 2;
  EXPECT_THAT(test::error_of<Error>([&] { cx.order(next, early); }),
              HasSubstr("[order] 'mul' cannot run before 'add'"));
}

TEST(Lifecycle, PrintsShortenedValues) {
  Graph cx;
  GraphTensor x = cx.tensor({2, 3}).set({{1, 2, 3}, {4, 5, 6.5}});
  EXPECT_EQ(x.to_string(), "f32[2, 3] [[1, 2, 3], [4, 5, 6.5]]");
  EXPECT_EQ(x.to_string(2), "f32[2, 3] [[1, ..., 3], [4, ..., 6.5]]");
  GraphTensor empty = cx.tensor({0}).set(std::vector<float>{});
  EXPECT_EQ(empty.to_string(), "f32[0] []");
}

}  // namespace
}  // namespace luminal
