#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "backends/device.h"
#include "backends/opencl/device.h"
#include "luminal/luminal.h"

/// Graphs on the OpenCL device against the reference.
namespace luminal {
namespace {

bool has_opencl_device() {
  static const bool has = [] {
    if (!backends::has_opencl()) return false;
    try {
      return backends::find_device("opencl") != nullptr;
    } catch (const DeviceError&) {
      return false;
    }
  }();
  return has;
}
#define LUMINAL_NEEDS_OPENCL() \
  if (!has_opencl_device()) GTEST_SKIP() << "this machine has no OpenCL device (Debian: pocl-opencl-icd)"

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

TEST(OpenClGraphs, MatrixProductsSoftmaxAndLayerNorm) {
  LUMINAL_NEEDS_OPENCL();
  Graph cx;
  const GraphTensor x = cx.tensor({33, 70}).set(values(33 * 70, 1)),
                    w = cx.tensor({70, 50}).set(values(70 * 50, 2));
  const GraphTensor y = matmul(x, w).layer_norm(1).softmax(1).retrieve();
  expect_reference(cx, y, Fast{});
}

TEST(OpenClGraphs, SearchedAndVerified) {
  LUMINAL_NEEDS_OPENCL();
  Graph cx;
  const GraphTensor x = cx.tensor({24, 40}).set(values(24 * 40, 1)),
                    w = cx.tensor({40, 32}).set(values(40 * 32, 2));
  const GraphTensor y = matmul(x, w).relu().softmax(1).retrieve();
  expect_reference(cx, y, Optimal{});
}

}  // namespace
}  // namespace luminal
