#pragma once
#include <vector>

#include "luminal/nn/init.h"

/// Initial weights of models, drawn when a run first needs them.
namespace luminal::models {

/// `draw(stream, dims)` makes the values of `weight`, from a stream that is taken now.
template <class Draw>
GraphTensor start(nn::GraphSite cx, GraphTensor weight, Draw draw) {
  return weight.set_lazily(
      [stream = nn::init::Stream(cx), dims = exec(weight.dims(), {}), draw] { return draw(stream, dims); });
}

inline GraphTensor start_normal(nn::GraphSite cx, const GraphTensor& weight, double deviation) {
  return start(cx, weight, [deviation](nn::init::Stream stream, const std::vector<int64_t>& dims) {
    return nn::init::normal(stream, dims, 0, deviation);
  });
}

inline GraphTensor start_constant(GraphTensor weight, double value) {
  return weight.set_lazily(
      [dims = exec(weight.dims(), {}), value] { return nn::init::constant(dims, value); });
}

/// He et al. 2015, by fan-out.
inline GraphTensor start_kaiming(nn::GraphSite cx, const GraphTensor& weight) {
  return start(cx, weight, [](nn::init::Stream stream, const std::vector<int64_t>& dims) {
    return nn::init::kaiming_normal(stream, dims, 0, nn::init::Fan::Out);
  });
}

}  // namespace luminal::models
