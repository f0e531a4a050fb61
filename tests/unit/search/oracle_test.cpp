#include "search/verification/oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "luminal/luminal.h"
#include "search/verification/float_format.h"

namespace luminal::search {
namespace {

std::vector<float> random_values(size_t count, unsigned seed, float low = -2, float high = 2) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(low, high);
  std::vector<float> values(count);
  for (float& v : values) v = uniform(generator);
  return values;
}

/// Compares every element of `result` with the reference interpreter run in f64 and as written.
void expect_agreement(Graph& cx, const GraphTensor& result, const std::vector<GraphTensor>& inputs,
                      double largest_bound) {
  GraphTensor wanted = result;
  wanted.retrieve();
  Oracle oracle(cx, cx.dims());
  for (const GraphTensor& input : inputs) oracle.set_leaf(input.edge().source, cx.value(input.edge().source));
  std::vector<int64_t> positions(
      static_cast<size_t>(result.dims()[0].exec(cx.dims())) *
      static_cast<size_t>(element_count(result.dims()).exec(cx.dims()) / result.dims()[0].exec(cx.dims())));
  std::iota(positions.begin(), positions.end(), 0);
  const Oracle::Samples samples = oracle.at(wanted.edge().source, positions);
  for (const char* device : {"reference", "reference-f64"}) {
    cx.set_device(device);
    cx.execute();
    const std::vector<double> expected = wanted.data<double>();
    for (size_t i = 0; i < positions.size(); ++i) {
      ASSERT_TRUE(samples.known[i]) << i;
      const double value = samples.values.as<double>()[i];
      ASSERT_LE(std::abs(value - expected[i]), samples.errors[i] + 1e-7 * std::abs(value))
          << device << " " << i;
      ASSERT_LE(samples.errors[i], largest_bound * (1 + std::abs(value))) << i;
    }
  }
}

TEST(Oracle, AgreesWithTheReferenceOnRowsAndProducts) {
  Graph cx;
  auto x = cx.tensor({6, 40}).set(random_values(240, 1));
  auto w = cx.tensor({40, 7}).set(random_values(280, 2));
  expect_agreement(cx, x.softmax(-1), {x, w}, 1e-4);
  expect_agreement(cx, matmul(x, w).relu(), {x, w}, 1e-4);
  expect_agreement(cx, matmul((x * 0.3).exp(), w).tanh() + matmul(x, w).sum({1}, true), {x, w}, 1e-3);
}

/// Element 0 of the second value is known when it is asked for: that says nothing of what the others cost.
TEST(Oracle, WhatEarlierAnswersLeaveHidesNoCosts) {
  constexpr int64_t kRows = 256, kLong = 5000;
  Graph cx;
  const GraphTensor x = cx.tensor({kRows, kLong}), sums = x.exp().sum(1), more = sums + 1;
  Oracle oracle(cx, {});
  oracle.set_leaf(x.edge().source,
                  std::make_shared<TensorData>(TensorData::of<float>(
                      {kRows, kLong}, random_values(static_cast<size_t>(kRows * kLong), 1))));
  const OracleBudget budget{.operations = 100'000};
  for (const GraphTensor* value : {&sums, &more}) {
    std::vector<int64_t> positions(kRows);
    std::iota(positions.begin(), positions.end(), 0);
    const int64_t before = oracle.operations();
    const Oracle::Samples samples = ask_within(budget, oracle, value->edge().source, positions);
    EXPECT_EQ(samples.known.size(), positions.size());
    EXPECT_GE(positions.size(), 2U);
    EXPECT_LE(oracle.operations() - before, 3 * budget.operations / 2);
  }
}

/// Two values of a unit that read the same long sums: they have the same samples, and the sums are evaluated once.
TEST(Oracle, WhatSeveralValuesShareIsEvaluatedOnce) {
  constexpr int64_t kRows = 64, kLong = 5000;
  Graph cx;
  const GraphTensor x = cx.tensor({kRows, kLong}), sums = x.exp().sum(1);
  const std::array values{sums * 2, sums.log(), sums.square() + 1};
  Oracle oracle(cx, {});
  oracle.set_leaf(x.edge().source,
                  std::make_shared<TensorData>(TensorData::of<float>(
                      {kRows, kLong}, random_values(static_cast<size_t>(kRows * kLong), 1))));
  const OracleBudget budget{.operations = 100'000};
  std::vector<std::vector<int64_t>> asked;
  std::vector<int64_t> took;
  for (const GraphTensor& value : values) {
    std::vector<int64_t>& positions = asked.emplace_back(kRows);
    std::iota(positions.begin(), positions.end(), 0);
    const int64_t before = oracle.operations();
    std::ignore = ask_within(budget, oracle, value.edge().source, positions);
    took.push_back(oracle.operations() - before);
  }
  EXPECT_GE(asked[0].size(), 2U);
  EXPECT_LT(asked[0].size(), static_cast<size_t>(kRows));
  for (size_t k = 1; k < asked.size(); ++k) {
    EXPECT_EQ(asked[k], asked[0]);
    EXPECT_LT(10 * took[k], took[0]);
  }
}

/// One sum over everything, which all samples need, and little else: what it takes is no reason to look at few.
TEST(Oracle, WhatAllSamplesNeedTogetherIsNoPriceOfEachOfThem) {
  constexpr int64_t kRows = 128, kLong = 500;
  Graph cx;
  const GraphTensor x = cx.tensor({kRows, kLong}),
                    y = x.sum(1) - x.sum({0, 1}, true).reshape({1}).expand({kRows});
  for (const bool is_known : {false, true}) {
    Oracle oracle(cx, {});
    oracle.set_leaf(x.edge().source,
                    std::make_shared<TensorData>(TensorData::of<float>(
                        {kRows, kLong}, random_values(static_cast<size_t>(kRows * kLong), 1))));
    std::vector<int64_t> positions(kRows);
    std::iota(positions.begin(), positions.end(), 0);
    if (is_known) std::ignore = oracle.at(y.edge().source, std::span(positions).first(1));
    std::ignore = ask_within({.operations = 200'000}, oracle, y.edge().source, positions);
    EXPECT_GE(positions.size(), static_cast<size_t>(kRows)) << is_known;
    EXPECT_LE(oracle.operations(), 600'000);
  }
}

// Weights of a model take gigabytes when decoded: only the blocks that are asked for are, in any order.
TEST(Oracle, DecodesTheBlocksThatItReads) {
  Graph cx;
  const GraphTensor weights = cx.tensor({65536, 64}, Dtype::Q4_0);
  const GraphTensor y = weights.cast(Dtype::F32) * 2;
  const TensorData row = random_blocks(Dtype::Q4_0, {1, 64}, 7);
  const auto leaf = std::make_shared<TensorData>(row);
  leaf->dims = {65536, 64};  // whose other rows are not even there
  Oracle oracle(cx, {});
  oracle.set_leaf(weights.edge().source, leaf);
  const std::vector<int64_t> positions{40, 41, 42, 3, 63, 0, 31, 32};
  const Oracle::Samples samples = oracle.at(y.edge().source, positions);
  const TensorData decoded = dequantize(row);
  for (size_t i = 0; i < positions.size(); ++i)
    EXPECT_EQ(samples.values.as<double>()[i], 2 * decoded.as<float>()[static_cast<size_t>(positions[i])])
        << i;
}

TEST(Oracle, AgreesWithTheReferenceThroughConvolutionAndPooling) {
  Graph cx;
  auto x = cx.tensor({2, 3, 8, 8}).set(random_values(384, 3));
  auto w = cx.tensor({4, 3, 3, 3}).set(random_values(108, 4));
  auto y = conv2d(x, w, {.padding = {1, 1}});
  expect_agreement(cx, y.relu(), {x, w}, 1e-4);
}

/// Some scores of a row are minus infinity; its maximum is still no more certain than the others.
TEST(Oracle, AMaximumBesideMinusInfinityHasABound) {
  Graph cx;
  auto x = cx.tensor({4, 8}).set(random_values(32, 6)), w = cx.tensor({8, 5}).set(random_values(40, 7));
  const GraphTensor hidden = cx.full({4, 5}, -std::numeric_limits<double>::infinity());
  const GraphTensor y = where(cx.arange(5).lt(3).unsqueeze(0).expand({4, 5}), matmul(x, w), hidden).max(1);
  Oracle oracle(cx, cx.dims());
  for (const GraphTensor& leaf : {x, w}) oracle.set_leaf(leaf.edge().source, cx.value(leaf.edge().source));
  const std::vector<int64_t> rows{0, 1, 2, 3};
  const Oracle::Samples samples = oracle.at(y.edge().source, rows);
  for (size_t i = 0; i < rows.size(); ++i)
    EXPECT_GT(samples.errors[i],
              1.5 * format_of(Dtype::F32).roundoff * std::abs(samples.values.as<double>()[i]));
}

TEST(Oracle, TheBoundCoversRoundingInNarrowTypes) {
  Graph cx;
  auto x = cx.tensor({5, 64}, Dtype::BF16).set(random_values(320, 5));
  expect_agreement(cx, (x * x + 1).sum(1), {x}, 5e-2);
}

TEST(Oracle, ComparisonsWithinTheBoundAreNotKnown) {
  Graph cx;
  auto x = cx.tensor({3}).set(std::vector<float>{0.5F, 2, -1});
  // 0.1 * 3 and 0.3 differ by less than their rounding.
  auto close = (x * 0 + 0.1 * 1.0).sum({0}) - 0.3;
  auto less = close.lt(0);
  auto far = x.sum({0}).lt(100);
  Oracle oracle(cx, cx.dims());
  oracle.set_leaf(x.edge().source, cx.value(x.edge().source));
  const std::vector<int64_t> first{0};
  EXPECT_FALSE(oracle.at(less.edge().source, first).known[0]);
  EXPECT_TRUE(oracle.at(far.edge().source, first).known[0]);
}

// Two nested sums may become one: the columns are whole and exact, their sum with fractions is not.
TEST(Oracle, WhatIntegersCancelBoundsTheSumAroundThem) {
  Graph cx;
  auto x = cx.tensor({2, 2}).set(std::vector<float>{127, 0.209241316F, -126, -2});
  auto counts = cx.tensor({2, 2}).set(std::vector<float>{127, 1, 126, 2});
  const Value total = x.sum({0}).sum({0}).edge().source, count = counts.sum({0}).edge().source;
  Oracle oracle(cx, cx.dims());
  for (const GraphTensor& input : {x, counts})
    oracle.set_leaf(input.edge().source, cx.value(input.edge().source));
  const std::vector<int64_t> first{0};
  const float in_rows = (127 + 0.209241316F) + (-126 + -2), in_columns = (127 + -126) + (0.209241316F + -2);
  const Oracle::Samples samples = oracle.at(total, first);
  for (const float folded : {in_rows, in_columns})
    EXPECT_LE(std::abs(folded - samples.values.as<double>()[0]), samples.errors[0]);
  EXPECT_NE(in_rows, in_columns);
  EXPECT_EQ(oracle.at(count, first).errors[0], 0);  // nothing cancels
  oracle.small_integers = true;
  EXPECT_EQ(oracle.at(x.sum({0}).edge().source, first).errors[0], 0);
}

TEST(Oracle, IntegersAreExactAndOverflowIsAnInfinity) {
  Graph cx;
  auto k = cx.tensor({4}, Dtype::I64).set(std::vector<int64_t>{1, -2, (int64_t{1} << 53) + 1, 4});
  auto x = cx.tensor({2}).set(std::vector<float>{3e38F, 1});
  auto doubled = k + 1;
  auto large = x * 4;
  Oracle oracle(cx, cx.dims());
  oracle.set_leaf(k.edge().source, cx.value(k.edge().source));
  oracle.set_leaf(x.edge().source, cx.value(x.edge().source));
  const auto integers = oracle.at(doubled.edge().source, std::vector<int64_t>{2, 1});
  EXPECT_EQ(integers.values.as<int64_t>()[0], (int64_t{1} << 53) + 2);
  EXPECT_EQ(integers.values.as<int64_t>()[1], -1);
  EXPECT_TRUE(integers.errors.empty());
  const auto floats = oracle.at(large.edge().source, std::vector<int64_t>{0, 1});
  EXPECT_TRUE(std::isinf(floats.values.as<double>()[0]));
  EXPECT_TRUE(floats.known[0]);
  EXPECT_EQ(floats.values.as<double>()[1], 4);
}

TEST(Oracle, SaysWhenSamplesCostTooMuch) {
  Graph cx;
  auto x = cx.tensor({1000}).set(random_values(1000, 6));
  auto total = x.sum({0});
  Oracle oracle(cx, cx.dims());
  oracle.allow(500);
  oracle.set_leaf(x.edge().source, cx.value(x.edge().source));
  EXPECT_THROW((void)oracle.at(total.edge().source, std::vector<int64_t>{0}), Error);
}

// The ends of an interval say nothing of a function that turns many times between them.
TEST(Oracle, TheSineOfAWideIntervalIsNotKnown) {
  Graph cx;
  const GraphTensor x = cx.tensor({64});
  const GraphTensor y = (x * 1.1F).sin();
  std::vector<float> large(64);
  for (size_t i = 0; i < large.size(); ++i) large[i] = 1e20F * static_cast<float>(i + 1);
  std::vector<int64_t> all(64);
  std::iota(all.begin(), all.end(), int64_t{0});
  Oracle oracle(cx, {});
  oracle.set_leaf(x.edge().source, std::make_shared<const TensorData>(TensorData::of<float>({64}, large)));
  const auto samples = oracle.at(y.edge().source, all);
  EXPECT_LE(std::ranges::count(samples.known, true), 4);
  Oracle near(cx, {});
  for (float& value : large) value *= 1e-20F;
  near.set_leaf(x.edge().source, std::make_shared<const TensorData>(TensorData::of<float>({64}, large)));
  EXPECT_EQ(std::ranges::count(near.at(y.edge().source, all).known, true), 64);
}

/// What several nodes read is evaluated once: evaluated for each reader, this chain takes 2^32 steps, and the scale of a
/// row as many as the row has elements.
TEST(Oracle, EvaluatesSharedWorkOnce) {
  Graph cx;
  const GraphTensor x = cx.tensor({4, 1000});
  GraphTensor chain = x;
  for (int i = 0; i < 32; ++i) chain = chain + chain * 0.5F;
  GraphTensor scale = x.mean({1}, true);
  for (int i = 0; i < 50; ++i) scale = (scale * 1.5F).tanh();
  const GraphTensor y = (x * scale).sum(1);
  Oracle oracle(cx, {});
  const std::vector<float> data = random_values(4000, 3);
  oracle.set_leaf(x.edge().source,
                  std::make_shared<const TensorData>(TensorData::of<float>({4, 1000}, data)));
  oracle.allow(20'000);
  const std::vector<int64_t> first{0};
  const auto end = oracle.at(chain.edge().source, first);
  EXPECT_TRUE(end.known[0]);
  EXPECT_NEAR(end.values.as<double>()[0], data[0] * std::pow(1.5, 32), end.errors[0]);
  EXPECT_NO_THROW((void)oracle.at(y.edge().source, first));
  // Another leaf, another value.
  const std::vector<float> zeros(4000, 0.0F);
  oracle.set_leaf(x.edge().source,
                  std::make_shared<const TensorData>(TensorData::of<float>({4, 1000}, zeros)));
  EXPECT_EQ(oracle.at(chain.edge().source, first).values.as<double>()[0], 0);
}

/// A sum that cancels may come to 0, and what is divided by it to anything: 0 / 0 is NaN.
TEST(Oracle, AQuotientByASumThatMayBeZeroIsNotKnown) {
  Graph cx;
  const GraphTensor x = cx.tensor({2, 4}), y = cx.tensor({2, 1});
  const GraphTensor quotient = y / x.sum({1}, true), inverse = 1 / x.sum({1}, true);
  Oracle oracle(cx, {});
  // 1 beside 1e9 is below rounding; of the second row nothing cancels.
  const std::vector<float> terms{1e9F, 1.1F, -1e9F, 0.3F, 1.5F, 1.1F, 2, 0.3F};
  oracle.set_leaf(x.edge().source, std::make_shared<const TensorData>(TensorData::of<float>({2, 4}, terms)));
  const std::vector<float> zeros{0, 0};
  oracle.set_leaf(y.edge().source, std::make_shared<const TensorData>(TensorData::of<float>({2, 1}, zeros)));
  const std::vector<int64_t> both{0, 1};
  for (const GraphTensor& result : {quotient, inverse}) {
    const auto samples = oracle.at(result.edge().source, both);
    EXPECT_FALSE(samples.known[0]);
    EXPECT_TRUE(samples.known[1]);
  }
}

}  // namespace
}  // namespace luminal::search
