#include "models/shared_weights.h"

namespace luminal::models {

DecoderWeights shared_weights(Graph& cx, const WeightsByName& weights) {
  return [&cx, &weights](const std::string& name,
                         const std::vector<int64_t>& dims) -> std::optional<GraphTensor> {
    const auto known = weights.find(name);
    if (known == weights.end()) return std::nullopt;
    const GraphTensor& there = known->second;
    const GraphTensor weight = cx.named_tensor(name, Shape(dims.begin(), dims.end()), there.dtype());
    cx.store(weight.edge().source, there.graph().value(there.edge().source), true);
    return weight;
  };
}

}  // namespace luminal::models
