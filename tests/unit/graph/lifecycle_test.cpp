#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
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
  EXPECT_EQ(test::error_of<Error>([&] { (void)x.dtype(); }),
            "[tensor] the graph of this tensor no longer exists; keep the Graph alive as long as its tensors "
            "are used");
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

TEST(Lifecycle, ItemIsTheValueOfOneElement) {
  Graph cx;
  GraphTensor x = cx.tensor({2, 1}).set({0.1F, 5}), whole = cx.tensor({}, Dtype::I64).set({int64_t{1} << 62});
  EXPECT_EQ(x[0].item(), static_cast<double>(0.1F));
  EXPECT_EQ((x[{1, 0}].item<float>()), 5);
  EXPECT_EQ(whole.item<int64_t>(), int64_t{1} << 62);
  EXPECT_TRUE(cx.tensor({1}, Dtype::Bool).set(std::vector<bool>{true}).item<bool>());
  EXPECT_THAT(test::error_of<ShapeError>([&] { (void)x.item(); }), HasSubstr("f32[2, 1] (made at "));
  EXPECT_THAT(
      test::error_of<ShapeError>([&] { (void)x.item(); }),
      HasSubstr(
          ") has 2 elements, and item() gives the value of one; index it first, or read all with data()"));
  EXPECT_THAT(test::error_of<Error>([&] { (void)(x.sum() * 1).item(); }),
              HasSubstr("mark it with retrieve()"));
}

TEST(Lifecycle, AnyTensorIsFoundByItsName) {
  Graph cx;
  GraphTensor y;
  {
    GraphTensor x = cx.named_tensor("tokens", {2}).set({1, 2});
    GraphTensor scores = (x * 3).set_name("layer.0.attention");
    y = (scores + 1).retrieve();
  }
  cx.named("layer.0.attention").retrieve();
  cx.execute();
  EXPECT_THAT(cx.named("layer.0.attention").data<float>(), ElementsAre(3, 6));
  EXPECT_THAT(cx.named("tokens").data<float>(), ElementsAre(1, 2));
  EXPECT_THAT(y.data<float>(), ElementsAre(4, 7));
  EXPECT_THAT(cx.tensor_names(), ElementsAre("layer.0.attention", "tokens"));
  EXPECT_THAT(test::error_of<Error>([&] { (void)cx.named("layer.0.atention"); }),
              testing::StartsWith(
                  "[named] no tensor of this graph is called 'layer.0.atention'; set_name() gives a name, "
                  "and tensor_names() lists the 2 there are; did you mean 'layer.0.attention'? (made at "));
  y.set_name("tokens");
  EXPECT_THAT(
      test::error_of<Error>([&] { (void)cx.named("tokens"); }),
      testing::ContainsRegex("2 tensors are called 'tokens': 'tokens' f32\\[2\\] \\(made at .*\\), 'tokens' "
                             "f32\\[2\\] \\(made at .*\\); give each a name of its own with set_name\\(\\)"));
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
              HasSubstr("has no value; it was marked or reset after the last run; call execute() again"));
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

TEST(Lifecycle, LazyDataAreMadeOnceAndWhenTheyAreNeeded) {
  Graph cx;
  int made = 0;
  const auto make = [&] {
    ++made;
    return TensorData::of<double>({2}, std::vector{1.0, 2.0});
  };
  GraphTensor x = cx.tensor({2}).set_lazily(make), read = cx.tensor({2}).set_lazily(make),
              replaced = cx.tensor({2}).set_lazily(make), state = cx.tensor({2}).set_lazily(make);
  GraphTensor y = (x * 10 + replaced).retrieve();
  state.assign(state + 1);
  replaced.set({0, 1});
  EXPECT_THAT(read.data<float>(), ElementsAre(1, 2));
  EXPECT_EQ(made, 1);
  cx.execute();
  cx.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(10, 21));
  EXPECT_THAT(state.data<float>(), ElementsAre(3, 4));
  EXPECT_EQ(made, 3);  // x, read, state
}

TEST(Lifecycle, DataThatCanBeReadAgainAreLetGoAndReadWhereTheyAreNeeded) {
  Graph cx;
  int reads = 0;
  const auto read = [&] {
    ++reads;
    return TensorData::of<double>({2}, std::vector{1.0, 2.0});
  };
  GraphTensor x = cx.tensor({2}), y = (x * 10).retrieve();
  const Value value = x.edge().source;
  EXPECT_FALSE(cx.let_go(value)) << "it has no data";
  x.set_from(read);
  EXPECT_FALSE(cx.let_go(value)) << "nobody has read it yet, so that nobody knows its sizes";
  cx.execute();
  const uint64_t stamp = cx.stamp(value);
  EXPECT_TRUE(cx.let_go(value));
  EXPECT_TRUE(cx.let_go(value));
  EXPECT_TRUE(cx.is_pinned(value));
  EXPECT_EQ(reads, 1);
  cx.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(10, 20));
  EXPECT_EQ(reads, 2);
  {
    const auto data = cx.value(value);
    EXPECT_FALSE(cx.let_go(value)) << "somebody holds it";
  }
  EXPECT_TRUE(cx.let_go(value));
  EXPECT_EQ(cx.stamp(value), stamp) << "it is the same data";
  {
    const auto held = cx.hold(value);
    EXPECT_EQ(held, cx.value(value));
  }
  EXPECT_FALSE(cx.let_go(value)) << "it is to stay";
  cx.execute();
  EXPECT_EQ(reads, 3);
}

