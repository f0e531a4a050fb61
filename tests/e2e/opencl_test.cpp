#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "backends/device.h"
#include "luminal/compile_report.h"
#include "luminal/luminal.h"
#include "support/environment.h"
#include "support/opencl.h"

/// Graphs on the OpenCL device against the reference.
namespace luminal {
namespace {

std::vector<float> values(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> all(static_cast<size_t>(count));
  for (float& x : all) x = normal(random);
  return all;
}

/// Compiled for the device, and interpreted by the reference.
template <class Mode>
void expect_reference(Graph& cx, const GraphTensor& y, Mode mode, float tolerance = 1e-4F) {
  cx.set_device("opencl");
  Compiled compiled = cx.compile(mode);
  compiled();
  EXPECT_EQ(compiled.details().device, "opencl");
  const std::vector<float> got = y.data<float>();
  cx.set_device("reference");
  cx.execute();
  EXPECT_THAT(got, testing::Pointwise(testing::FloatNear(tolerance), y.data<float>()));
}

// The first one here, since a process opens its cache once. A driver may finish a kernel's code with its first launch, which takes some thousand times as long as this product does.
TEST(OpenClGraphs, FirstLaunchesAreNotTimed) {
  LUMINAL_NEEDS_OPENCL();
  const test::EnvironmentVariable cold("LUMINAL_CACHE", "off");
  Graph cx;
  cx.set_device("opencl");
  const GraphTensor x = cx.tensor({64, 64}).set(values(64 * 64, 1)),
                    w = cx.tensor({64, 64}).set(values(64 * 64, 2));
  const GraphTensor y = matmul(x, w).retrieve();
  const Compiled compiled = cx.compile(Optimal{});
  const CompileReport report = compiled.details();
  ASSERT_EQ(report.kernels.size(), 1U);
  std::vector<double> times;
  for (const KernelReport::Rejected& other : report.kernels[0].rejected)
    if (other.measured_us > 0) times.push_back(other.measured_us);
  ASSERT_FALSE(times.empty());
  std::ranges::sort(times);  // one of them may have been disturbed
  EXPECT_LT(times[times.size() / 2], 500 * report.kernels[0].measured_us);
}

TEST(OpenClGraphs, MatrixProductsSoftmaxAndLayerNorm) {
  LUMINAL_NEEDS_OPENCL();
  Graph cx;
  const GraphTensor x = cx.tensor({33, 70}).set(values(33 * 70, 1)),
                    w = cx.tensor({70, 50}).set(values(70 * 50, 2));
  const GraphTensor y = matmul(x, w).layer_norm(1).softmax(1).retrieve();
  expect_reference(cx, y, Fast{});
}

TEST(OpenClGraphs, ConvolutionsAndTheirGradients) {
  LUMINAL_NEEDS_OPENCL();
  Graph cx;
  const GraphTensor x = cx.tensor({2, 3, 9, 8}).set(values(2 * 3 * 9 * 8, 1));
  const GraphTensor w = cx.tensor({5, 3, 3, 3}).set(values(5 * 3 * 3 * 3, 2));
  const GraphTensor y = conv2d(x, w, {.stride = {2, 2}, .padding = {1, 1}}).relu();
  const GraphTensor loss = (y * y).sum();
  const std::vector<GraphTensor> gradients = cx.run_pass(Autograd({x, w}, loss));
  (void)GraphTensor(gradients[0]).retrieve();
  expect_reference(cx, GraphTensor(gradients[1]).retrieve(), Fast{}, 1e-2F);  // of magnitudes around 100
}

TEST(OpenClGraphs, AttentionOfNamedSizes) {
  LUMINAL_NEEDS_OPENCL();
  Graph cx;
  GraphTensor q = cx.tensor({"n", 16}), k = cx.tensor({"n", 16});
  const GraphTensor y = (matmul(q, k.transpose(0, 1)) * 0.25F).softmax(1).sum(0).retrieve();
  q.set_dyn(values(11 * 16, 1), {11, 16}), k.set_dyn(values(11 * 16, 2), {11, 16});
  expect_reference(cx, y, Fast{});
}

/// The loss of each of a few steps.
std::vector<double> losses_on(const std::string& device) {
  Graph cx;
  cx.set_seed(7);
  cx.set_device(device);
  const nn::Linear model(cx, 12, 5);
  GraphTensor x = cx.tensor({8, 12}), target = cx.tensor({8}, Dtype::I64);
  const GraphTensor loss = training::cross_entropy(model.forward(x), target);
  training::Trainer trainer(cx, model, loss, training::use<training::AdamW>({.learning_rate = 1e-2}),
                            {.clip_norm = 1});
  const auto feed = [&](int64_t step) {
    x.set(values(8 * 12, static_cast<uint64_t>(step)));
    target.set(std::vector<int64_t>{0, 1, 2, 3, 4, 0, 1, 2});
  };
  std::vector<double> losses;
  trainer.fit({.steps = 4, .feed = feed, .seen = [&](const training::Trainer::Progress& p) {
                 losses.push_back(p.loss);
               }});
  return losses;
}

TEST(OpenClGraphs, TrainingStepsGiveTheReferencesLosses) {
  LUMINAL_NEEDS_OPENCL();
  const std::vector<double> got = losses_on("opencl"), want = losses_on("reference");
  ASSERT_EQ(got.size(), 4U);
  EXPECT_THAT(got, testing::Pointwise(testing::DoubleNear(1e-4), want));
  EXPECT_GT(std::abs(want[0] - want[3]), 1e-3);  // the weights have changed
}

TEST(OpenClGraphs, SearchedAndVerified) {
  LUMINAL_NEEDS_OPENCL();
  const test::EnvironmentVariable cold("LUMINAL_CACHE", "off");
  Graph cx;
  const GraphTensor x = cx.tensor({24, 40}).set(values(24 * 40, 1)),
                    w = cx.tensor({40, 32}).set(values(40 * 32, 2));
  const GraphTensor y = matmul(x, w).relu().softmax(1).retrieve();
  expect_reference(cx, y, Optimal{});
}

/// Schedules for blocks of threads take part, and the clock decides.
TEST(OpenClGraphs, SearchesTimeBlocksOfThreads) {
  LUMINAL_NEEDS_OPENCL();
  const test::EnvironmentVariable cold("LUMINAL_CACHE", "off");
  Graph cx;
  cx.set_device("opencl");
  // More than any last cache holds: memory makes the schedules alike, so that those of every family are worth timing.
  constexpr int64_t kRows = 8192, kColumns = 4096;
  const GraphTensor x = cx.tensor({kRows, kColumns}).set(values(kRows * kColumns, 1));
  const GraphTensor y = (x * 2 + 1).relu().retrieve();
  const Compiled compiled = cx.compile(Optimal{});
  const CompileReport report = compiled.details();
  ASSERT_EQ(report.kernels.size(), 1U);
  std::vector<std::string> timed{report.kernels[0].schedule};
  for (const KernelReport::Rejected& other : report.kernels[0].rejected)
    if (other.measured_us > 0) timed.push_back(other.schedule);
  EXPECT_THAT(timed, testing::Contains("block_map"));
  EXPECT_THAT(timed, testing::Contains("map"));
}

}  // namespace
}  // namespace luminal
