#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "luminal/convolution.h"
#include "luminal/tensor_functions.h"
#include "search/tuning/implementation.h"
#include "unit/search/pipeline.h"

/// What is computed anew inside a kernel, and what is stored once before it.
namespace luminal::search {
namespace {

/// The sums of products of a plan by the model, with the number of tensors that each reads.
struct Products {
  size_t kernels = 0;
  std::vector<size_t> slots;
};

Products products_of(const std::function<void(Graph&)>& build) {
  Graph cx;
  build(cx);
  const auto searched = test::search(cx);
  const codegen::Target target{.vector_bytes = 64,
                               .vector_registers = 32,
                               .threads = 2,
                               .l1_bytes = 48 << 10,
                               .l2_bytes = 2 << 20,
                               .l3_bytes = 105 << 20};
  kernel::MachineLimits limits;
  limits.flops_per_us = 300e3;
  limits.cache_bytes_per_us = 80e3;
  limits.memory_bytes_per_us = 30e3;
  const SpecCost rough = [&](const kernel::KernelSpec& spec) {
    return kernel::predicted_us(spec, {}, limits);
  };
  const SpecCost as_run = [&](const kernel::KernelSpec& spec) {
    return best_by_model(spec, {}, target).predicted_us;
  };
  const Cover cover = find_cover(searched.saturated.cover, *searched.store, CoverCosts{rough, as_run}, {});
  Products products{.kernels = cover.kernels.size(), .slots = {}};
  for (const CoverKernel& kernel : cover.kernels) {
    const kernel::KernelSpec& spec = searched.store->at(kernel.spec);
    if (std::ranges::any_of(spec.values(), [](const kernel::Value& v) { return v.monoid.has_value(); }))
      products.slots.push_back(spec.slots().size());
  }
  return products;
}

GraphTensor window(const GraphTensor& x, int64_t channels) {
  return conv2d(x, x.graph().tensor({32, channels, 3, 3}), {.padding = {1, 1}}).relu();
}

GraphTensor enlarged(Graph& cx) {
  return interpolate(cx.tensor({4, 64, 32, 32}), {64, 64}, {.mode = Interpolation::Linear});
}

// Nine windows read each element: four gathered loads for each of them cost more than one store.
TEST(Recompute, AnInterpolationIsStoredOnceBeforeAConvolution) {
  const Products plain = products_of([](Graph& cx) { window(enlarged(cx), 64).retrieve(); });
  EXPECT_GE(plain.kernels, 2U);
  EXPECT_EQ(plain.slots, std::vector<size_t>{2});
  const Products joined = products_of(
      [](Graph& cx) { window(concat({cx.tensor({4, 64, 64, 64}), enlarged(cx)}, 1), 128).retrieve(); });
  EXPECT_GE(joined.kernels, 2U);
  EXPECT_EQ(joined.slots, std::vector<size_t>{2});
}

TEST(Recompute, WhatIsMadeOfOneLoadIsComputedInsideAConvolution) {
  const auto one_kernel = [](const std::function<GraphTensor(const GraphTensor&)>& before) {
    return products_of([&](Graph& cx) { window(before(cx.tensor({4, 64, 64, 64})), 64).retrieve(); }).kernels;
  };
  EXPECT_EQ(one_kernel([](const GraphTensor& x) { return x; }), 1U);
  EXPECT_EQ(one_kernel([](const GraphTensor& x) { return x.relu(); }), 1U);
  EXPECT_EQ(one_kernel([](const GraphTensor& x) { return x * 0.5F; }), 1U);
  EXPECT_EQ(one_kernel([](const GraphTensor& x) {
              return x.slice({{0, 4}, {0, 64}, {2, 62}, {0, 64}}).pad({{0, 0}, {0, 0}, {2, 2}, {0, 0}});
            }),
            1U);
}

TEST(Cover, ManyLaunchesMayWaitForOne) {
  Graph cx;
  GraphTensor sum = cx.tensor({512, 1024}).sum(0);
  sum.retrieve();
  constexpr int64_t kReaders = 300;
  for (int64_t i = 1; i <= kReaders; ++i) (sum.slice({{0, i}}) * 2.0F).retrieve();
  const auto searched = test::search(cx);
  const Cover cover =
      find_cover(searched.saturated.cover, *searched.store, test::roofline(), {.merge = false});
  EXPECT_EQ(cover.steps.size(), static_cast<size_t>(kReaders) + 1);
}

}  // namespace
}  // namespace luminal::search
