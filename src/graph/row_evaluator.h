#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "luminal/expression.h"

namespace luminal {

/// Evaluates index expressions for a row of coordinates at once: the last coordinate counts up from where it
/// stands, the others stay. No named dims may be left in the expression. A division by zero gives 0: it can
/// only stand where a mask hides the element.
class RowEvaluator {
 public:
  RowEvaluator(std::span<const int64_t> coordinates, int64_t count)
      : coordinates_(coordinates), count_(static_cast<size_t>(count)) {}
  [[nodiscard]] std::vector<int64_t> evaluate(const Expression& e) const;

 private:
  std::span<const int64_t> coordinates_;
  size_t count_;
};

}  // namespace luminal
