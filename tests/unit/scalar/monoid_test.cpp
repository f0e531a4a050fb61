#include "scalar/monoid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "luminal/error.h"
#include "luminal/tensor_data.h"
#include "scalar/typing.h"

namespace luminal {
namespace {

constexpr Monoid kAll[] = {Monoid::Add, Monoid::Mul, Monoid::Max, Monoid::Min};

double at(const TensorData& data, size_t i) {
  return visit_dtype(data.dtype, [&]<class T>(T) { return static_cast<double>(data.as<T>()[i]); });
}

TensorData numbers(Dtype dtype, const std::vector<Number>& values) {
  TensorData data(dtype, {static_cast<int64_t>(values.size())});
  const auto width = static_cast<size_t>(element_bytes(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t bits = bits_of(dtype, values[i]);
    std::memcpy(data.bytes.data() + i * width, &bits, width);
  }
  return data;
}

double folded(Monoid monoid, const TensorData& values) {
  const FoldLoops loops = fold_loops(monoid, values.dtype);
  TensorData accumulator(loops.accumulator, {1}), result(values.dtype, {1});
  loops.fill(accumulator.bytes.data(), 1);
  loops.fold_all(accumulator.bytes.data(), values.bytes.data(), values.element_count());
  loops.finish(accumulator.bytes.data(), result.bytes.data(), 1);
  return at(result, 0);
}

TEST(Monoid, NeutralElementsFoldAway) {
  for (const Monoid monoid : kAll)
    for (const Dtype dtype : kPlainDtypes) {
      if (!folds(monoid, dtype)) continue;
      SCOPED_TRACE(std::string(name(monoid)) + " of " + std::string(name(dtype)));
      const Number neutral = neutral_element(monoid, dtype);
      EXPECT_EQ(folded(monoid, TensorData(dtype, {0})), neutral.as<double>());
      EXPECT_EQ(neutral_bits(monoid, dtype), bits_of(dtype, neutral));
      for (const int64_t x : {0, 1})
        EXPECT_EQ(folded(monoid, numbers(dtype, {neutral, x, neutral})), static_cast<double>(x));
    }
}

TEST(Monoid, NeutralElementsByHand) {
  EXPECT_EQ(neutral_element(Monoid::Max, Dtype::I8), Number(-128));
  EXPECT_EQ(neutral_element(Monoid::Max, Dtype::U16), Number(0));
  EXPECT_EQ(neutral_element(Monoid::Min, Dtype::U16), Number(65535));
  EXPECT_EQ(neutral_element(Monoid::Min, Dtype::I64), Number(std::numeric_limits<int64_t>::max()));
  EXPECT_EQ(neutral_element(Monoid::Min, Dtype::Bool), Number(1));
  EXPECT_EQ(neutral_element(Monoid::Max, Dtype::F16), Number(-std::numeric_limits<double>::infinity()));
  EXPECT_EQ(neutral_bits(Monoid::Mul, Dtype::BF16), 0x3f80U);
}

/// Runs long enough for several chains, and of every remainder.
TEST(Monoid, FoldsByHand) {
  for (const size_t count : {1, 2, 31, 32, 33, 100}) {
    std::vector<Number> values(count);
    double sum = 0, most = -1e9, least = 1e9;
    for (size_t i = 0; i < count; ++i) {
      const double x = static_cast<double>(i * 37 % 101) - 50;
      values[i] = x;
      sum += x, most = std::max(most, x), least = std::min(least, x);
    }
    for (const Dtype dtype : {Dtype::F32, Dtype::F64, Dtype::F16, Dtype::I32, Dtype::I64}) {
      EXPECT_EQ(folded(Monoid::Add, numbers(dtype, values)), sum) << name(dtype) << " " << count;
      EXPECT_EQ(folded(Monoid::Max, numbers(dtype, values)), most) << name(dtype) << " " << count;
      EXPECT_EQ(folded(Monoid::Min, numbers(dtype, values)), least) << name(dtype) << " " << count;
    }
  }
  EXPECT_EQ(folded(Monoid::Mul, numbers(Dtype::I8, {100, 3})), 44);  // wraps
  EXPECT_EQ(folded(Monoid::Add, numbers(Dtype::U16, {65535, 2})), 1);
  EXPECT_EQ(folded(Monoid::Min, numbers(Dtype::Bool, {1, 0})), 0);
  for (const Monoid monoid : {Monoid::Max, Monoid::Min})
    EXPECT_TRUE(std::isnan(folded(monoid, numbers(Dtype::F16, {1, std::nan(""), 2}))));
}

TEST(Monoid, BoolHasNoSums) {
  EXPECT_FALSE(folds(Monoid::Add, Dtype::Bool) || folds(Monoid::Mul, Dtype::Bool) ||
               folds(Monoid::Max, Dtype::Q8_0));
  EXPECT_THROW((void)fold_loops(Monoid::Add, Dtype::Bool), InternalError);
}

TEST(Monoid, CompiledCodeFoldsIn) {
  EXPECT_EQ(accumulation_dtype(Monoid::Add, Dtype::BF16), Dtype::F32);
  EXPECT_EQ(accumulation_dtype(Monoid::Max, Dtype::Bool), Dtype::Bool);
  EXPECT_EQ(accumulation_dtype(Monoid::Add, Dtype::U16), Dtype::U16);
}

}  // namespace
}  // namespace luminal
