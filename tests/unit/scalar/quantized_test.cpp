#include "luminal/quantized.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "luminal/error.h"

namespace luminal {
namespace {

constexpr Dtype kBlockTypes[] = {Dtype::Q8_0, Dtype::Q4_0, Dtype::Q4_1};

TensorData random_values(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0.3F, 2);
  TensorData data(Dtype::F32, {count});
  for (float& x : data.as<float>()) x = normal(random);
  return data;
}

uint16_t half_bits(float value) { return float16(value).bits; }

// Blocks written byte by byte after the layouts in GGML's ggml-common.h.
TEST(Quantized, LayoutsAreGgmls) {
  TensorData q8(Dtype::Q8_0, {32});
  const uint16_t scale = half_bits(0.5F);
  std::memcpy(q8.bytes.data(), &scale, 2);
  for (int i = 0; i < 32; ++i) q8.bytes[static_cast<size_t>(2 + i)] = static_cast<std::byte>(i - 16);
  const TensorData from_q8 = dequantize(q8);
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(from_q8.as<float>()[i], 0.5F * (static_cast<float>(i) - 16));

  TensorData q4(Dtype::Q4_0, {32});
  std::memcpy(q4.bytes.data(), &scale, 2);
  q4.bytes[2] = std::byte{0x1F};  // value 0 has level 15, value 16 level 1
  const TensorData from_q4 = dequantize(q4);
  EXPECT_EQ(from_q4.as<float>()[0], 3.5F);
  EXPECT_EQ(from_q4.as<float>()[16], -3.5F);
  EXPECT_EQ(from_q4.as<float>()[1], -4.0F);

  TensorData q41(Dtype::Q4_1, {32});
  const uint16_t least = half_bits(-1);
  std::memcpy(q41.bytes.data(), &scale, 2);
  std::memcpy(q41.bytes.data() + 2, &least, 2);
  q41.bytes[4] = std::byte{0x1F};
  const TensorData from_q41 = dequantize(q41);
  EXPECT_EQ(from_q41.as<float>()[0], 6.5F);
  EXPECT_EQ(from_q41.as<float>()[16], -0.5F);
  EXPECT_EQ(from_q41.as<float>()[1], -1.0F);
}

// Half a step of the block's levels, and what rounding the scale to f16 adds at the far end of its range.
TEST(Quantized, ErrorsAreWithinHalfAStep) {
  const TensorData values = random_values(32 * 100, 5);
  const auto x = values.as<float>();
  for (const Dtype dtype : kBlockTypes) {
    const TensorData back = dequantize(quantize(values, dtype));
    for (size_t block = 0; block < 100; ++block) {
      const auto part = x.subspan(32 * block, 32);
      const auto [low, high] = std::minmax_element(part.begin(), part.end());
      const float extent = std::max(std::fabs(*low), std::fabs(*high));
      const float step = dtype == Dtype::Q8_0   ? extent / 127
                         : dtype == Dtype::Q4_0 ? extent / 8
                                                : (*high - *low) / 15;
      // q4_0 has levels -8 to 7: the value opposite to the extreme may lie a whole step beyond the last.
      const float allowed = (dtype == Dtype::Q4_0 ? 1.0F : 0.5F) * step + extent * 0x1p-10F;
      for (size_t i = 0; i < 32; ++i)
        EXPECT_LE(std::fabs(back.as<float>()[32 * block + i] - part[i]), allowed) << name(dtype);
    }
  }
}

TEST(Quantized, ValuesOnTheLevelsSurvive) {
  TensorData values(Dtype::F32, {64});
  for (const Dtype dtype : kBlockTypes) {
    // Levels of a step of 1/4: -32..31.75 would need more than q4 has, so each type gets its own range.
    const int low = dtype == Dtype::Q8_0 ? -127 : dtype == Dtype::Q4_0 ? -8 : 0;
    const int count = dtype == Dtype::Q8_0 ? 255 : 16;
    for (size_t i = 0; i < 64; ++i) {
      const int level = i % 32 == 0   ? low
                        : i % 32 == 1 ? low + count - 1
                                      : low + static_cast<int>(i * 7) % count;
      values.as<float>()[i] = 0.25F * static_cast<float>(level);
    }
    const TensorData back = dequantize(quantize(values, dtype));
    for (size_t i = 0; i < 64; ++i)
      EXPECT_EQ(back.as<float>()[i], values.as<float>()[i]) << name(dtype) << " " << i;
  }
}

TEST(Quantized, ZeroBlocksAndPartsOfBlocks) {
  for (const Dtype dtype : kBlockTypes) {
    const TensorData zeros = dequantize(quantize(TensorData(Dtype::F32, {2, 32}), dtype));
    EXPECT_EQ(zeros.dims, (std::vector<int64_t>{2, 32}));
    for (const float x : zeros.as<float>()) EXPECT_EQ(x, 0);

    const TensorData blocks = quantize(random_values(96, 6), dtype), all = dequantize(blocks);
    std::vector<float> part(40);
    dequantize(dtype, blocks.bytes.data(), 29, part);
    for (size_t i = 0; i < part.size(); ++i) EXPECT_EQ(part[i], all.as<float>()[29 + i]);
  }
}

TEST(Quantized, RefusalsNameTheReason) {
  EXPECT_THROW((void)quantize(TensorData(Dtype::F32, {33}), Dtype::Q8_0), ShapeError);
  EXPECT_THROW((void)quantize(TensorData(Dtype::F16, {32}), Dtype::Q8_0), DtypeError);
  EXPECT_THROW((void)quantize(TensorData(Dtype::F32, {32}), Dtype::I8), DtypeError);
  EXPECT_THROW((void)dequantize(TensorData(Dtype::F32, {32})), DtypeError);
  TensorData bad(Dtype::F32, {32});
  bad.as<float>()[3] = std::nanf("");
  EXPECT_THROW((void)quantize(bad, Dtype::Q4_1), Error);
  TensorData cut(Dtype::Q4_0, {64});
  cut.bytes.resize(20);
  EXPECT_THROW((void)dequantize(cut), ShapeError);
}

}  // namespace
}  // namespace luminal
