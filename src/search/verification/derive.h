#pragma once
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "luminal/graph.h"

namespace luminal::search {

/// Dense data of values that are taken as they are.
using Leaves = std::unordered_map<Value, std::shared_ptr<const TensorData>>;

/// What the graph makes of `leaves` for each of the wanted values, by the reference interpreter. Errors:
/// InternalError if something else is needed that is not computed (an input, a state). Data of quantised
/// leaves is F32.
[[nodiscard]] std::vector<std::shared_ptr<const TensorData>> evaluate_from(const Graph& graph,
                                                                           const DimMap& dims,
                                                                           const Leaves& leaves,
                                                                           std::span<const Value> wanted);

/// One tensor: the values of the graph that it is.
using Names = std::vector<Value>;

/// Elementary operations of the reference interpreter that may be spent on deriving inputs.
struct DeriveLimits {
  int64_t operations = int64_t{1} << 27;
  int64_t of_one_node = operations;
};

/// Tensors from which others are made.
struct Origins {
  std::vector<Names> tensors;
  int64_t operations = 0;  ///< of the reference interpreter, to make the others
};

/// The values from which tensors that belong together can be made without contradicting each other: a row and
/// its maximum come from the row, two functions of one value from that value. A tensor that none of the
/// others has anything to do with is its own origin. Where the nodes between take more than the limits, the
/// tensor behind them stays an origin, though it may contradict others; no step back is taken that leads to a value
/// which the others determine and which cannot be evaluated.
[[nodiscard]] Origins common_origins(const Graph& graph, const DimMap& dims, std::vector<Names> tensors,
                                     const DeriveLimits& limits);

}  // namespace luminal::search
