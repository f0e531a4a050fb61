#include "luminal/number.h"

#include <fmt/format.h>

#include <cmath>

#include "base/hash.h"

namespace luminal {

std::string Number::to_string() const {
  if (is_integer()) return fmt::format("{}", std::get<0>(value_));
  const double value = std::get<1>(value_);
  if (std::isnan(value)) return std::signbit(value) ? "-nan" : "nan";
  std::string text = fmt::format("{}", value);  // shortest that reads back
  const bool marked = text.find_first_of(".en") != std::string::npos;
  return marked ? text : text + ".0";  // 1 and 1.0 are different numbers
}

uint64_t Number::hash() const {
  return is_integer() ? combine(1, static_cast<uint64_t>(std::get<0>(value_)))
                      : combine(2, std::bit_cast<uint64_t>(std::get<1>(value_)));
}

}  // namespace luminal
