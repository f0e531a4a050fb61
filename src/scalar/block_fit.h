#pragma once
#include <array>
#include <cstddef>
#include <span>

/// What candidates of a group's scale make of its values, several at once: a lane for each. A lane adds in the order of
/// the values, so that it does not matter which others it has beside it.
namespace luminal {

inline constexpr size_t kFitLanes = 8;
using FitLanes = std::array<float, kFitLanes>;
using WideFitLanes = std::array<double, kFitLanes>;

/// What levels there are, ascending. `are_all_whole`: all whole numbers from the first to the last; those of a table are
/// whole numbers, too.
struct FitLevels {
  std::span<const float> values;
  bool are_all_whole = true;
};

/// Values of a group, and how much the error of each counts.
struct FitValues {
  std::span<const float> x, weight;
};

/// Sums over the values: levels are the nearest to inverse * x.
struct ScaleSums {
  FitLanes products;  ///< weight * level * x
  FitLanes squares;   ///< weight * level * level
};
void add_for_scale(const FitValues& group, const FitLevels& levels, const FitLanes& inverse, ScaleSums& sums);

/// Sums over the values for a linear regression: levels are the nearest to inverse * (x - base).
struct RegressionSums {
  WideFitLanes levels, squares, products;  ///< weight * level, weight * level * level, weight * level * x
};
void add_for_regression(const FitValues& group, const FitLevels& levels, float base, const FitLanes& inverse,
                        RegressionSums& sums);

/// The sum of weight * (scale * level + offset - x)^2, levels being the nearest to (x - offset) / scale; at a scale of 0
/// they are the nearest to 0.
void square_errors(const FitValues& group, const FitLevels& levels, const FitLanes& scale,
                   const FitLanes& offset, FitLanes& errors);

/// The level nearest to (x - offset) * inverse for each value.
void nearest_levels(std::span<const float> x, const FitLevels& levels, float inverse, float offset,
                    std::span<float> nearest);

}  // namespace luminal
