#include "luminal/nn/linear.h"

#include <algorithm>

#include "nn/weights.h"

namespace luminal::nn {

Linear::Linear(Graph& cx, int64_t in, int64_t out, const Options& options) : permuted(options.permuted) {
  check_size("Linear", "in", in);
  check_size("Linear", "out", out);
  check_float("Linear", options.dtype);
  weight =
      fan_in_weight(cx, "weight", permuted ? std::vector{in, out} : std::vector{out, in}, in, options.dtype);
  if (options.bias) bias = fan_in_weight(cx, "bias", {out}, in, options.dtype);
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

Embedding::Embedding(Graph& cx, int64_t count, int64_t size, const Options& options)
    : padding_idx(options.padding_idx), permuted(options.permuted) {
  check_size("Embedding", "count", count);
  check_size("Embedding", "size", size);
  check_float("Embedding", options.dtype);
  if (padding_idx && (*padding_idx < -count || *padding_idx >= count))
    fail("[Embedding] padding_idx={} is outside the {} rows; give one from {} to {}", *padding_idx, count,
         -count, count - 1);
  if (padding_idx && *padding_idx < 0) *padding_idx += count;
  TensorData values = init::normal(cx, permuted ? std::vector{size, count} : std::vector{count, size}, 0, 1);
  if (padding_idx)
    for (int64_t i = 0; i < size; ++i)
      values.as<float>()[static_cast<size_t>(permuted ? i * count + *padding_idx : *padding_idx * size + i)] =
          0;
  weight = make_weight(cx, "weight", options.dtype, std::move(values));
}

GraphTensor Embedding::forward(const GraphTensor& index, Where where) const {
  const CallSite site("Embedding", where);
  const GraphTensor rows = (permuted ? weight.t() : weight).index_select(0, index);
  if (!padding_idx) return rows;
  return index.eq(*padding_idx).unsqueeze(-1).where(rows.stop_gradient(), rows);
}

GraphTensor Embedding::logits(const GraphTensor& x, Where where) const {
  const CallSite site("Embedding", where);
  return x.matmul(permuted ? weight : weight.t());
}

}  // namespace luminal::nn
