#include "search/verification/repetition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <random>

#include "kernel/evaluate.h"
#include "luminal/luminal.h"
#include "pipeline.h"
#include "search/verification/batch.h"
#include "search/verification/contain.h"
#include "support/evaluating_kernel.h"

namespace luminal::search {
namespace {

struct NamedFormula {
  const char* name;
  test::Formula build;
};

/// Numbers for a slot that repeat after `period` elements; 0: they do not.
TensorData numbers(const kernel::Slot& slot, int64_t period, std::mt19937_64& random) {
  TensorData data(slot.dtype, {slot.elements.exec({})});
  EXPECT_EQ(slot.dtype, Dtype::F32);
  const auto values = data.as<float>();
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = period > 0 && i >= static_cast<size_t>(period)
                    ? values[i - static_cast<size_t>(period)]
                    : std::uniform_real_distribution<float>(-2, 2)(random);
  return data;
}

/// A suite of one kernel of the spec, whose tensors are its slots and outputs.
VerificationSuite suite_of(const kernel::KernelSpec& spec) {
  VerificationSuite suite;
  Unit::Kernel kernel{.inputs = {}, .outputs = {}, .spec = spec};
  const auto add = [&](Dtype dtype, const Expression& elements, std::vector<int>& list) {
    list.push_back(static_cast<int>(suite.unit.tensors.size()));
    suite.unit.tensors.push_back({.type = {dtype, {elements}}, .value = {}, .aliases = {}});
  };
  for (const kernel::Slot& slot : spec.slots()) add(slot.dtype, slot.elements, kernel.inputs);
  for (const kernel::Output& output : spec.outputs())
    add(spec.values()[static_cast<size_t>(output.value)].dtype(), output.elements, kernel.outputs);
  suite.unit.kernels = {std::move(kernel)};
  return suite;
}

const std::vector<NamedFormula>& long_ones() {
  static const std::vector<NamedFormula> list{
      {"matrix times vector", [](Graph& cx) { return cx.tensor({1100, 9}).matmul(cx.tensor({9, 1})); }},
      {"with what is added",
       [](Graph& cx) {
         return (cx.tensor({1100, 5}) * cx.tensor({5}).expand({1100, 5})).sum(1) + cx.tensor({1100});
       }},
      {"rows of a product",
       [](Graph& cx) { return cx.tensor({300, 9}).matmul(cx.tensor({9, 7})) + cx.tensor({300, 7}); }},
      {"rows inside of a batch",
       [](Graph& cx) { return cx.tensor({3, 300, 7}).matmul(cx.tensor({3, 7, 5})); }},
      {"written across",
       [](Graph& cx) { return cx.tensor({300, 9}).matmul(cx.tensor({9, 7})).transpose(0, 1).contiguous(); }},
      {"rows of a softmax", [](Graph& cx) { return cx.tensor({300, 9}).softmax(1); }},
      {"elements", [](Graph& cx) { return cx.tensor({1100}).exp() + cx.tensor({1100}); }},
  };
  return list;
}

TEST(Repetition, TheFirstPositionsMakeAllThatRepeats) {
  std::mt19937_64 random(3);
  for (const NamedFormula& c : long_ones()) {
    SCOPED_TRACE(c.name);
    const VerificationSuite suite = suite_of(test::one_kernel_of(c.build));
    const kernel::KernelSpec& spec = suite.unit.kernels[0].spec;
    const auto repetition = repetition_of(spec, {});
    ASSERT_TRUE(repetition) << spec.to_string();
    const auto periods = periods_at(*repetition, suite.unit, {});
    ASSERT_FALSE(periods.empty());
    std::vector<TensorData> repeating, free;
    for (size_t s = 0; s < spec.slots().size(); ++s) {
      const auto period = periods.find(s);
      repeating.push_back(numbers(spec.slots()[s], period == periods.end() ? 0 : period->second, random));
      free.push_back(numbers(spec.slots()[s], 0, random));
    }
    const auto as_repeated = [&](const std::vector<TensorData>& inputs) {
      std::vector<TensorData> made(spec.slots().size());
      for (TensorData& output : kernel::evaluate(repetition->spec, inputs)) made.push_back(std::move(output));
      return repeated(*repetition, suite, made);
    };
    const std::vector<TensorData> all = kernel::evaluate(spec, repeating), few = as_repeated(repeating);
    for (size_t o = 0; o < all.size(); ++o) EXPECT_EQ(few[spec.slots().size() + o].bytes, all[o].bytes);
    EXPECT_NE(as_repeated(free).back().bytes, kernel::evaluate(spec, free).back().bytes);
    const VerificationSuite first = of_first_positions(*repetition, suite);
    EXPECT_EQ(first.unit.tensors.back().type.dims[0].exec({}),
              repetition->spec.outputs().back().elements.exec({}));
  }
}

TEST(Repetition, IsNotOfferedWhereOutputsDoNotRepeat) {
  for (const NamedFormula& c : std::initializer_list<NamedFormula>{
           {"short", [](Graph& cx) { return cx.tensor({200, 9}).matmul(cx.tensor({9, 1})); }},
           {"reduced over", [](Graph& cx) { return cx.tensor({1100}).softmax(0); }},
           {"counted", [](Graph& cx) { return cx.arange(1100).cast(Dtype::F32) * cx.tensor({1100}); }},
           {"padded", [](Graph& cx) { return cx.tensor({1099}).pad({{0, 1}}).exp(); }},
           {"of short strides", [](Graph& cx) { return cx.tensor({3, 300}).exp(); }},
           {"of two strides",
            [](Graph& cx) {
              const auto x = cx.tensor({2200});
              return x.slice({{0, 1100}}) + x.reshape({1100, 2}).slice({{0, 1100}, {0, 1}}).reshape({1100});
            }},
       }) {
    SCOPED_TRACE(c.name);
    const kernel::KernelSpec spec = test::one_kernel_of(c.build);
    if (const auto repetition = repetition_of(spec, {}))
      ADD_FAILURE() << spec.to_string() << "\nby\n" << repetition->spec.to_string();
  }
}

TEST(Repetition, IsAskedForWhereTheAxisIsLongEnough) {
  const kernel::KernelSpec spec = test::one_kernel_of(
      [](Graph& cx) {
        const Expression s = Expression::dim("s", {.min = 1, .max = 100'000});
        return cx.tensor({s, 9}).matmul(cx.tensor({9, 1}));
      },
      {{"s", 4000}});
  const auto repetition = repetition_of(spec, {{"s", 4000}});
  ASSERT_TRUE(repetition);
  const VerificationSuite suite = suite_of(spec);
  EXPECT_FALSE(periods_at(*repetition, suite.unit, {{"s", 4 * repetition->distinct}}).empty());
  EXPECT_TRUE(periods_at(*repetition, suite.unit, {{"s", 4 * repetition->distinct - 1}}).empty());
  EXPECT_FALSE(repetition_of(spec, {{"s", 100}}));
}

/// A product with what is added to it, verified beside kernels of the first positions and of all.
class FirstPositions : public testing::Test {
 protected:
  static constexpr int64_t kRows = 300, kSummed = 9, kColumns = 7;
  static GraphTensor build(Graph& cx) {
    return cx.tensor({kRows, kSummed}).matmul(cx.tensor({kSummed, kColumns})) + cx.tensor({kRows, kColumns});
  }

  FirstPositions() : spec_(test::one_kernel_of(build)), repetition_(repetition_of(spec_, {}).value()) {}

  FullVerdict verdict(const test::Change& candidate, const test::Change& first) {
    Graph cx;
    const auto x = cx.tensor({kRows, kSummed}), w = cx.tensor({kSummed, kColumns}),
               b = cx.tensor({kRows, kColumns});
    const auto y = (x.matmul(w) + b).retrieve();
    Subject subject{.graph = &cx, .unit = {}, .sizes = {{}}, .options = {}};
    for (const GraphTensor& t : {x, w, b, y}) {
      const Value value = t.edge().source;
      subject.unit.tensors.push_back({cx.type(value), value, {}});
    }
    std::vector<int> inputs;
    for (const kernel::Slot& slot : spec_.slots())
      for (int t = 0; t < 3; ++t)
        if (slot.elements == element_count(subject.unit.tensors[static_cast<size_t>(t)].type.dims))
          inputs.push_back(t);
    subject.unit.kernels = {{.inputs = inputs, .outputs = {3}, .spec = spec_}};
    const auto tried = test::evaluating(spec_, candidate),
               whole = test::evaluating(spec_, {}, &runs_of_whole_),
               of_first = test::evaluating(repetition_.spec, first, &runs_of_first_);
    const FullCheck check{
        .subject = &subject,
        .candidate = tried.get(),
        .independent = {whole.get()},
        .first_positions =
            FullCheck::FirstPositions{.repetition = &repetition_, .plain = of_first.get(), .split = {}},
        .options = {.threads = 1, .in_parts = false, .soak = std::chrono::milliseconds(0)}};
    const FullVerdict found = verify_in_full({&check, 1}, 1)[0];
    EXPECT_EQ(found.fell, std::vector<std::string>{""});
    return found;
  }
  /// Whether an input is one of the first test case.
  static bool is_whole(float input) {
    return std::isfinite(input) && input == std::floor(input) && std::abs(input) <= 3;
  }
  static size_t odd() { return test::unseen_element(kRows, kColumns); }

  const kernel::KernelSpec spec_;
  const Repetition repetition_;
  const SharedBytes shared_{2 * sizeof(std::atomic<int>)};
  std::atomic<int>& runs_of_whole_ = shared_.as<std::atomic<int>>()[0];
  std::atomic<int>& runs_of_first_ = shared_.as<std::atomic<int>>()[1];
};

TEST_F(FirstPositions, AreTheMeasureOfAllOnTheFirstInputs) {
  const FullVerdict found = verdict({}, {});
  EXPECT_FALSE(found.fault) << found.fault->message;
  EXPECT_EQ(runs_of_first_, 1);
  EXPECT_EQ(runs_of_whole_, found.cases - 1);
  EXPECT_GE(found.compared, found.cases * kRows * kColumns);
}

TEST_F(FirstPositions, ShowWhatIsWrongAnywhere) {
  for (const size_t at : {odd(), odd() + 67 * kColumns}) {
    const FullVerdict found = verdict(
        [&](float input, std::span<float> made) {
          if (is_whole(input)) made[at] += 1;
        },
        {});
    ASSERT_TRUE(found.fault);
    EXPECT_EQ(found.fault->data, "integers");
    EXPECT_EQ(found.fault->position, static_cast<int64_t>(at));
  }
}

TEST_F(FirstPositions, OfAKernelThatIsWrongAreNoMeasure) {
  const FullVerdict found = verdict({}, [](float, std::span<float> made) {
    for (float& x : made) x += 1;
  });
  EXPECT_FALSE(found.fault) << found.fault->message;
  EXPECT_EQ(runs_of_first_, 1);
  EXPECT_EQ(runs_of_whole_, found.cases);
}

TEST_F(FirstPositions, OfAKernelThatCrashesAreNoMeasure) {
  const FullVerdict found = verdict({}, [](float, std::span<float>) { std::abort(); });
  EXPECT_FALSE(found.fault) << found.fault->message;
  EXPECT_EQ(runs_of_whole_, found.cases);
}

}  // namespace
}  // namespace luminal::search
