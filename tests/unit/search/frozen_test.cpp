#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/environment.h"
#include "luminal/compile_report.h"
#include "luminal/luminal.h"
#include "search/session.h"
#include "support/deferred_device.h"

// Weights are packed for their kernels once, and again when they are given other data.
namespace luminal::search {
namespace {

constexpr int64_t kFrozenRows = 64, kFrozenInner = 512, kFrozenColumns = 512;

TensorData drawn_small(std::vector<int64_t> dims, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<int> small(-8, 8);  // products and their sums are exact
  TensorData data(Dtype::F32, std::move(dims));
  for (float& value : data.as<float>()) value = static_cast<float>(small(random));
  return data;
}

/// What plain loops make of it.
std::vector<float> plain_product(const TensorData& x, const TensorData& w) {
  std::vector<float> y(static_cast<size_t>(x.dims[0] * w.dims[1]));
  const auto a = x.as<float>(), b = w.as<float>();
  for (int64_t i = 0; i < x.dims[0]; ++i)
    for (int64_t k = 0; k < w.dims[0]; ++k)
      for (int64_t j = 0; j < w.dims[1]; ++j)
        y[static_cast<size_t>(i * w.dims[1] + j)] +=
            a[static_cast<size_t>(i * w.dims[0] + k)] * b[static_cast<size_t>(k * w.dims[1] + j)];
  return y;
}

class Frozen : public ::testing::Test {
 protected:
  void SetUp() override { cx.set_device("cpu"); }
  void give(uint64_t seed) {
    weights = drawn_small({kFrozenInner, kFrozenColumns}, seed);
    w.set(weights);
  }
  Compiled compile(CompilationMode mode = Fast{}) {
    y.retrieve();
    return cx.compile(mode);
  }
  void expect_product() {
    cx.execute();
    EXPECT_EQ(y.data<float>(), plain_product(inputs, weights));
  }

  Graph cx;
  TensorData inputs = drawn_small({kFrozenRows, kFrozenInner}, 1),
             weights = drawn_small({kFrozenInner, kFrozenColumns}, 2);
  GraphTensor x = cx.tensor({kFrozenRows, kFrozenInner}).set(inputs);
  GraphTensor w = cx.tensor({kFrozenInner, kFrozenColumns}).set_lazily([data = weights] { return data; });
  GraphTensor y = x.matmul(w);
};

TEST_F(Frozen, WeightsArePackedOnce) {
  const Compiled compiled = compile();
  EXPECT_GE(compiled.details().kept_bytes, kFrozenInner * kFrozenColumns * 4);
  expect_product();
  inputs = drawn_small({kFrozenRows, kFrozenInner}, 3);
  x.set(inputs);
  expect_product();
}

TEST_F(Frozen, OtherWeightsArePackedAnew) {
  const Compiled compiled = compile();
  expect_product();
  give(4);
  expect_product();
  w.set_lazily([data = weights = drawn_small({kFrozenInner, kFrozenColumns}, 5)] { return data; });
  expect_product();
}

TEST_F(Frozen, SoAreThoseMarkedKeep) {
  GraphTensor v = cx.tensor({kFrozenInner, kFrozenColumns}).set(weights);
  y = x.matmul(v);
  EXPECT_EQ(compile().details().kept_bytes, 0) << "an input that may have other data in each run";
  v.keep();
  EXPECT_GT(compile().details().kept_bytes, 0);
  expect_product();
}

TEST_F(Frozen, NothingIsKeptOfWhatARunWrites) {
  w.assign(w + 1);
  EXPECT_EQ(compile().details().kept_bytes, 0);
  expect_product();
  for (float& value : weights.as<float>()) value += 1;
  expect_product();
}

/// Of one bucket and of several. Results are those of packed weights whatever was packed for other sizes.
TEST_F(Frozen, AllSizesShareWhatTheyPackAlike) {
  GraphTensor rows = cx.named_tensor("rows", {"n", kFrozenInner});
  y = rows.matmul(w);
  const auto run = [&](int64_t n) {
    inputs = drawn_small({n, kFrozenInner}, static_cast<uint64_t>(n));
    rows.set(inputs);
    expect_product();
  };
  rows.set(inputs);
  const Compiled compiled = compile();
  const int64_t packed = compiled.details().kept_bytes;
  EXPECT_GE(packed, kFrozenInner * kFrozenColumns * 4);
  for (const int64_t n : {64, 48, 64, 33, 128, 200, 64, 7, 1}) run(n);
  give(8);
  for (const int64_t n : {64, 128, 7}) run(n);
}

TEST_F(Frozen, NothingIsKeptWhereTheProgramSaysSo) {
  cx.set_search({.pack_weights_once = false});
  EXPECT_EQ(compile().details().kept_bytes, 0);
  expect_product();
}

TEST_F(Frozen, MeasuredPlansKeepThemToo) {
  const Compiled compiled = compile(Optimal{});
  EXPECT_GT(compiled.details().kept_bytes, 0);
  expect_product();
  give(6);
  expect_product();
}

TEST_F(Frozen, RememberedPlansKeepThemToo) {
  if (environment::cache_folder().empty()) GTEST_SKIP() << "LUMINAL_CACHE is off: nothing is remembered";
  const Compiled compiled = compile(Optimal{});
  const Compiled again = compile(Optimal{});
  EXPECT_EQ(again.details().plan_key, compiled.details().plan_key) << "what was found is remembered";
  EXPECT_EQ(again.details().kept_bytes, compiled.details().kept_bytes);
  expect_product();
  give(6);
  expect_product();
}

/// Where the device's memory is its own.
TEST_F(Frozen, OtherDevicesPackThemInTheirMemory) {
  luminal::test::add_deferred_device();
  cx.set_device("deferred");
  const Compiled compiled = compile();
  EXPECT_GT(compiled.details().kept_bytes, 0);
  expect_product();
  expect_product();
  give(7);
  expect_product();
}

}  // namespace
}  // namespace luminal::search