TEST(Lifecycle, DataThatWereLetGoGiveWayToOthers) {
  Graph cx;
  const auto read = [] { return TensorData::of<double>({2}, std::vector{1.0, 2.0}); };
  GraphTensor x = cx.tensor({2}).set_from(read), other = cx.tensor({2}).set({3, 4}),
              state = cx.tensor({2}).set_from(read), y = (x * 10).retrieve();
  state.assign(state + 1);
  cx.execute();
  EXPECT_TRUE(cx.let_go(x.edge().source));
  EXPECT_FALSE(cx.let_go(state.edge().source)) << "it was written: nothing gives it again";
  cx.swap_tensors(x, other);
  EXPECT_TRUE(cx.let_go(other.edge().source));
  EXPECT_FALSE(cx.let_go(x.edge().source));
  EXPECT_THAT(other.data<float>(), ElementsAre(1, 2));
  cx.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(30, 40));
  EXPECT_THAT(state.data<float>(), ElementsAre(3, 4));
  EXPECT_TRUE(cx.let_go(other.edge().source));
  other.set({5, 6});
  EXPECT_FALSE(cx.let_go(other.edge().source));
  EXPECT_THAT(other.data<float>(), ElementsAre(5, 6));
}

TEST(Lifecycle, LazyDataThatDoNotFitAreAnErrorWhereTheyAreNeeded) {
  Graph cx;
  GraphTensor x = cx.named_tensor("x", {2}).set_lazily([] { return TensorData(Dtype::F32, {3}); });
  GraphTensor y = (x * 10).retrieve();
  EXPECT_THAT(test::error_of<ShapeError>([&] { cx.execute(); }), HasSubstr("[set]"));
  EXPECT_THAT(test::error_of<ShapeError>([&] { (void)x.data(); }), HasSubstr("'x' f32[2]"));
  EXPECT_THAT(test::error_of<Error>([&] { y.set_lazily([] { return TensorData(); }); }),
              HasSubstr("[set_lazily] only inputs take data"));
  x.set({1, 2});
  cx.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(10, 20));
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
              HasSubstr("[set] 3 elements are not a whole number of 'rows' in 'x' f32[rows, 2]; give whole "
                        "ones (made at lifecycle_test.cpp:"));
  cx.set_dim("rows", 2);
  EXPECT_THAT(
      test::error_of<ShapeError>([&] { x.set_dyn(std::vector<float>{1, 1}, {1, 2}); }),
      HasSubstr("[set] data of [1, 2] does not fit 'x' f32[rows, 2]; ranks and sizes must be equal; set_dim "
                "fixed 'rows' at 2 (lifecycle_test.cpp:"));
}

/// The message without the user's line, which must stand in this file.
template <class E, class Action>
std::string said(Action&& action) {
  const std::string message = test::error_of<E>(action);
  const size_t place = message.rfind(" (made at lifecycle_test.cpp:");
  return place == std::string::npos ? "no place in: " + message : message.substr(0, place);
}

TEST(Dims, WhatSetDimFixesClearDimFrees) {
  Graph cx;
  GraphTensor x = cx.named_tensor("x", {"rows", 2});
  GraphTensor y = x.sum(1).retrieve();
  cx.set_dim("rows", 2);
  const std::string line = std::to_string(__LINE__ - 1);
  EXPECT_EQ(
      said<ShapeError>([&] { x.set({1, 2}); }),
      "[set] 2 elements do not fill 'x' f32[rows, 2], which holds 4; give as many; set_dim fixed 'rows' at 2 "
      "(lifecycle_test.cpp:" +
          line + "): clear_dim(\"rows\") lets data decide again");
  x.set({1, 2, 3, 4});
  cx.set_dim("rows", 3);
  EXPECT_THAT(
      test::error_of<ShapeError>([&] { cx.execute(); }),
      HasSubstr("holds data of [2, 2], but the current sizes make it [3, 2]; set it again or call set_dim; "
                "set_dim fixed 'rows' at 3 (lifecycle_test.cpp:"));
  cx.clear_dim("rows");
  x.set({1, 2});
  cx.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(3));
  cx.clear_dim("rows");  // not fixed: nothing happens
}

