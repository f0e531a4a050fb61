#pragma once
#include <memory>
#include <unordered_map>

#include "luminal/graph.h"

namespace luminal::search {

/// Dense data of values that are taken as they are.
using Leaves = std::unordered_map<Value, std::shared_ptr<const TensorData>>;

/// What the graph makes of `leaves` for a value, by the reference interpreter; null if something else is
/// needed that is not computed (an input, a state). Data of quantised leaves is F32.
[[nodiscard]] std::shared_ptr<const TensorData> evaluate_from(const Graph& graph, const DimMap& dims,
                                                              const Leaves& leaves, const Value& wanted);

}  // namespace luminal::search
