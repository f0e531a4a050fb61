#include "search/verification/freivalds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>

#include "kernel/evaluate.h"
#include "luminal/luminal.h"
#include "pipeline.h"
#include "search/verification/batch.h"
#include "search/verification/contain.h"
#include "support/evaluating_kernel.h"

namespace luminal::search {
namespace {

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
  test::Formula build;
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
    const kernel::KernelSpec spec = test::one_kernel_of(c.build);
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
    const kernel::KernelSpec spec = test::one_kernel_of(c.build);
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
  for (const test::Formula& build : std::initializer_list<test::Formula>{
           [](Graph& cx) { return cx.tensor({5, 7}).sum(1); },
           [](Graph& cx) { return cx.tensor({5, 7}).max(1); },
           [](Graph& cx) { return cx.tensor({5, 7}).matmul(cx.tensor({7, 1})); },
           [](Graph& cx) { return cx.tensor({5, 7}).softmax(1); }})
    EXPECT_FALSE(split_contraction(test::one_kernel_of(build)));
}

/// A product that is nothing but a sum, verified beside a peer and kernels for its parts.
class ProductsAlone : public testing::Test {
 protected:
  static constexpr int64_t kRows = 20, kSummed = 30, kColumns = 24;
  static size_t odd() { return test::unseen_element(kRows, kColumns); }

  ProductsAlone() : spec_(test::one_kernel_of(build)), split_(split_contraction(spec_).value()) {}

  static GraphTensor build(Graph& cx) {
    return cx.tensor({kRows, kSummed}).matmul(cx.tensor({kSummed, kColumns}));
  }

  FullVerdict verdict(const test::Change& candidate, const test::Change& peer) {
    Graph cx;
    const auto x = cx.tensor({kRows, kSummed}), w = cx.tensor({kSummed, kColumns});
    const auto y = x.matmul(w).retrieve();
    Subject subject{.graph = &cx, .unit = {}, .sizes = {{}}, .options = {}};
    for (const GraphTensor& t : {x, w, y}) {
      const Value value = t.edge().source;
      subject.unit.tensors.push_back({cx.type(value), value, {}});
    }
    const bool x_first = spec_.slots()[0].elements.exec({}) == kRows * kSummed;
    const std::vector<int> inputs = x_first ? std::vector{0, 1} : std::vector{1, 0};
    subject.unit.kernels = {{.inputs = inputs, .outputs = {2}, .spec = spec_}};
    const auto tried = test::evaluating(spec_, candidate),
               other = test::evaluating(spec_, peer, &runs_of_peer_);
    const auto sum = test::evaluating(split_.sum.spec, {}, &runs_of_sum_),
               rest = test::evaluating(split_.rest.spec), right = test::evaluating(split_.right_sums.spec),
               left = test::evaluating(split_.left_sums.spec),
               result = test::evaluating(split_.result_sums.spec);
    const FullCheck check{.subject = &subject,
                          .candidate = tried.get(),
                          .independent = {other.get()},
                          .peer = 0,
                          .split = SplitKernels{.parts = &split_,
                                                .sums = {sum.get()},
                                                .rest = rest.get(),
                                                .right_sums = right.get(),
                                                .left_sums = left.get(),
                                                .result_sums = result.get()},
                          .options = {.threads = 1, .in_parts = false, .soak = std::chrono::milliseconds(0)}};
    return verify_in_full({&check, 1}, 1)[0];
  }

  /// Right on small integers, which come first.
  static void spoil_between_integers(float first_input, std::span<float> made) {
    if (std::isfinite(first_input) && first_input != std::floor(first_input)) made[odd()] += 10;
  }

