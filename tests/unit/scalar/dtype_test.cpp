#include "luminal/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "luminal/error.h"

namespace luminal {
namespace {

constexpr Dtype kPlain[] = {Dtype::F32, Dtype::F64, Dtype::F16, Dtype::BF16, Dtype::I8,
                            Dtype::U8,  Dtype::I32, Dtype::I64, Dtype::Bool};

TEST(Dtype, PromotionIsALattice) {
  for (const Dtype a : kPlain)
    for (const Dtype b : kPlain) {
      EXPECT_EQ(promote(a, b), promote(b, a));
      EXPECT_EQ(promote(a, promote(a, b)), promote(a, b));
    }
  EXPECT_EQ(promote(Dtype::I64, Dtype::F16), Dtype::F16);
  EXPECT_EQ(promote(Dtype::F16, Dtype::BF16), Dtype::F32);
  EXPECT_EQ(promote(Dtype::I8, Dtype::U8), Dtype::I32);
  EXPECT_EQ(promote(Dtype::Bool, Dtype::U8), Dtype::U8);
  EXPECT_THROW((void)promote(Dtype::Q4_0, Dtype::F32), DtypeError);
}

TEST(Dtype, NamesReadBack) {
  for (const Dtype a : kPlain) EXPECT_EQ(parse_dtype(name(a)), a);
  try {
    (void)parse_dtype("bf61");
    FAIL();
  } catch (const DtypeError& error) {
    EXPECT_STREQ(error.what(),
                 "[dtype] unknown dtype 'bf61'; choose one of f32 f64 f16 bf16 i8 u8 i32 i64 bool q8_0 q4_0 "
                 "q4_1; did you mean 'bf16'?");
  }
}

TEST(Dtype, BlocksAreWhole) {
  EXPECT_EQ(size_bytes(Dtype::Q4_0, 64), 36);
  EXPECT_EQ(size_bytes(Dtype::BF16, 3), 6);
  EXPECT_THROW((void)size_bytes(Dtype::Q8_0, 33), ShapeError);
}

// Every f16 value survives the way to f32 and back, and every f32 between two neighbours goes to the nearer
// one (ties to even).
TEST(Float16, RoundsToNearestEvenEverywhere) {
  for (uint32_t i = 0; i < 0x7c00; ++i) {
    float16 low, high;
    low.bits = static_cast<uint16_t>(i);
    high.bits = static_cast<uint16_t>(i + 1);
    const float a = low, b = i + 1 == 0x7c00 ? 65536.0F : static_cast<float>(high);
    ASSERT_EQ(float16(a).bits, i);
    const float middle = a + (b - a) / 2;  // exact in f32
    ASSERT_EQ(float16(middle).bits, i % 2 == 0 ? i : i + 1) << i;
    ASSERT_EQ(float16(std::nextafter(middle, 0.0F)).bits, i) << i;
    ASSERT_EQ(float16(std::nextafter(middle, 1e30F)).bits, i + 1) << i;
    ASSERT_EQ(float16(-a).bits, i | 0x8000U);
  }
  EXPECT_TRUE(std::isnan(static_cast<float>(float16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_EQ(static_cast<float>(float16(std::numeric_limits<float>::infinity())),
            std::numeric_limits<float>::infinity());
}

TEST(Bfloat16, RoundsToNearestEven) {
  EXPECT_EQ(static_cast<float>(bfloat16(1.00390625F)), 1.0F);       // halfway, even below
  EXPECT_EQ(static_cast<float>(bfloat16(1.01171875F)), 1.015625F);  // halfway, even above
  EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(std::bit_cast<float>(0x7f800001U)))));
  EXPECT_TRUE(std::isinf(static_cast<float>(bfloat16(3.4e38F))));
}

}  // namespace
}  // namespace luminal
