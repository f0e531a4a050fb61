#include <gtest/gtest.h>

#include <cmath>

#include "luminal/error.h"
#include "luminal/graph.h"
#include "luminal/ops.h"
#include "luminal/reference.h"
#include "ops/philox.h"

namespace luminal {
namespace {

// Known answers of the authors' own Random123 library (kat_vectors: philox4x32, 10 rounds).
TEST(Philox, KnownAnswers) {
  using philox::Words;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

/// Uniform numbers of a graph with this seed, of its stream number `stream`, in its run number `step`.
template <class T>
std::vector<T> uniform(Dtype dtype, int64_t count, uint64_t seed = 1, int64_t stream = 2, uint64_t step = 0) {
  Graph cx;
  cx.set_seed(seed);
  for (int64_t k = 0; k < stream; ++k) (void)cx.next_random_stream();
  GraphTensor u = cx.uniform({count}, 0, 1, dtype).retrieve();
  cx.set_device("reference");
  cx.set_step(step);
  cx.execute();
  return u.data<T>();
}

TEST(Random, IsAFunctionOfSeedStreamElementAndStep) {
  const std::vector<float> base = uniform<float>(Dtype::F32, 1001);
  EXPECT_EQ(base, uniform<float>(Dtype::F32, 1001));
  // Element i does not depend on how many there are (and not on how threads share them).
  const std::vector<float> longer = uniform<float>(Dtype::F32, 100000);
  for (size_t i = 0; i < 1001; ++i) EXPECT_EQ(longer[i], base[i]);
  EXPECT_NE(base, uniform<float>(Dtype::F32, 1001, 2));
  EXPECT_NE(base, uniform<float>(Dtype::F32, 1001, 1, 3));
  EXPECT_NE(base, uniform<float>(Dtype::F32, 1001, 1, 2, 1));
  // By the definition: element 5 is word 1 of block 1.
  const auto words = philox::block_at(1, 0, philox::key_of(1, 2));
  EXPECT_EQ(base[5], static_cast<float>(words[1] >> 8) * 0x1p-24F);
  EXPECT_EQ(uniform<double>(Dtype::F64, 4)[3],
            static_cast<double>(((uint64_t{words[2]} << 32) | words[3]) >> 11) * 0x1p-53);
  const auto later = philox::block_at(1, 7, philox::key_of(1, 2));
  EXPECT_EQ(uniform<float>(Dtype::F32, 8, 1, 2, 7)[5], static_cast<float>(later[1] >> 8) * 0x1p-24F);
}

TEST(Random, IsUniform) {
  constexpr int64_t kCount = 1 << 16;
  const auto check = [&](const auto& values) {
    double sum = 0, squares = 0;
    for (const double x : values) {
      ASSERT_GE(x, 0);
      ASSERT_LT(x, 1);
      sum += x;
      squares += x * x;
    }
    // Mean 1/2, variance 1/12; four standard errors.
    EXPECT_NEAR(sum / kCount, 0.5, 4 * std::sqrt(1 / 12.0 / kCount));
    EXPECT_NEAR(squares / kCount, 1 / 3.0, 0.01);
  };
  check(uniform<float>(Dtype::F32, kCount, 9, 9));
  check(uniform<double>(Dtype::F64, kCount, 9, 9));
}

TEST(RandomBits, UseAllBits) {
  const auto bits = [](int64_t count) {
    TensorData element(Dtype::I64, {4096}), key(Dtype::I64, {4096}), run(Dtype::I64, {4096});
    for (int64_t i = 0; i < 4096; ++i) {
      element.as<int64_t>()[static_cast<size_t>(i)] = i;
      key.as<int64_t>()[static_cast<size_t>(i)] = -1;
      run.as<int64_t>()[static_cast<size_t>(i)] = int64_t{1} << 40;
    }
    return evaluate_op(kRandomBits, {{"bits", count}}, std::vector{element, key, run}, {})[0];
  };
  uint64_t some = 0, all = ~uint64_t{0};
  const TensorData narrow = bits(24), wide = bits(63);
  for (const int32_t x : narrow.as<int32_t>())
    some |= static_cast<uint64_t>(x), all &= static_cast<uint64_t>(x);
  EXPECT_EQ(some, (uint64_t{1} << 24) - 1);
  EXPECT_EQ(all, 0U);
  for (const int64_t x : wide.as<int64_t>()) some |= static_cast<uint64_t>(x);
  EXPECT_EQ(some, (uint64_t{1} << 63) - 1);
}

std::vector<int64_t> iota(const Expression& e, Shape dims, const DimMap& sizes = {}) {
  const TensorData data =
      evaluate_op(kIota, {{"expression", e}, {"dims", std::move(dims)}, {"dtype", Dtype::I64}}, {}, sizes)[0];
  return {data.as<int64_t>().begin(), data.as<int64_t>().end()};
}

TEST(Iota, RampsFormulasAndDims) {
  const Expression z = Expression::flat_index();
  EXPECT_EQ(iota(z * 3 - 2, {4}), (std::vector<int64_t>{-2, 1, 4, 7}));
  EXPECT_EQ(iota(Expression("n") - z, {"n"}, {{"n", 3}}), (std::vector<int64_t>{3, 2, 1}));
  EXPECT_EQ(iota(z / 2 % 3 * 10 + z % 2, {2, 4}), (std::vector<int64_t>{0, 1, 10, 11, 20, 21, 0, 1}));
  EXPECT_EQ(iota(7, {2}), (std::vector<int64_t>{7, 7}));
  EXPECT_EQ(iota(z, {0, 3}), (std::vector<int64_t>{}));
  EXPECT_EQ(iota(Expression("n") * "m", {}, {{"n", 3}, {"m", 5}}), (std::vector<int64_t>{15}));
}

// Rows are evaluated at once; what one element at a time gives is the measure, also across rows and threads.
TEST(Iota, LongFormulasAgreeWithOneAtATime) {
  const Expression z = Expression::flat_index();
  const Expression formula = (z * 7 % 1000 / 3).max(z / 50 - 20).min(300) + z.lt(5000) * 11;
  const std::vector<int64_t> values = iota(formula, {100, 101});
  for (int64_t i = 0; i < 10100; i += 97) {
    const int64_t expected =
        std::min<int64_t>(std::max(i * 7 % 1000 / 3, i / 50 - 20), 300) + (i < 5000 ? 11 : 0);
    EXPECT_EQ(values[static_cast<size_t>(i)], expected) << i;
  }
}

TEST(Iota, WhatHasNoValueIsAnError) {
  const Expression z = Expression::flat_index();
  EXPECT_THROW((void)iota(Expression(12) / (z - 2), {4}), Error);  // division by zero at z = 2
  EXPECT_THROW((void)iota(z * (int64_t{1} << 61), {5}), Error);    // 2^63
  EXPECT_EQ(iota(z * (int64_t{1} << 61), {4})[3], 3 * (int64_t{1} << 61));
}

TEST(Iota, NarrowDtypesWrapAndBoolIsNotZero) {
  const Expression z = Expression::flat_index();
  const auto as = [&](Dtype dtype) {
    return evaluate_op(kIota, {{"expression", z * 100}, {"dims", Shape{4}}, {"dtype", dtype}}, {})[0];
  };
  const TensorData bytes = as(Dtype::U8), truth = as(Dtype::Bool), halves = as(Dtype::F16);
  EXPECT_EQ(std::vector<uint8_t>(bytes.as<uint8_t>().begin(), bytes.as<uint8_t>().end()),
            (std::vector<uint8_t>{0, 100, 200, 44}));
  EXPECT_FALSE(truth.as<bool>()[0]);
  EXPECT_TRUE(truth.as<bool>()[3]);
  EXPECT_EQ(static_cast<float>(halves.as<float16>()[3]), 300);
}

TEST(Constant, IntegersStayExactAndFloatsRoundOnce) {
  const auto constant = [](Number value, Dtype dtype) {
    return evaluate_op(kConstant, {{"value", value}, {"dtype", dtype}}, {})[0];
  };
  EXPECT_EQ(constant((int64_t{1} << 62) + 1, Dtype::I64).as<int64_t>()[0], (int64_t{1} << 62) + 1);
  EXPECT_EQ(constant(0.1, Dtype::F32).as<float>()[0], 0.1F);
  EXPECT_EQ(static_cast<float>(constant(0.1, Dtype::BF16).as<bfloat16>()[0]), 0.10009765625F);
  EXPECT_TRUE(constant(0.5, Dtype::Bool).as<bool>()[0]);
  EXPECT_TRUE(constant(3, Dtype::F32).dims.empty());
}

}  // namespace
}  // namespace luminal
