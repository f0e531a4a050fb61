#include "codegen/block_codes.h"

#include <gmock/gmock.h>

namespace luminal::codegen {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<int> levels_of(Dtype dtype, int most) { return level_codes(block_format(dtype), most).levels; }

// By hand from GGML's layouts.
TEST(BlockCodes, AreThePartFromWhichTheLevelFollows) {
  EXPECT_THAT(levels_of(Dtype::Q4_0, 16),
              ElementsAre(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(levels_of(Dtype::Q2_K, 4), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(levels_of(Dtype::Q3_K, 16), ElementsAre(-4, -3, -2, -1, 0, 1, 2, 3));
  EXPECT_THAT(levels_of(Dtype::TQ1_0, 16), ElementsAre(-1, 0, 1));
  EXPECT_THAT(levels_of(Dtype::MXFP4, 16),
              ElementsAre(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12));
}

TEST(BlockCodes, AreNoLongerThanAskedFor) {
  EXPECT_THAT(levels_of(Dtype::Q4_0, 8), IsEmpty());
  EXPECT_EQ(levels_of(Dtype::Q5_0, 32).size(), 32U);
  EXPECT_THAT(levels_of(Dtype::Q5_0, 16), IsEmpty());
  EXPECT_EQ(levels_of(Dtype::Q6_K, 64).size(), 64U);
}

TEST(BlockCodes, AreNoneWhereALevelDependsOnThePosition) {
  EXPECT_THAT(levels_of(Dtype::Q8_0, 128), IsEmpty());     // a signed byte
  EXPECT_THAT(levels_of(Dtype::IQ2_XXS, 256), IsEmpty());  // signs by position
}

}  // namespace
}  // namespace luminal::codegen
