#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "luminal/block_format.h"
#include "luminal/quantized.h"

namespace luminal {
namespace {

TEST(RandomBlocks, AreFiniteOfEveryFormat) {
  for (const BlockFormat& format : block_formats()) {
    const TensorData blocks = random_blocks(format.dtype, {50, format.block_elements}, 3);
    EXPECT_EQ(blocks.bytes, random_blocks(format.dtype, {50, format.block_elements}, 3).bytes) << format.name;
    const TensorData values = dequantize(blocks);
    std::set<float> different;
    for (size_t block = 0; block < 50; ++block) {
      float greatest = 0;
      for (int i = 0; i < format.block_elements; ++i) {
        const float x =
            values.as<float>()[block * static_cast<size_t>(format.block_elements) + static_cast<size_t>(i)];
        ASSERT_TRUE(std::isfinite(x)) << format.name;
        greatest = std::max(greatest, std::fabs(x));
        different.insert(x);
      }
      EXPECT_GE(greatest, 0.25F) << format.name;
      EXPECT_LE(greatest, 4) << format.name;
    }
    EXPECT_GT(different.size(), 20U) << format.name;
  }
}

TEST(RandomBlocks, AreWholeNumbersOnRequest) {
  for (const BlockFormat& format : block_formats()) {
    const TensorData values = dequantize(random_blocks(format.dtype, {20, format.block_elements}, 3, true));
    bool any = false;
    for (const float x : values.as<float>()) {
      ASSERT_EQ(x, std::floor(x)) << format.name;
      any = any || x != 0;
    }
    EXPECT_TRUE(any) << format.name;
  }
}

}  // namespace
}  // namespace luminal
