#include "op/elements.h"

#include <fmt/format.h>

namespace luminal::op_test {
namespace {

struct Format {
  int digits, lowest_exponent;  ///< bits of the significand; exponent of the least normal number (2^e)
};
Format format_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::F64:
      return {53, -1022};
    case Dtype::F16:
      return {11, -14};
    case Dtype::BF16:
      return {8, -126};
    default:
      return {24, -126};
  }
}

Integer saturated(long double x, Integer low, Integer high) {
  if (std::isnan(x)) return 0;
  if (x <= static_cast<long double>(low)) return low;
  if (x >= static_cast<long double>(high)) return high;
  return static_cast<Integer>(std::trunc(x));
}

}  // namespace

Exact read(const TensorData& data, int64_t i) {
  return visit_dtype(data.dtype, [&]<class T>(T) -> Exact {
    const T value = data.as<T>()[static_cast<size_t>(i)];
    if constexpr (std::is_integral_v<T>)
      return static_cast<Integer>(value);
    else if constexpr (sizeof(T) == 2)
      return static_cast<long double>(static_cast<float>(value));
    else
      return static_cast<long double>(value);
  });
}

void write(TensorData& data, int64_t i, const Exact& value) {
  visit_dtype(data.dtype, [&]<class T>(T) {
    T& place = data.as<T>()[static_cast<size_t>(i)];
    const auto* real = std::get_if<long double>(&value);
    if constexpr (std::is_same_v<T, bool>) {
      place = real != nullptr ? *real != 0 : std::get<Integer>(value) != 0;
    } else if constexpr (std::is_integral_v<T>) {
      const Integer low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
      place = static_cast<T>(
          static_cast<uint64_t>(real != nullptr ? saturated(*real, low, high) : std::get<Integer>(value)));
    } else {
      const long double number = real != nullptr ? *real : static_cast<long double>(std::get<Integer>(value));
      place = static_cast<T>(rounded(data.dtype, number));
    }
  });
}

long double rounded(Dtype dtype, long double value) {
  if (dtype == Dtype::F64) return static_cast<double>(value);
  if (dtype == Dtype::F32) return static_cast<float>(value);
  if (!std::isfinite(value) || value == 0) return value;
  const Format format = format_of(dtype);
  const int exponent = std::max(std::ilogb(value), format.lowest_exponent);
  const long double unit = std::ldexp(1.0L, exponent - format.digits + 1);
  const long double result = std::nearbyint(value / unit) * unit;
  const long double largest = dtype == Dtype::F16 ? 65504.0L : 0x1.FEp127L;
  return std::fabs(result) > largest ? std::copysign(std::numeric_limits<long double>::infinity(), value)
                                     : result;
}

double ulps_apart(Dtype dtype, long double got, long double exact) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (std::isnan(got) || std::isnan(exact)) return std::isnan(got) && std::isnan(exact) ? 0 : kInfinite;
  const long double nearest = rounded(dtype, exact);
  if (std::isinf(got) || std::isinf(nearest)) return got == nearest ? 0 : kInfinite;
  if (got == 0 && exact == 0) return std::signbit(got) == std::signbit(exact) ? 0 : kInfinite;
  if (got == exact) return 0;
  const Format format = format_of(dtype);
  const int exponent =
      exact == 0 ? format.lowest_exponent : std::max(std::ilogb(exact), format.lowest_exponent);
  return static_cast<double>(std::ldexp(std::fabs(got - exact), format.digits - 1 - exponent));
}

std::vector<int64_t> coordinates(int64_t i, const std::vector<int64_t>& dims) {
  std::vector<int64_t> result(dims.size());
  for (size_t axis = dims.size(); axis-- > 0; i /= dims[axis]) result[axis] = i % dims[axis];
  return result;
}

int64_t flat(const std::vector<int64_t>& index, const std::vector<int64_t>& dims) {
  int64_t result = 0;
  for (size_t axis = 0; axis < dims.size(); ++axis) result = result * dims[axis] + index[axis];
  return result;
}

std::string to_text(const Exact& value) {
  if (const auto* real = std::get_if<long double>(&value)) return fmt::format("{:.20g}", *real);
  return fmt::format("{}", static_cast<int64_t>(std::get<Integer>(value)));
}

}  // namespace luminal::op_test
