#include "luminal/nn/layers.h"

#include <cmath>

#include "base/fail.h"
#include "luminal/nn/init.h"

namespace luminal::nn {
namespace {

/// A weight as graph input, holding U(-1/sqrt(fan_in), 1/sqrt(fan_in)): PyTorch's default for Linear and Conv
/// (its kaiming_uniform with a = sqrt(5) comes to the same bound).
GraphTensor weight_of(Graph& cx, std::string name, std::vector<int64_t> dims, int64_t fan_in, Dtype dtype) {
  const double bound = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, fan_in)));
  GraphTensor weight = cx.named_tensor(std::move(name), Shape(dims.begin(), dims.end()), dtype);
  return weight.set(init::uniform(cx, std::move(dims), -bound, bound));
}

}  // namespace

Linear::Linear(Graph& cx, int64_t in, int64_t out, const Options& options) : permuted(options.permuted) {
  if (in < 1 || out < 1) fail<ShapeError>("[Linear] in={} and out={} must be at least 1", in, out);
  weight = weight_of(cx, "weight", permuted ? std::vector{in, out} : std::vector{out, in}, in, options.dtype);
  if (options.bias) bias = weight_of(cx, "bias", {out}, in, options.dtype);
}

GraphTensor Linear::forward(const GraphTensor& x, Where where) const {
  const CallSite site("Linear", where);
  const GraphTensor product = x.matmul(permuted ? weight : weight.t());
  return bias ? product + *bias : product;
}

void Linear::serialize(Serializer& s) const {
  s.tensor("weight", weight);
  if (bias) s.tensor("bias", *bias);
}

Conv2d::Conv2d(Graph& cx, int64_t in, int64_t out, std::array<int64_t, 2> kernel, const Options& options)
    : geometry{options.stride, options.padding, options.dilation, options.groups} {
  if (in < 1 || out < 1 || options.groups < 1 || in % options.groups != 0 || out % options.groups != 0)
    fail<ShapeError>("[Conv2d] in={} and out={} must be positive multiples of groups={}", in, out,
                     options.groups);
  const int64_t per_group = in / options.groups, fan_in = per_group * kernel[0] * kernel[1];
  weight = weight_of(cx, "weight", {out, per_group, kernel[0], kernel[1]}, fan_in, options.dtype);
  if (options.bias) bias = weight_of(cx, "bias", {out}, fan_in, options.dtype);
}

GraphTensor Conv2d::forward(const GraphTensor& x, Where where) const {
  const CallSite site("Conv2d", where);
  const GraphTensor product = conv2d(x, weight, geometry);
  return bias ? product + bias->reshape({1, bias->dim(0), 1, 1}) : product;
}

void Conv2d::serialize(Serializer& s) const {
  s.tensor("weight", weight);
  if (bias) s.tensor("bias", *bias);
}

}  // namespace luminal::nn
