#include "nn/weights.h"

#include <algorithm>
#include <cmath>

namespace luminal::nn {

GraphTensor make_weight(const GraphSite& cx, std::string name, Dtype dtype, const std::vector<int64_t>& dims,
                        std::function<TensorData()> make) {
  const CallSite site("weight", cx.where);
  Graph& graph = cx;
  GraphTensor weight = graph.named_tensor(std::move(name), Shape(dims.begin(), dims.end()), dtype);
  return weight.set_lazily(std::move(make));
}

GraphTensor fan_in_weight(const GraphSite& cx, std::string name, std::vector<int64_t> dims, int64_t fan_in,
                          Dtype dtype) {
  const double bound = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, fan_in)));
  return make_weight(cx, std::move(name), dtype, dims, [stream = init::Stream(cx), dims, bound] {
    return init::uniform(stream, dims, -bound, bound);
  });
}

GraphTensor constant_weight(const GraphSite& cx, std::string name, std::vector<int64_t> dims, double value,
                            Dtype dtype) {
  return make_weight(cx, std::move(name), dtype, dims, [dims, value] { return init::constant(dims, value); });
}

GraphTensor latest(const GraphTensor& state) {
  const Graph graph = state.graph();
  const Value value = state.edge().source;
  for (const Graph::StateUpdate& update : graph.state_updates())
    if (update.state == value) return graph.tensor_of(update.next);
  return state;
}

void check_size(std::string_view module, std::string_view what, int64_t size) {
  if (size < 1) fail<ShapeError>("[{}] {}={} is out of range; give at least 1", module, what, size);
}

void check_float(std::string_view module, Dtype dtype) {
  if (!is_float(dtype))
    fail<DtypeError>("[{}] weights of {} cannot be trained; use a float dtype", module, name(dtype));
}

void check_probability(std::string_view module, double p) {
  if (!(p >= 0 && p <= 1)) fail("[{}] p={} is not a probability; give a number from 0 to 1", module, p);
}

}  // namespace luminal::nn
