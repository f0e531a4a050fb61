#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "backends/device.h"
#include "codegen/schedule.h"
#include "kernel/overflow.h"
#include "luminal/luminal.h"
#include "search/encode/kernel_graph.h"
#include "search/verification/verify.h"
#include "support/kernel_like.h"

// What sums leave open where finite numbers overflow is no fault of a kernel; all else still is.
namespace luminal::search {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Specs without names in a graph: the oracle has no answer for them.
Unit nameless(const kernel::KernelSpec& spec) {
  Unit unit{.tensors = {}, .kernels = {{}}};
  for (const kernel::Slot& slot : spec.slots()) {
    unit.kernels[0].inputs.push_back(static_cast<int>(unit.tensors.size()));
    unit.tensors.push_back({.type = {slot.dtype, {slot.elements}}, .value = {}});
  }
  unit.kernels[0].outputs.push_back(static_cast<int>(unit.tensors.size()));
  unit.tensors.push_back({.type = {spec.result().dtype(), {spec.outputs()[0].elements}}, .value = {}});
  unit.kernels[0].spec = spec;
  return unit;
}

class OpenElements : public testing::Test {
 protected:
  OpenElements() {
    const auto a = graph_.tensor({48, 56}), b = graph_.tensor({56, 40});
    auto product = a.matmul(b).retrieve();
    spec_ = encode(graph_).tensors.back().spec;
    const codegen::Schedule& nest = codegen::find_schedule("nest");
    codegen::Parameters plain = nest.candidates(spec_, {}, device_->target()).front().parameters;
    plain["lanes"] = 1;
    plainest_ = device_->compile(nest.lower(spec_, plain, {}, device_->target()));
  }

  [[nodiscard]] VerificationSuite suite(uint64_t seed, std::string kind) const {
    return prepare_suite(graph_, {}, nameless(spec_), {.seed = seed, .kinds = {std::move(kind)}});
  }
  [[nodiscard]] Verdict reference(const VerificationSuite& suite) const {
    const backends::Kernel* list[] = {plainest_.get()};
    return verify(suite, list, {.keep_outputs = true, .launches = 0});
  }
  [[nodiscard]] std::vector<std::shared_ptr<const backends::Kernel>> contractions() const {
    const codegen::Schedule& contract = codegen::find_schedule("contract");
    std::vector<std::shared_ptr<const backends::Kernel>> kernels;
    for (const codegen::Candidate& candidate : contract.candidates(spec_, {}, device_->target()))
      kernels.push_back(device_->compile(contract.lower(spec_, candidate.parameters, {}, device_->target())));
    return kernels;
  }

  Graph graph_;
  kernel::KernelSpec spec_;
  std::shared_ptr<backends::Device> device_ = backends::find_device("cpu");
  std::shared_ptr<const backends::Kernel> plainest_;
};

TEST_F(OpenElements, ContractionsStandWhereOverflowHangsOnTheOrder) {
  const auto kernels = contractions();
  ASSERT_GT(kernels.size(), 3U);
  int64_t differ = 0;
  for (const char* kind : {"extreme", "special"})
    for (uint64_t seed = 0; seed < 6; ++seed) {
      const VerificationSuite cases = suite(seed, kind);
      const Verdict plain = reference(cases);
      ASSERT_FALSE(plain.fault) << plain.fault->message;
      for (const auto& kernel : kernels) {
        const backends::Kernel* list[] = {kernel.get()};
        const Verdict verdict =
            verify(cases, list, {.reference = &plain, .keep_outputs = true, .launches = 0});
        EXPECT_FALSE(verdict.fault) << verdict.fault->message;
        if (verdict.fault) continue;
        const auto got = verdict.outputs[0][2].as<float>(), expected = plain.outputs[0][2].as<float>();
        for (size_t i = 0; i < got.size(); ++i)
          differ += std::isfinite(got[i]) != std::isfinite(expected[i]) ||
                    std::isnan(got[i]) != std::isnan(expected[i]);
      }
    }
  EXPECT_GT(differ, 0) << "these inputs do not show what the test is about";
}

/// A contraction that makes another infinity or a NaN of one element.
class Spoiled : public luminal::test::KernelLike {
 public:
  Spoiled(std::shared_ptr<const backends::Kernel> kernel, int64_t position, float value)
      : KernelLike(std::move(kernel)), position_(position), value_(value) {}
  void run(int stage, const backends::LaunchArguments& arguments, int64_t begin, int64_t end) const override {
    KernelLike::run(stage, arguments, begin, end);
    if (stage + 1 == stage_count()) static_cast<float*>(arguments.buffers[2])[position_] = value_;
  }

