#include "search/verification/value_range.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "search/verification/element.h"

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

namespace {

/// Puts the elements of these ranks (ascending, from `begin`) where a sort would, if none lies outside of [first, last).
void select(std::span<const size_t> ranks, std::vector<double>::iterator begin,
            std::vector<double>::iterator first, std::vector<double>::iterator last) {
  if (ranks.empty()) return;
  const size_t rank = ranks[ranks.size() / 2];
  const auto at = begin + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(first, at, last);
  const auto [low, high] = std::ranges::equal_range(ranks, rank);
  select({ranks.begin(), low}, begin, first, at);
  select({high, ranks.end()}, begin, at + 1, last);
}

template <class T>
ValueRange range_of(std::span<const T> elements) {
  constexpr size_t kLookedAt = 1 << 14, kOutermost = 1 << 18;
  const size_t count = elements.size();
  std::vector<double> some;
  double least = HUGE_VAL, greatest = -HUGE_VAL;
  // Steps that are no multiple of a row's length see every column.
  const size_t step = (count / kOutermost) | 1, further = (count / kLookedAt) | 1;
  some.reserve(count / further + 1);
  for (size_t i = 0, next = 0; i < count; i += step) {
    const double x = widened(elements[i]);
    if (std::isnan(x)) continue;
    least = std::min(least, x), greatest = std::max(greatest, x);
    if (i < next) continue;
    some.push_back(x);
    next = i + further;
  }
  if (some.empty()) return {};
  std::vector<size_t> ranks;
  for (size_t k = 0; k < ValueRange::kMost; ++k)
    ranks.push_back(k * (some.size() - 1) / (ValueRange::kMost - 1));
  select(ranks, some.begin(), some.begin(), some.end());
  some.front() = least, some.back() = greatest;
  ValueRange range;
  for (const size_t rank : ranks) range.quantiles.push_back(some[rank]);
  return range;
}

}  // namespace

ValueRange range_of(const Elements& data) {
  if (is_quantized(data.dtype)) return {};
  return visit_dtype(data.dtype, [&]<class T>(T) { return range_of(data.as<T>()); });
}

}  // namespace luminal::search
