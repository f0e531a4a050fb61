#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "luminal/expression.h"

namespace luminal {

/// Evaluates index expressions for many elements at once, what they have in common only once. No named dims may be left
/// in an expression. A division by zero gives 0: it can only stand where a mask hides the element.
class IndexEvaluator {
 public:
  /// `coordinates`: by axis, one of each element. They and the expressions outlive the evaluator.
  IndexEvaluator(std::span<const std::vector<int64_t>> coordinates, size_t count)
      : coordinates_(coordinates), count_(count) {}
  /// Its value for each element.
  const std::vector<int64_t>& evaluate(const Expression& e);
  /// The same of the sum of a constant and the coordinates times their strides, one for each axis.
  [[nodiscard]] std::vector<int64_t> affine(int64_t constant, std::span<const int64_t> strides) const;

 private:
  using Values = std::vector<int64_t>;
  [[nodiscard]] Values compute(const Expression& e);

  std::span<const Values> coordinates_;
  size_t count_;
  std::unordered_map<const symbolic::Node*, Values> known_;
};

}  // namespace luminal
