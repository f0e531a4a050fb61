#include "models/encoder.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "base/fail.h"
#include "models/activation.h"

namespace luminal::models {
namespace {

DecoderOptions checked_encoder(DecoderOptions o) {
  for (const int64_t value : {o.vocabulary, o.layers, o.size, o.heads, o.hidden, o.context, o.token_types})
    if (value < 1)
      fail<ShapeError>(
          "[model] a size is {}; vocabulary, layers, size, heads, hidden, context and token types are 1 or "
          "more",
          value);
  if (o.size % o.heads != 0) fail<ShapeError>("[model] {} heads do not divide the size {}", o.heads, o.size);
  return o;
}

}  // namespace

Encoder::Encoder(DecoderOptions options, const DecoderWeights& weights)
    : options_(checked_encoder(std::move(options))) {
  const auto tensor = [&](const std::string& name, const std::vector<int64_t>& dims) {
    if (auto found = weights(name, dims)) return found->cast(Dtype::F32);
    fail("[model] there is no weight '{}', which the model needs; give all of its files", name);
  };
  const auto affine = [&](const std::string& name, const std::vector<int64_t>& dims) {
    return Affine{tensor(name + ".weight", dims), tensor(name + ".bias", {dims.front()})};
  };
  const int64_t size = options_.size, hidden = options_.hidden;
  embedding_ = tensor("token_embd.weight", {options_.vocabulary, size});
  positions_ = tensor("position_embd.weight", {options_.context, size});
  types_ = tensor("token_types.weight", {options_.token_types, size});
  embedding_norm_ = affine("token_embd_norm", {size});
  for (int64_t i = 0; i < options_.layers; ++i) {
    const std::string at = fmt::format("blk.{}.", i);
    layers_.push_back({.query = affine(at + "attn_q", {size, size}),
                       .key = affine(at + "attn_k", {size, size}),
                       .value = affine(at + "attn_v", {size, size}),
                       .output = affine(at + "attn_output", {size, size}),
                       .attention_norm = affine(at + "attn_output_norm", {size}),
                       .up = affine(at + "ffn_up", {hidden, size}),
                       .down = affine(at + "ffn_down", {size, hidden}),
                       .norm = affine(at + "layer_output_norm", {size})});
  }
}

GraphTensor Encoder::forward(const GraphTensor& tokens, const GraphTensor& lengths) const {
  const auto project = [](const GraphTensor& x, const Affine& affine) {
    return x.matmul(affine.weight.t()) + affine.bias;
  };
  Graph cx = tokens.graph();
  const GraphTensor seen = cx.arange(tokens.dim(1), Dtype::I32).lt(lengths.unsqueeze(1));  // [texts, T]
  GraphTensor x = embedded(tokens);
  for (const Layer& layer : layers_) {
    x = normed(x + project(attended(layer, x, seen.unsqueeze(1).unsqueeze(2)), layer.output),
               layer.attention_norm);
    const GraphTensor hidden = activated(project(x, layer.up), options_.activation);
    x = normed(x + project(hidden, layer.down), layer.norm);
  }
  if (options_.pooling == DecoderOptions::Pooling::First) return x.slice_along(1, 0, 1).squeeze(1);
  return seen.unsqueeze(2).where(x, 0).sum(1) / lengths.cast(Dtype::F32).unsqueeze(1);
}

GraphTensor Encoder::embedded(const GraphTensor& tokens) const {
  Graph cx = tokens.graph();
  const GraphTensor places = minimum(cx.arange(tokens.dim(1), Dtype::I32), options_.context - 1);
  const GraphTensor type = types_.slice_along(0, 0, 1);  // a text is one sequence
  return normed(embedding_.index_select(0, tokens) + positions_.index_select(0, places) + type,
                embedding_norm_);
}

GraphTensor Encoder::attended(const Layer& layer, const GraphTensor& x, const GraphTensor& seen) const {
  const int64_t head_size = options_.size / options_.heads;
  const auto heads = [&](const Affine& affine) {  // [texts, heads, T, head size]
    return (x.matmul(affine.weight.t()) + affine.bias).split_dims(2, head_size).transpose(1, 2);
  };
  const GraphTensor scores =
      heads(layer.query).matmul(heads(layer.key).transpose(-2, -1)) * (1 / std::sqrt(head_size));
  const GraphTensor shares = seen.where(scores, -std::numeric_limits<double>::infinity()).softmax(-1);
  return shares.matmul(heads(layer.value)).transpose(1, 2).merge_dims(2, 3);
}

GraphTensor Encoder::normed(const GraphTensor& x, const Affine& norm) const {
  return x.layer_norm(-1, options_.norm_eps) * norm.weight + norm.bias;
}

}  // namespace luminal::models
