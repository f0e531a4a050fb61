#include "search/verification/value_range.h"

#include <algorithm>
#include <cmath>

#include "search/verification/judge.h"

namespace luminal::search {

double ValueRange::at(double share) const {
  const double place = share * static_cast<double>(quantiles.size() - 1);
  const auto below = std::min(static_cast<size_t>(place), quantiles.size() - 1);
  const double low = quantiles[below], high = quantiles[std::min(below + 1, quantiles.size() - 1)];
  const double beyond = place - static_cast<double>(below);
  if (!std::isfinite(low) || !std::isfinite(high)) return beyond < 0.5 ? low : high;
  return std::lerp(low, high, beyond);
}

bool ValueRange::is_whole() const {
  return std::ranges::all_of(quantiles, [](double x) { return std::rint(x) == x; });
}

double ValueRange::reach() const {
  return quantiles.empty() ? 0 : std::max(std::abs(quantiles.front()), std::abs(quantiles.back()));
}

ValueRange range_of(const Elements& data) {
  constexpr int64_t kLookedAt = 1 << 14, kOutermost = 1 << 18;
  if (is_quantized(data.dtype)) return {};
  const int64_t count = static_cast<int64_t>(data.bytes.size()) / size_bytes(data.dtype, 1);
  std::vector<double> some;
  double least = HUGE_VAL, greatest = -HUGE_VAL;
  // Steps that are no multiple of a row's length see every column.
  const int64_t step = (count / kOutermost) | 1, further = (count / kLookedAt) | 1;
  for (int64_t i = 0, next = 0; i < count; i += step) {
    const double x = element(data, i);
    if (std::isnan(x)) continue;
    least = std::min(least, x), greatest = std::max(greatest, x);
    if (i < next) continue;
    some.push_back(x);
    next = i + further;
  }
  if (some.empty()) return {};
  std::ranges::sort(some);
  some.front() = least, some.back() = greatest;
  ValueRange range;
  for (size_t k = 0; k < ValueRange::kMost; ++k)
    range.quantiles.push_back(some[k * (some.size() - 1) / (ValueRange::kMost - 1)]);
  range.quantiles.back() = greatest;
  return range;
}

}  // namespace luminal::search
