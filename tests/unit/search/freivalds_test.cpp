#include "search/verification/freivalds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "kernel/evaluate.h"
#include "luminal/luminal.h"
#include "pipeline.h"

namespace luminal::search {
namespace {

using Build = std::function<GraphTensor(Graph&)>;

/// The one kernel that a graph is.
kernel::KernelSpec spec_of(const Build& build) {
  Graph cx;
  (void)build(cx).retrieve();
  const test::Searched s = test::search(cx);
  const Cover cover = find_cover(s.saturated.cover, *s.store, test::roofline(), {});
  EXPECT_EQ(cover.kernels.size(), 1U);
  return s.store->at(cover.kernels[0].spec);
}

std::vector<TensorData> integers_for(const kernel::KernelSpec& spec) {
  std::mt19937_64 random(7);
  std::vector<TensorData> made;
  for (const kernel::Slot& slot : spec.slots()) {
    TensorData data(Dtype::F32, {slot.elements.exec({})});
    for (float& x : data.as<float>())
      x = static_cast<float>(std::uniform_int_distribution<int>(-3, 3)(random));
    made.push_back(std::move(data));
  }
  return made;
}

TensorData made_of(const SplitContraction::Part& part, const std::vector<TensorData>& tensors) {
  std::vector<TensorData> slots;
  for (const int t : part.inputs) slots.push_back(tensors[static_cast<size_t>(t)]);
  return kernel::evaluate(part.spec, slots).at(0);
}

struct Case {
  const char* name;
  Build build;
};
const std::vector<Case>& cases() {
  static const std::vector<Case> list{
      {"product", [](Graph& cx) { return cx.tensor({5, 7}).matmul(cx.tensor({7, 6})); }},
      {"batched, transposed",
       [](Graph& cx) { return cx.tensor({3, 5, 7}).matmul(cx.tensor({3, 6, 7}).transpose(1, 2)); }},
      {"with a rest",
       [](Graph& cx) {
         return (cx.tensor({5, 7}).matmul(cx.tensor({7, 6})) + cx.tensor({6}).expand({5, 6})).relu();
       }},
      {"of a computed side", [](Graph& cx) { return cx.tensor({5, 7}).relu().matmul(cx.tensor({7, 6})); }},
      {"of a padded side",
       [](Graph& cx) { return cx.tensor({5, 6}).pad({{0, 0}, {1, 0}}).matmul(cx.tensor({7, 6})); }},
  };
  return list;
}

TEST(Freivalds, ThePartsOfAContractionMakeTheWhole) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const kernel::KernelSpec spec = spec_of(c.build);
    const auto split = split_contraction(spec);
    ASSERT_TRUE(split) << spec.to_string();
    std::vector<TensorData> tensors = integers_for(spec);
    const TensorData whole = kernel::evaluate(spec, tensors).at(0);
    tensors.push_back(made_of(split->sum, tensors));
    EXPECT_EQ(made_of(split->rest, tensors).bytes, whole.bytes);
  }
}

TEST(Freivalds, OneWrongElementOfASumIsSeen) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const kernel::KernelSpec spec = spec_of(c.build);
    const auto split = split_contraction(spec);
    ASSERT_TRUE(split);
    std::vector<TensorData> tensors = integers_for(spec);
    tensors.push_back(made_of(split->sum, tensors));
    TensorData x(Dtype::F64, {split->column_count.exec({})});
    for (size_t i = 0; i < x.as<double>().size(); ++i) x.as<double>()[i] = static_cast<double>(3 + i * i);
    tensors.push_back(std::move(x));
    tensors.push_back(made_of(split->right_sums, tensors));
    const TensorData left = made_of(split->left_sums, tensors);
    EXPECT_EQ(left.element_count(), split->row_count.exec({}));
    EXPECT_EQ(made_of(split->result_sums, tensors).bytes, left.bytes);
    const auto sum = static_cast<size_t>(split->sum_tensor());
    for (size_t i = 0; i < tensors[sum].as<float>().size(); ++i) {
      tensors[sum].as<float>()[i] += 1;
      EXPECT_NE(made_of(split->result_sums, tensors).bytes, left.bytes) << "element " << i;
      tensors[sum].as<float>()[i] -= 1;
    }
  }
}

TEST(Freivalds, WhatIsNoSumOfProductsIsNotSplit) {
  for (const Build& build :
       std::initializer_list<Build>{[](Graph& cx) { return cx.tensor({5, 7}).sum(1); },
                                    [](Graph& cx) { return cx.tensor({5, 7}).max(1); },
                                    [](Graph& cx) { return cx.tensor({5, 7}).matmul(cx.tensor({7, 1})); },
                                    [](Graph& cx) { return cx.tensor({5, 7}).softmax(1); }})
    EXPECT_FALSE(split_contraction(spec_of(build)));
}

}  // namespace
}  // namespace luminal::search
