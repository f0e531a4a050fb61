#include "luminal/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "luminal/error.h"

namespace luminal {
namespace {

TEST(Dtype, PromotionIsALattice) {
  for (const Dtype a : kPlainDtypes)
    for (const Dtype b : kPlainDtypes) {
      EXPECT_EQ(promote(a, b), promote(b, a));
      EXPECT_EQ(promote(a, promote(a, b)), promote(a, b));
    }
  EXPECT_EQ(promote(Dtype::I64, Dtype::F16), Dtype::F16);
  EXPECT_EQ(promote(Dtype::F16, Dtype::BF16), Dtype::F32);
  EXPECT_EQ(promote(Dtype::I8, Dtype::U8), Dtype::I32);
  EXPECT_EQ(promote(Dtype::Bool, Dtype::U8), Dtype::U8);
  EXPECT_EQ(promote(Dtype::U8, Dtype::U16), Dtype::U16);
  EXPECT_EQ(promote(Dtype::I8, Dtype::U16), Dtype::I32);
  EXPECT_EQ(promote(Dtype::U16, Dtype::I32), Dtype::I32);
  EXPECT_EQ(promote(Dtype::U16, Dtype::BF16), Dtype::BF16);
  EXPECT_THROW((void)promote(Dtype::Q4_0, Dtype::F32), DtypeError);
}

/// Every value of the small types is tried.
TEST(Dtype, HoldsWhatConvertsThereAndBack) {
  const auto round_trips = [](Dtype through, int64_t value) {
    return visit_dtype(through, [value]<class T>(T) {
      if constexpr (std::is_integral_v<T>)
        return static_cast<int64_t>(static_cast<T>(value)) == value;
      else if constexpr (std::is_same_v<T, double>)
        return true;
      else
        return static_cast<double>(static_cast<float>(T(static_cast<float>(value)))) ==
               static_cast<double>(value);
    });
  };
  for (const Dtype narrow : {Dtype::Bool, Dtype::I8, Dtype::U8, Dtype::U16})
    for (const Dtype wide : kPlainDtypes) {
      bool all = true;
      for (int64_t v = info(narrow).least; v <= info(narrow).greatest; ++v) all = all && round_trips(wide, v);
      EXPECT_EQ(holds(wide, narrow), all) << name(wide) << " " << name(narrow);
    }
  EXPECT_TRUE(holds(Dtype::F32, Dtype::F16) && holds(Dtype::F32, Dtype::BF16) &&
              holds(Dtype::F64, Dtype::I32));
  EXPECT_FALSE(holds(Dtype::F16, Dtype::BF16) || holds(Dtype::BF16, Dtype::F16) ||
               holds(Dtype::I64, Dtype::F32));
  EXPECT_FALSE(holds(Dtype::F64, Dtype::I64) || holds(Dtype::F32, Dtype::I32) ||
               holds(Dtype::Q8_0, Dtype::I8));
}

/// The facts of a row against the standard library's and IEEE 754's.
TEST(Dtype, Limits) {
  EXPECT_EQ(info(Dtype::U16).greatest, 65535);
  EXPECT_EQ(info(Dtype::I8).least, -128);
  EXPECT_EQ(info(Dtype::I64).digits, 63);
  EXPECT_EQ(std::ldexp(2 - std::ldexp(2.0, -info(Dtype::F16).digits), info(Dtype::F16).greatest_exponent),
            65504);
  EXPECT_EQ(std::ldexp(1.0, info(Dtype::F32).least_exponent), std::numeric_limits<float>::min());
  EXPECT_EQ(std::ldexp(1.0, info(Dtype::F64).least_exponent), std::numeric_limits<double>::min());
  EXPECT_EQ(info(Dtype::BF16).least_exponent, info(Dtype::F32).least_exponent);
  EXPECT_TRUE(is_signed(Dtype::F16) && is_signed(Dtype::I8));
  EXPECT_FALSE(is_signed(Dtype::U8) || is_signed(Dtype::U16) || is_signed(Dtype::Bool));
}

TEST(Dtype, NamesReadBack) {
  for (const Dtype a : kPlainDtypes) EXPECT_EQ(parse_dtype(name(a)), a);
  try {
    (void)parse_dtype("bf61");
    FAIL();
  } catch (const DtypeError& error) {
    EXPECT_STREQ(error.what(),
                 "[dtype] unknown dtype 'bf61'; choose one of f32 f64 f16 bf16 i8 u8 i32 i64 bool q8_0 q4_0 "
                 "q4_1 u16 q5_0 q5_1 q2_k q3_k q4_k q5_k q6_k iq4_nl iq4_xs iq1_s iq1_m iq2_xxs iq2_xs iq2_s "
                 "iq3_xxs iq3_s tq1_0 tq2_0 mxfp4 nvfp4; did you mean 'bf16'?");
  }
}

TEST(Dtype, TheGuidesRowStandsInTheTable) {
  const auto content = [](const char* path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  };
  const std::string guide = content(LUMINAL_SOURCE_DIR "/docs/adding_a_dtype.md");
  const size_t begin = guide.find("```cpp\n") + 7, end = guide.find("\n```", begin);
  ASSERT_NE(end, std::string::npos);
  EXPECT_NE(content(LUMINAL_SOURCE_DIR "/include/luminal/dtype.h").find(guide.substr(begin, end - begin)),
            std::string::npos);
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