  const kernel::KernelSpec spec_;
  const SplitContraction split_;
  const SharedBytes shared_{2 * sizeof(std::atomic<int>)};
  std::atomic<int>& runs_of_peer_ = shared_.as<std::atomic<int>>()[0];
  std::atomic<int>& runs_of_sum_ = shared_.as<std::atomic<int>>()[1];
};

TEST_F(ProductsAlone, AreProvenWithoutAnotherSum) {
  ASSERT_TRUE(split_.is_sum);
  const FullVerdict found = verdict({}, {});
  EXPECT_FALSE(found.fault) << found.fault->message;
  EXPECT_EQ(found.proven, kRows * kColumns);
  EXPECT_EQ(runs_of_sum_, 0);
  EXPECT_GT(runs_of_peer_, 1);
  EXPECT_GE(found.compared, 2 * kRows * kColumns);  // on further kinds of inputs
}

TEST_F(ProductsAlone, ShowWhichElementIsWrong) {
  const FullVerdict found = verdict([](float, std::span<float> made) { made[odd()] += 1; }, {});
  ASSERT_TRUE(found.fault);
  EXPECT_EQ(found.fault->position, static_cast<int64_t>(odd()));
}

TEST_F(ProductsAlone, ShowWhatHasChangedPlaces) {
  for (size_t other = odd() + 1; other < odd() + 8; ++other) {
    const FullVerdict found =
        verdict([&](float, std::span<float> made) { std::swap(made[odd()], made[other]); }, {});
    ASSERT_TRUE(found.fault) << other;
  }
}

TEST_F(ProductsAlone, AreComparedOnFurtherInputs) {
  const FullVerdict found = verdict(spoil_between_integers, {});
  ASSERT_TRUE(found.fault);
  EXPECT_EQ(found.fault->position, static_cast<int64_t>(odd()));
  EXPECT_GT(runs_of_sum_, 0);  // it tells which of the two is wrong
}

TEST_F(ProductsAlone, OutliveAPeerThatIsWrong) {
  const FullVerdict found = verdict({}, spoil_between_integers);
  EXPECT_FALSE(found.fault) << found.fault->message;  // the user's nodes tell
  EXPECT_EQ(found.proven, kRows * kColumns);
}

TEST_F(ProductsAlone, OutliveAPeerThatCrashes) {
  const FullVerdict found = verdict({}, [](float, std::span<float>) { std::abort(); });
  EXPECT_FALSE(found.fault) << found.fault->message;
  EXPECT_NE(found.fell[0], "");
  EXPECT_GT(runs_of_sum_, 0);  // what the candidate is compared with instead
  EXPECT_GE(found.compared, 2 * kRows * kColumns);
}

/// A kernel over the named dim n that computes what its spec says: a task for each of n rows, or one for all.
class NamedEvaluation : public backends::HostKernel {
 public:
  NamedEvaluation(kernel::KernelSpec spec, bool by_rows, std::span<std::atomic<int>> runs = {})
      : spec_(std::move(spec)), by_rows_(by_rows), runs_(runs) {}
  [[nodiscard]] const std::vector<std::string>& dims() const override { return dims_; }
  [[nodiscard]] int stage_count() const override { return 1; }
  [[nodiscard]] int64_t tasks(int, std::span<const int64_t> sizes) const override {
    return by_rows_ ? sizes[0] : 1;
  }
  [[nodiscard]] int64_t shared_bytes(std::span<const int64_t>) const override { return 0; }
  [[nodiscard]] int64_t local_bytes(std::span<const int64_t>) const override { return 0; }
  void run(int, const backends::LaunchArguments& a, int64_t begin, int64_t end) const override {
    const DimMap dims{{"n", a.dims[0]}};
    std::vector<TensorData> slots;
    for (const kernel::Slot& slot : spec_.slots()) {
      TensorData& data = slots.emplace_back(slot.dtype, std::vector{slot.elements.exec(dims)});
      std::memcpy(data.bytes.data(), a.buffers[slots.size() - 1], data.bytes.size());
    }
    const TensorData made = kernel::evaluate(spec_, slots, dims).at(0);
    const size_t row = made.bytes.size() / static_cast<size_t>(tasks(0, {a.dims, 1}));
    const size_t first = static_cast<size_t>(begin) * row, count = static_cast<size_t>(end - begin) * row;
    std::memcpy(static_cast<std::byte*>(a.buffers[slots.size()]) + first, made.bytes.data() + first, count);
    if (!runs_.empty()) runs_[static_cast<size_t>(a.dims[0])] += static_cast<int>(end - begin);
  }
  [[nodiscard]] std::vector<std::byte> binary() const override { return {}; }

 private:
  std::vector<std::string> dims_{"n"};
  kernel::KernelSpec spec_;
  bool by_rows_;
  std::span<std::atomic<int>> runs_;
};

/// The sum is proven once, at the longest of the further sizes. The others then are its beginnings, and run some of the
/// tasks as kernels do whose loops are short enough to be made at each size.
TEST(ProductsOfNamedRows, RunSomeOfTheTasksAtFurtherSizes) {
  constexpr int64_t kSummed = 6, kColumns = 5, kTop = 64, kLeast = 33;
  Graph cx;
  const auto x = cx.tensor({"n", kSummed}), w = cx.tensor({kSummed, kColumns});
  const auto y = x.matmul(w).retrieve();
  const kernel::KernelSpec spec = encode(cx).tensors.back().spec;
  const SplitContraction split = split_contraction(spec).value();
  Subject subject{.graph = &cx, .unit = {}, .sizes = {{{"n", kTop}}}, .options = {}};
  for (int64_t n = kLeast; n < kTop; ++n) subject.sizes.push_back({{"n", n}});
  for (const GraphTensor& t : {x, w, y}) {
    const Value value = t.edge().source;
    subject.unit.tensors.push_back({cx.type(value), value, {}});
  }
  const bool x_first = !spec.slots()[0].elements.constant();
  subject.unit.kernels = {
      {.inputs = x_first ? std::vector{0, 1} : std::vector{1, 0}, .outputs = {2}, .spec = spec}};
  const SharedBytes shared((kTop + 1) * sizeof(std::atomic<int>));
  const auto runs = shared.as<std::atomic<int>>();
  const NamedEvaluation candidate(spec, true, runs), sum(split.sum.spec, false), rest(split.rest.spec, false),
      right(split.right_sums.spec, false), left(split.left_sums.spec, false),
      result(split.result_sums.spec, false);
  const FullCheck check{.subject = &subject,
                        .candidate = &candidate,
                        .independent = {},
                        .peer = std::nullopt,
                        .split = SplitKernels{.parts = &split,
                                              .sums = {&sum},
                                              .rest = &rest,
                                              .right_sums = &right,
                                              .left_sums = &left,
                                              .result_sums = &result},
                        .options = {.threads = 1, .soak = std::chrono::milliseconds(1)}};
  const FullVerdict found = verify_in_full({&check, 1}, 1)[0];
  EXPECT_FALSE(found.fault) << found.fault->message;
  EXPECT_GE(found.proven, 2 * kLeast * kColumns);
  int some = 0;
  for (int64_t n = kLeast + 1; n < kTop; ++n) {
    EXPECT_GT(runs[static_cast<size_t>(n)], 0) << n;
    if (runs[static_cast<size_t>(n)] < n) ++some;
  }
  EXPECT_GE(some, 4 * (kTop - kLeast - 1) / 5 - 1);
}

}  // namespace
}  // namespace luminal::search
