#pragma once
#include <map>
#include <string>

#include "luminal/graph.h"
#include "luminal/models/decoder.h"

namespace luminal::models {

using WeightsByName = std::map<std::string, GraphTensor>;

/// Weights of another graph, for `cx` too: both read the same data.
[[nodiscard]] DecoderWeights shared_weights(Graph& cx, const WeightsByName& weights);

}  // namespace luminal::models
