#include "luminal/nn/transformer.h"

#include "nn/weights.h"

namespace luminal::nn {
namespace {

MultiheadAttention attention_of(GraphSite cx, int64_t size, int64_t heads,
                                const TransformerOptions& options) {
  return {cx, size, heads,
          MultiheadAttention::Options{.dropout = options.dropout,
                                      .bias = options.bias,
                                      .batch_first = options.batch_first,
                                      .dtype = options.dtype}};
}

LayerNorm norm_of(GraphSite cx, int64_t size, const TransformerOptions& options) {
  return {cx, size,
          LayerNorm::Options{.eps = options.layer_norm_eps, .bias = options.bias, .dtype = options.dtype}};
}

/// x and a part's contribution, with the norm before the part or behind the sum.
template <class Part>
GraphTensor residual(const GraphTensor& x, const LayerNorm& norm, const Dropout& dropout, bool norm_first,
                     const Part& part) {
  if (norm_first) return x + dropout.forward(part(norm.forward(x)));
  return norm.forward(x + dropout.forward(part(x)));
}

}  // namespace

FeedForward::FeedForward(GraphSite cx, int64_t size, const TransformerOptions& options)
    : linear1(cx, size, options.dim_feedforward, {.bias = options.bias, .dtype = options.dtype}),
      linear2(cx, options.dim_feedforward, size, {.bias = options.bias, .dtype = options.dtype}),
      dropout(options.dropout),
      activation(options.activation) {
  const CallSite site("Transformer", cx.where);
  if (activation != "relu" && activation != "gelu")
    fail("[Transformer] unknown activation '{}'; choose 'relu' or 'gelu'", activation);
}

GraphTensor FeedForward::forward(const GraphTensor& x) const {
  const GraphTensor hidden = linear1.forward(x);
  return linear2.forward(dropout.forward(activation == "relu" ? hidden.relu() : hidden.gelu()));
}

// PyTorch has both layers in the block itself.
void FeedForward::serialize(Serializer& s) const {
  s.module("linear1", linear1);
  s.module("linear2", linear2);
  s.mode(dropout.mode);
}

TransformerEncoderBlock::TransformerEncoderBlock(GraphSite cx, int64_t size, int64_t heads,
                                                 const TransformerOptions& options)
    : self_attn(attention_of(cx, size, heads, options)),
      feed_forward(cx, size, options),
      norm1(norm_of(cx, size, options)),
      norm2(norm_of(cx, size, options)),
      dropout(options.dropout),
      norm_first(options.norm_first) {}

GraphTensor TransformerEncoderBlock::forward(const GraphTensor& x, const AttentionMask& mask,
                                             Where where) const {
  const CallSite site("TransformerEncoderBlock", where);
  const GraphTensor seen = residual(x, norm1, dropout, norm_first, [&](const GraphTensor& in) {
    return self_attn.forward(in, in, in, mask);
  });
  return residual(seen, norm2, dropout, norm_first,
                  [&](const GraphTensor& in) { return feed_forward.forward(in); });
}

void TransformerEncoderBlock::serialize(Serializer& s) const {
  s.module("self_attn", self_attn);
  feed_forward.serialize(s);
  s.module("norm1", norm1);
  s.module("norm2", norm2);
  s.mode(dropout.mode);
}

TransformerDecoderBlock::TransformerDecoderBlock(GraphSite cx, int64_t size, int64_t heads,
                                                 const TransformerOptions& options)
    : self_attn(attention_of(cx, size, heads, options)),
      multihead_attn(attention_of(cx, size, heads, options)),
      feed_forward(cx, size, options),
      norm1(norm_of(cx, size, options)),
      norm2(norm_of(cx, size, options)),
      norm3(norm_of(cx, size, options)),
      dropout(options.dropout),
      norm_first(options.norm_first) {}

GraphTensor TransformerDecoderBlock::forward(const GraphTensor& x, const GraphTensor& memory,
                                             const AttentionMask& mask, const AttentionMask& memory_mask,
                                             Where where) const {
  const CallSite site("TransformerDecoderBlock", where);
  const GraphTensor own = residual(x, norm1, dropout, norm_first, [&](const GraphTensor& in) {
    return self_attn.forward(in, in, in, mask);
  });
  const GraphTensor seen = residual(own, norm2, dropout, norm_first, [&](const GraphTensor& in) {
    return multihead_attn.forward(in, memory, memory, memory_mask);
  });
  return residual(seen, norm3, dropout, norm_first,
                  [&](const GraphTensor& in) { return feed_forward.forward(in); });
}

void TransformerDecoderBlock::serialize(Serializer& s) const {
  s.module("self_attn", self_attn);
  s.module("multihead_attn", multihead_attn);
  feed_forward.serialize(s);
  s.module("norm1", norm1);
  s.module("norm2", norm2);
  s.module("norm3", norm3);
  s.mode(dropout.mode);
}

TransformerEncoder::TransformerEncoder(GraphSite cx, int64_t num_layers, int64_t size, int64_t heads,
                                       const TransformerOptions& options, bool final_norm) {
  const CallSite site("TransformerEncoder", cx.where);
  check_size("TransformerEncoder", "num_layers", num_layers);
  for (int64_t i = 0; i < num_layers; ++i) layers.emplace_back(cx, size, heads, options);
  if (final_norm) norm = norm_of(cx, size, options);
}

GraphTensor TransformerEncoder::forward(const GraphTensor& x, const AttentionMask& mask, Where where) const {
  const CallSite site("TransformerEncoder", where);
  GraphTensor y = x;
  for (const auto& layer : layers) y = layer.forward(y, mask);
  return norm ? norm->forward(y) : y;
}

void TransformerEncoder::serialize(Serializer& s) const {
  s.module("layers", layers);
  s.module("norm", norm);
}

TransformerDecoder::TransformerDecoder(GraphSite cx, int64_t num_layers, int64_t size, int64_t heads,
                                       const TransformerOptions& options, bool final_norm) {
  const CallSite site("TransformerDecoder", cx.where);
  check_size("TransformerDecoder", "num_layers", num_layers);
  for (int64_t i = 0; i < num_layers; ++i) layers.emplace_back(cx, size, heads, options);
  if (final_norm) norm = norm_of(cx, size, options);
}

GraphTensor TransformerDecoder::forward(const GraphTensor& x, const GraphTensor& memory,
                                        const AttentionMask& mask, const AttentionMask& memory_mask,
                                        Where where) const {
  const CallSite site("TransformerDecoder", where);
  GraphTensor y = x;
  for (const auto& layer : layers) y = layer.forward(y, memory, mask, memory_mask);
  return norm ? norm->forward(y) : y;
}

void TransformerDecoder::serialize(Serializer& s) const {
  s.module("layers", layers);
  s.module("norm", norm);
}

Transformer::Transformer(GraphSite cx, int64_t size, int64_t heads, Layers layers,
                         const TransformerOptions& options)
    : encoder(cx, layers.encoder, size, heads, options, true),
      decoder(cx, layers.decoder, size, heads, options, true) {
  for (GraphTensor& weight : params(*this))
    if (weight.rank() > 1)
      weight.set_lazily([stream = init::Stream(cx), dims = exec(weight.dims(), {})] {
        return init::xavier_uniform(stream, dims);
      });
}

GraphTensor Transformer::forward(const GraphTensor& source, const GraphTensor& target, const Masks& masks,
                                 Where where) const {
  const CallSite site("Transformer", where);
  return decoder.forward(target, encoder.forward(source, masks.source), masks.target, masks.memory);
}

void Transformer::serialize(Serializer& s) const {
  s.module("encoder", encoder);
  s.module("decoder", decoder);
}

Mlp::Mlp(GraphSite cx, int64_t size, int64_t hidden, const Options& options)
    : gate_proj(cx, size, hidden, {.bias = options.bias, .dtype = options.dtype}),
      up_proj(cx, size, hidden, {.bias = options.bias, .dtype = options.dtype}),
      down_proj(cx, hidden, size, {.bias = options.bias, .dtype = options.dtype}) {}

GraphTensor Mlp::forward(const GraphTensor& x, Where where) const {
  const CallSite site("Mlp", where);
  return down_proj.forward(gate_proj.forward(x).silu() * up_proj.forward(x));
}

void Mlp::serialize(Serializer& s) const {
  s.module("gate_proj", gate_proj);
  s.module("up_proj", up_proj);
  s.module("down_proj", down_proj);
}

}  // namespace luminal::nn