TEST(Dims, UnknownNamesOfferTheNearest) {
  Graph cx;
  EXPECT_EQ(said<Error>([&] { cx.set_dim("n", 1); }),
            "[set_dim] no tensor of this graph has a dim 'n' or any other named dim; make the tensors first");
  const GraphTensor x = cx.tensor({"batch", "length"});
  EXPECT_EQ(said<Error>([&] { cx.set_dim("bacth", 4); }),
            "[set_dim] no tensor of this graph has a dim 'bacth'; its dims are batch, length; did you mean "
            "'batch'?");
  EXPECT_EQ(
      said<Error>([&] { cx.clear_dim("lenght"); }),
      "[clear_dim] no tensor of this graph has a dim 'lenght'; its dims are batch, length; did you mean "
      "'length'?");
  EXPECT_EQ(said<ShapeError>([&] { cx.set_dim("batch", -1); }),
            "[set_dim] dim 'batch' cannot have the size -1; give 0 or more");
  // A dim may stand in a view alone, or in a formula.
  const GraphTensor part = x.slice_along(0, "first", "last");
  const GraphTensor count = cx.constant(Expression("items") * 2);
  EXPECT_THAT(cx.dim_names(), ElementsAre("batch", "first", "items", "last", "length"));
}

TEST(Dims, SizesKeepWhatTheDimPromises) {
  Graph cx;
  const GraphTensor x = cx.tensor({Expression::dim("n", {.min = 4, .max = 64, .multiple_of = 4})});
  EXPECT_EQ(said<ShapeError>([&] { cx.set_dim("n", 6); }),
            "[set_dim] dim 'n' cannot have the size 6: tensors promise a multiple of 4 in [4, 64]; give such "
            "a size, or declare the dim with other facts");
  cx.set_dim("n", 8);
  EXPECT_EQ(cx.dims().at("n"), 8);
}

TEST(Ranges, IntegersThatDoNotFitAreRefused) {
  Graph cx;
  GraphTensor u = cx.named_tensor("u", {2, 2}, Dtype::U8), i = cx.tensor({2}, Dtype::I8);
  GraphTensor w = cx.tensor({1}, Dtype::I32), b = cx.tensor({2}, Dtype::Bool), h = cx.tensor({1}, Dtype::F16);
  EXPECT_EQ(
      said<DtypeError>([&] { u.set({{1, 2}, {300, 4}}); }),
      "[set] the number at [1, 0] is 300, and 'u' u8[2, 2] holds 0 to 255; give numbers in that range, or "
      "declare it as u16");
  EXPECT_EQ(said<DtypeError>([&] { i.set({1, -129}); }),
            "[set] the number at row 1 is -129, and i8[2] holds -128 to 127; give numbers in that range, or "
            "declare it "
            "as i32");
  EXPECT_EQ(said<DtypeError>([&] { w.set(std::vector<int64_t>{int64_t{1} << 31}); }),
            "[set] the number at row 0 is 2147483648, and i32[1] holds -2147483648 to 2147483647; give "
            "numbers in that "
            "range, or declare it as i64");
  EXPECT_EQ(said<DtypeError>([&] { i.set(std::vector<uint8_t>{0, 200}); }),
            "[set] the number at row 1 is 200, and i8[2] holds -128 to 127; give numbers in that range, or "
            "declare it "
            "as u8");
  EXPECT_EQ(said<DtypeError>([&] { (void)cx.full({2}, 300, Dtype::U8); }),
            "[full] 300 does not fit in u8 (0 .. 255); cast the tensor to i32 first");
  u.set({{0, 255}, {1, 2}});
  EXPECT_THAT(u.data<int64_t>(), ElementsAre(0, 255, 1, 2));
  b.set({2, 0});  // a truth value, as in PyTorch
  EXPECT_THAT(b.data<bool>(), ElementsAre(true, false));
  h.set({70000});  // floats round: beyond their range is infinity
  EXPECT_THAT(h.data<double>(), ElementsAre(std::numeric_limits<double>::infinity()));
}

TEST(NoValue, TheAdviceFitsTheCase) {
  Graph cx;
  GraphTensor x = cx.named_tensor("x", {2});
  GraphTensor y = (x + 1), z = (x + 2).retrieve();
  const auto ends = [](const std::string& message) {
    return message.substr(message.rfind(" has no value; "));
  };
  const auto whole = [&](const GraphTensor& tensor) {
    return test::error_of<Error>([&] { (void)tensor.data<float>(); });
  };
  EXPECT_THAT(whole(x), testing::StartsWith("[data] 'x' f32[2] (made at lifecycle_test.cpp:"));
  EXPECT_EQ(ends(whole(x)), " has no value; it is an input; give its data with set()");
  EXPECT_EQ(ends(whole(y)), " has no value; mark it with retrieve() or keep() before execute()");
  EXPECT_EQ(ends(whole(z)), " has no value; nothing has run yet; call execute()");
  x.set({1, 2});
  cx.execute();
  EXPECT_THAT(z.data<float>(), ElementsAre(3, 4));
  EXPECT_EQ(ends(whole(y)), " has no value; mark it with retrieve() or keep() before execute()");
  y.retrieve();
  EXPECT_EQ(ends(whole(y)), " has no value; it was marked or reset after the last run; call execute() again");
  z.drop();
  EXPECT_EQ(ends(whole(z)), " has no value; mark it with retrieve() or keep() before execute()");
  EXPECT_THAT(test::error_of<Error>([&] { cx.swap_tensors(x, cx.named_tensor("w", {2})); }),
              HasSubstr("[swap_tensors] 'w' f32[2] (made at"));
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
            "[device] unknown device 'refrence'; this build has: " + devices + "; did you mean 'reference'?");
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