 private:
  int64_t position_;
  float value_;
};

TEST_F(OpenElements, WhatNoOrderMakesIsAFault) {
  const VerificationSuite cases = suite(0, "special");
  const Verdict plain = reference(cases);
  ASSERT_FALSE(plain.fault);
  const TensorData* slots[] = {cases.cases[0].tensors[0].get(), cases.cases[0].tensors[1].get()};
  kernel::OverflowFinder finder(spec_, slots, {});
  const auto results = plain.outputs[0][2].as<float>();
  int tried[3] = {0, 0, 0};  // of numbers, infinities, NaN
  for (size_t i = 0; i < results.size(); i += 7) {
    const auto position = static_cast<int64_t>(i);
    const float right = results[i];
    int& count = tried[std::isnan(right) ? 2 : std::isinf(right) ? 1 : 0];
    if (count == 3 || finder.overflows(0, position).value()) continue;
    ++count;
    for (const float wrong : {kInfinity, -kInfinity, std::nanf("")}) {
      if (wrong == right || (std::isnan(wrong) && std::isnan(right))) continue;
      const Spoiled spoiled(plainest_, position, wrong);
      const backends::Kernel* list[] = {&spoiled};
      EXPECT_TRUE(verify(cases, list, {.reference = &plain, .launches = 0}).fault)
          << wrong << " instead of " << right << " at " << position;
    }
  }
  for (const int count : tried) EXPECT_GT(count, 0);
}

/// The sum of a row as a spec, asked about rows.
class RowSums : public testing::Test {
 protected:
  bool is_open(const std::function<GraphTensor(GraphTensor)>& fold, std::vector<float> row) {
    Graph graph;
    const auto columns = static_cast<int64_t>(row.size());
    auto y = fold(graph.tensor({1, columns})).retrieve();
    const kernel::KernelSpec spec = encode(graph).tensors.back().spec;
    TensorData data(Dtype::F32, {1, columns});
    std::ranges::copy(row, data.as<float>().begin());
    const TensorData* slots[] = {&data};
    return kernel::OverflowFinder(spec, slots, {}).overflows(0, 0).value();
  }
  static GraphTensor sum(GraphTensor x) { return x.sum(1); }
  static GraphTensor squares(GraphTensor x) { return (x * x).sum(1); }
  static GraphTensor product(GraphTensor x) { return x.prod(1); }
};

TEST_F(RowSums, AreOpenWhereFiniteNumbersOverflow) {
  EXPECT_TRUE(is_open(sum, {3e38F, 3e38F, -3e38F, 1}));    // an infinity first, or 3e38
  EXPECT_TRUE(is_open(squares, {1e30F, 1, 2}));            // the product alone
  EXPECT_FALSE(is_open(sum, {3e38F, 1e37F, -1e37F, 1}));   // no order leaves the range
  EXPECT_FALSE(is_open(sum, {kInfinity, -kInfinity, 1}));  // NaN in every order
  EXPECT_FALSE(is_open(squares, {kInfinity, 1e18F, 0}));   // an infinity in every order
  EXPECT_TRUE(is_open(product, {1e30F, 1e30F, 1e-30F}));   // an infinity first
  EXPECT_TRUE(is_open(product, {1e-30F, 1e-30F, 1e30F}));  // 0 first
  EXPECT_FALSE(is_open(product, {1e30F, 1e-30F, 1e5F, 0}));
}

TEST_F(RowSums, SaysNothingWhereThatTakesTooLong) {
  Graph graph;
  auto y = graph.tensor({4, 100}).sum(1).retrieve();
  const kernel::KernelSpec spec = encode(graph).tensors.back().spec;
  const TensorData data(Dtype::F32, {4, 100});
  const TensorData* slots[] = {&data};
  kernel::OverflowFinder finder(spec, slots, {}, 250);
  EXPECT_EQ(finder.overflows(0, 0), false);
  EXPECT_EQ(finder.overflows(0, 0), false);  // known by now
  EXPECT_EQ(finder.overflows(0, 1), false);
  EXPECT_EQ(finder.overflows(0, 2), std::nullopt);
}

}  // namespace
}  // namespace luminal::search
