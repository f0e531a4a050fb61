#pragma once
#include <array>
#include <string>
#include <vector>

#include "luminal/tensor_data.h"

namespace luminal::ops {

/// How far a tensor is from what was expected, element by element. Equal values (two NaN, equal infinities)
/// have no error; NaN or an infinity against anything else has an infinite one.
struct DiffReport {
  struct Mismatch {
    int64_t position = 0;  ///< flat
    double actual = 0, expected = 0, error = 0;
  };
  static constexpr std::array<double, 4> kPercentiles{50, 90, 99, 99.9};

  int64_t count = 0, outside = 0;  ///< elements, and those beyond atol + rtol * |expected|
  double max_absolute = 0, mean_absolute = 0, max_relative = 0;
  std::array<double, 4> percentiles{};  ///< of the absolute error, by nearest rank
  std::vector<Mismatch> worst;          ///< outside ones with the largest errors, at most 10, largest first
};

/// Shapes: both hold the same number of elements, of any plain dtypes.
[[nodiscard]] DiffReport compare(const TensorData& actual, const TensorData& expected, double atol,
                                 double rtol);

/// Several lines for people.
[[nodiscard]] std::string to_text(const DiffReport& report, const TensorData& actual, std::string_view file,
                                  double atol, double rtol);

/// Raw little-endian values of `like`'s dtype, or of f32 (told apart by size). Errors: FormatError.
[[nodiscard]] TensorData read_raw(const std::string& file, const TensorData& like);

}  // namespace luminal::ops
