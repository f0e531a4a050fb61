#pragma once
#include <unordered_map>
#include <vector>

#include "luminal/graph.h"
#include "search/verification/oracle.h"

namespace luminal::search {

/// How the elements of a tensor are spread in runs of the graph.
struct ValueRange {
  /// Of the elements, NaN left out: the least, the greatest, and others between them at equal distances in order. Empty
  /// if nothing is known.
  std::vector<double> quantiles;
  static constexpr size_t kMost = 33;  ///< of them

  /// The element below which a share of the others lies, 0 to 1.
  [[nodiscard]] double at(double share) const;
  /// Nothing but whole numbers and infinities is known.
  [[nodiscard]] bool is_whole() const;
  /// The greatest magnitude; infinity counts.
  [[nodiscard]] double reach() const;
  bool operator==(const ValueRange&) const = default;
};
[[nodiscard]] ValueRange range_of(const Elements& data);

/// By value of the graph.
using ValueRanges = std::unordered_map<Value, ValueRange>;

}  // namespace luminal::search
