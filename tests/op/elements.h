#pragma once
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "luminal/tensor_data.h"

/// Elements as the tests see them: exact numbers, apart from the library's own arithmetic.
namespace luminal::op_test {

__extension__ typedef __int128 Integer;  // holds every product and sum of two 64-bit numbers
/// Floats are held as the widest float of the machine, integers and bool exactly.
using Exact = std::variant<long double, Integer>;

[[nodiscard]] Exact read(const TensorData& data, int64_t i);
/// Stores as the docs say: floats nearest even; a float into an integer saturates, an integer wraps; bool is
/// "not 0".
void write(TensorData& data, int64_t i, const Exact& value);

/// Distance of two floats in units of the last place of `dtype` at `exact`; 0 if both are NaN or the same,
/// infinite if they differ in kind (NaN, infinity, sign of zero).
[[nodiscard]] double ulps_apart(Dtype dtype, long double got, long double exact);
/// The value that `dtype` holds for it.
[[nodiscard]] long double rounded(Dtype dtype, long double value);

/// Coordinates of flat position `i`, and back.
[[nodiscard]] std::vector<int64_t> coordinates(int64_t i, const std::vector<int64_t>& dims);
[[nodiscard]] int64_t flat(const std::vector<int64_t>& coordinates, const std::vector<int64_t>& dims);
[[nodiscard]] std::string to_text(const Exact& value);

}  // namespace luminal::op_test
