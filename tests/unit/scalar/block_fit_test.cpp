#include "scalar/block_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

// What candidates of a scale make of a group's values: each lane as a loop over the values makes it, to the bit.
namespace luminal {
namespace {

/// By comparing with all of them; of two that are as near the even one where all are whole, otherwise the upper one.
float nearest_of(const FitLevels& levels, float value) {
  if (levels.are_all_whole)
    return std::clamp(std::nearbyint(value), levels.values.front(), levels.values.back());
  float nearest = levels.values.front();
  if (value < nearest) return nearest;
  for (const float level : levels.values)
    if (value >= level || std::fabs(value - level) <= std::fabs(value - nearest)) nearest = level;
  return nearest;
}

struct Levels {
  std::vector<float> values;
  bool are_all_whole;
  operator FitLevels() const { return {values, are_all_whole}; }
};
std::vector<Levels> all_levels() {
  Levels unsigned_ones{{}, true}, signed_ones{{}, true}, bytes{{}, true};
  for (int i = 0; i < 16; ++i) unsigned_ones.values.push_back(static_cast<float>(i));
  for (int i = -32; i < 32; ++i) signed_ones.values.push_back(static_cast<float>(i));
  for (int i = -127; i <= 127; ++i) bytes.values.push_back(static_cast<float>(i));
  return {unsigned_ones,
          signed_ones,
          bytes,
          {{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}, false},
          {{-1, 2}, false}};
}

std::vector<float> drawn(std::mt19937& random, size_t count, float least, float most) {
  std::uniform_real_distribution<float> draw(least, most);
  std::vector<float> values(count);
  for (float& value : values) value = draw(random);
  return values;
}

FitLanes lanes(std::mt19937& random, float least, float most) {
  FitLanes result;
  std::ranges::copy(drawn(random, kFitLanes, least, most), result.begin());
  return result;
}

TEST(BlockFit, LevelsAreTheNearest) {
  std::mt19937 random(1);
  for (const Levels& levels : all_levels()) {
    std::vector<float> values = drawn(random, 1000, -150, 150);
    for (int half = -300; half <= 300; ++half) {
      const float tie = 0.5F * static_cast<float>(half);
      for (const float to : {-INFINITY, tie, INFINITY}) values.push_back(std::nextafter(tie, to));
    }
    for (const float value : {0.0F, -0.0F, 1e-40F, 4e6F, -4e6F, 1e30F, -1e30F, INFINITY, -INFINITY})
      values.push_back(value);
    std::vector<float> found(values.size());
    nearest_levels(values, levels, 1, 0, found);
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(found[i], nearest_of(levels, values[i])) << values[i] << " of " << levels.values.size();
    nearest_levels(values, levels, 0.25F, 3, found);
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(found[i], nearest_of(levels, (values[i] - 3) * 0.25F)) << values[i];
  }
}

TEST(BlockFit, SumsAreThoseOfLoopsToTheBit) {
  std::mt19937 random(2);
  for (const Levels& levels : all_levels())
    for (const size_t count : {1, 7, 16, 32, 256}) {
      const std::vector<float> x = drawn(random, count, -2, 3), weight = drawn(random, count, 0, 5);
      const FitValues group{x, weight};
      const FitLanes inverse = lanes(random, -60, 60);
      ScaleSums scale_sums;
      add_for_scale(group, levels, inverse, scale_sums);
      for (size_t k = 0; k < kFitLanes; ++k) {
        float products = 0, squares = 0;
        for (size_t i = 0; i < count; ++i) {
          const float level = nearest_of(levels, inverse[k] * x[i]);
          products += weight[i] * level * x[i], squares += weight[i] * level * level;
        }
        EXPECT_EQ(scale_sums.products[k], products);
        EXPECT_EQ(scale_sums.squares[k], squares);
      }

      FitLanes scale = lanes(random, -0.5F, 0.5F), offset = lanes(random, -2, 0), errors;
      scale[3] = 0;
      square_errors(group, levels, scale, offset, errors);
      for (size_t k = 0; k < kFitLanes; ++k) {
        const float by = scale[k] != 0 ? 1 / scale[k] : 0;
        float error = 0;
        for (size_t i = 0; i < count; ++i) {
          const float off = scale[k] * nearest_of(levels, (x[i] - offset[k]) * by) + offset[k] - x[i];
          error += weight[i] * off * off;
        }
        EXPECT_EQ(errors[k], error) << "scale " << scale[k];
      }

      RegressionSums sums;
      const float base = -2;
      add_for_regression(group, levels, base, inverse, sums);
      for (size_t k = 0; k < kFitLanes; ++k) {
        double of_levels = 0, squares = 0, products = 0;
        for (size_t i = 0; i < count; ++i) {
          const double level = nearest_of(levels, inverse[k] * (x[i] - base)), wide = weight[i];
          of_levels += wide * level, squares += wide * level * level, products += wide * level * x[i];
        }
        EXPECT_EQ(sums.levels[k], of_levels);
        EXPECT_EQ(sums.squares[k], squares);
        EXPECT_EQ(sums.products[k], products);
      }
    }
}

}  // namespace
}  // namespace luminal
