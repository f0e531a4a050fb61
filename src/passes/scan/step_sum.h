#pragma once
#include <functional>
#include <vector>

#include "luminal/graph.h"

/// The gradient of a value that all steps of a loop share is a sum over steps. Where a step's part is a sum of
/// products, as that of a weight is, the whole is one contraction over steps as well: nothing of a weight's
/// size is read and written in each step.
namespace luminal::passes {

/// What a step's part is made of: the factors of its sums, values of the step. Empty if it is no such sum.
[[nodiscard]] std::vector<Value> factors_of_sum(const Graph& step, const Edge& part);

/// The sum of all steps' parts as nodes of `cx`. `factor` gives a factor of all steps, the steps along a last
/// axis of this length.
[[nodiscard]] GraphTensor sum_over_steps(const Graph& step, const Edge& part, Graph& cx,
                                         const Expression& length,
                                         const std::function<GraphTensor(const Value&)>& factor);

}  // namespace luminal::passes
