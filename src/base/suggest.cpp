#include "base/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace luminal {

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  std::iota(above.begin(), above.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = a[i - 1] == b[j - 1];
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  const int limit = std::max(1, static_cast<int>(word.size()) / 3);
  int best = limit + 1;
  std::string found;
  constexpr size_t kLongest = 100;  // nobody mistypes more, and the distance takes the product of the lengths
  if (word.size() > kLongest) return found;
  for (const std::string& candidate : candidates) {
    const auto longer = static_cast<int64_t>(candidate.size()) - static_cast<int64_t>(word.size());
    if (std::abs(longer) >= best) continue;  // each character that is too much is an edit
    const int distance = edit_distance(word, candidate);
    if (distance < best) {
      best = distance;
      found = candidate;
    }
  }
  return found;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const std::string found = nearest(word, candidates);
  return found.empty() ? std::string() : fmt::format("; did you mean '{}'?", found);
}

}  // namespace luminal
