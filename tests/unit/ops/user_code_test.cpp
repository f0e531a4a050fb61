#include <gtest/gtest.h>

#include <algorithm>

#include "luminal/autograd.h"
#include "luminal/error.h"
#include "luminal/function.h"
#include "luminal/gradient.h"
#include "luminal/ops.h"

namespace luminal {
namespace {

template <class E = Error>
std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  }
  return "no error";
}
bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

class UserCode : public testing::Test {
 protected:
  UserCode() { cx.set_device("reference"); }
  Graph cx;
};

void sort_values(std::span<const TensorData* const> inputs, std::span<TensorData> outputs) {
  const auto from = inputs[0]->as<float>();
  const auto to = outputs[0].as<float>();
  std::ranges::copy(from, to.begin());
  std::ranges::sort(to);
}

TEST_F(UserCode, RunsOnViewsWithSymbolicDims) {
  GraphTensor x = cx.tensor({"n", 2});
  GraphTensor sorted =
      function(cx, "sort", {x.t().slice_along(0, 1, 2)}, {{Dtype::F32, {1, "n"}}}, sort_values)[0];
  sorted.retrieve();
  x.set_dyn(std::vector<float>{0, 5, 0, 3, 0, 4}, {3, 2});
  cx.execute();
  EXPECT_EQ(sorted.data<float>(), (std::vector<float>{3, 4, 5}));
  x.set_dyn(std::vector<float>{0, 2, 0, 1}, {2, 2});
  cx.execute();
  EXPECT_EQ(sorted.data<float>(), (std::vector<float>{1, 2}));
}

TEST_F(UserCode, SeveralOutputsOfOneCall) {
  GraphTensor x = cx.tensor({3});
  int calls = 0;
  auto outputs =
      function(cx, "stats", {x}, {{Dtype::F32, {}}, {Dtype::I64, {2}}}, [&](auto inputs, auto results) {
        ++calls;
        const auto values = inputs[0]->template as<float>();
        results[0].template as<float>()[0] = *std::ranges::max_element(values);
        results[1].template as<int64_t>()[1] = 7;
      });
  retrieve(outputs);
  x.set({1, 9, 3});
  cx.execute();
  EXPECT_EQ(outputs[0].data<float>(), (std::vector<float>{9}));
  EXPECT_EQ(outputs[1].data<int64_t>(), (std::vector<int64_t>{0, 7}));  // outputs start as zeros
  EXPECT_EQ(calls, 1);
  cx.execute();
  EXPECT_EQ(calls, 2);  // never folded, though its inputs are the same
}

TEST_F(UserCode, RunsThoughNobodyReadsIt) {
  bool ran = false;
  (void)function(cx, "effect", {}, {{Dtype::F32, {}}}, [&](auto, auto) { ran = true; });
  cx.execute();
  EXPECT_TRUE(ran);
}

TEST_F(UserCode, GradientIsTheUsersOwn) {
  GraphTensor x = cx.tensor({3});
  const auto cube = [](std::span<const TensorData* const> inputs, std::span<TensorData> outputs) {
    for (size_t i = 0; i < 3; ++i) {
      const float v = inputs[0]->as<float>()[i];
      outputs[0].as<float>()[i] = v * v * v;
    }
  };
  GraphTensor y = function(cx, "cube", {x}, {x.type()}, cube,
                           [](Gradient& g) { g.to(0, g.upstream() * g.input(0) * g.input(0) * 3); })[0];
  GraphTensor loss = y.sum();
  auto gradient = cx.run_pass(Autograd({x}, loss));
  gradient[0].retrieve();
  x.set({1, 2, -3});
  cx.execute();
  EXPECT_EQ(gradient[0].data<float>(), (std::vector<float>{3, 12, 27}));

  GraphTensor closed = function(cx, "closed", {x}, {x.type()}, cube)[0];
  GraphTensor closed_loss = closed.sum();
  const std::string text = message_of([&] { (void)cx.run_pass(Autograd({x}, closed_loss)); });
  EXPECT_TRUE(
      has(text, "[function] 'closed' has no gradient rule; give it one, or cut the path with stop_gradient"))
      << text;
}

TEST_F(UserCode, MisuseIsExplained) {
  GraphTensor x = cx.tensor({3});
  EXPECT_TRUE(has(message_of([&] { (void)function(cx, "none", {x}, {}, sort_values); }),
                  "[function] 'none' has no output; give the dtype and dims of at least one"));
  EXPECT_TRUE(has(message_of([&] { (void)function(cx, "empty", {x}, {x.type()}, {}); }),
                  "[function] 'empty' has no code to run; give it a callable"));
  EXPECT_TRUE(has(message_of([&] {
                    (void)function(cx, "two", {x}, {x.type(), x.type()}, sort_values, [](Gradient&) {});
                  }),
                  "'two' has a gradient rule and 2 outputs"));
  GraphTensor grown =
      function(cx, "grows", {x}, {x.type()}, [](auto, auto outputs) { outputs[0].bytes.resize(99); })[0];
  grown.retrieve();
  x.set({1, 2, 3});
  EXPECT_TRUE(has(message_of([&] { cx.execute(); }), "[function] 'grows' left 99 bytes in output 0"));
}

TEST_F(UserCode, CustomKernelRunsItsReference) {
  GraphTensor x = cx.tensor({3});
  CustomKernel kernel;
  kernel.name = "sort";
  kernel.sources = {{"cuda", "..."}, {"opencl", "..."}};
  kernel.outputs = {x.type()};
  kernel.work_items = {3};
  kernel.reference = sort_values;
  GraphTensor sorted = custom_kernel(cx, kernel, std::vector{x})[0];
  sorted.retrieve();
  x.set({3, 1, 2});
  cx.execute();
  EXPECT_EQ(sorted.data<float>(), (std::vector<float>{1, 2, 3}));
}

TEST_F(UserCode, CustomKernelWithoutReferenceSaysWhereItRuns) {
  GraphTensor x = cx.tensor({3});
  CustomKernel kernel;
  kernel.name = "fast";
  kernel.outputs = {x.type()};
  EXPECT_TRUE(has(message_of([&] { (void)custom_kernel(cx, kernel, std::vector{x}); }),
                  "[custom_kernel] 'fast' has neither a source nor a reference function; give it one"));
  kernel.sources = {{"cuda", "..."}, {"opencl", "..."}};
  GraphTensor y = custom_kernel(cx, kernel, std::vector{x})[0];
  y.retrieve();
  x.set({3, 1, 2});
  EXPECT_TRUE(
      has(message_of<DeviceError>([&] { cx.execute(); }),
          "[custom_kernel] 'fast' has sources for cuda, opencl and no reference function; run the graph on "
          "such a device or give the kernel a reference"));
}

TEST_F(UserCode, PrintShowsMessageAndValue) {
  GraphTensor x = cx.tensor({2, 2});
  x.set({{1, 2}, {3, 4.5}});
  (void)cx.add_op(kPrint).input(x.t()).attribute("message", std::string("x is")).finish();
  testing::internal::CaptureStdout();
  cx.execute();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "x is: f32[2, 2] [[1, 3], [2, 4.5]]\n");
}

}  // namespace
}  // namespace luminal
