#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "luminal/nn/activation.h"
#include "luminal/nn/attention.h"
#include "luminal/nn/linear.h"
#include "luminal/nn/norm.h"

/// The transformer of Vaswani et al. 2017, with PyTorch's names, defaults and weight layouts. Tensors are
/// [length, batch, size], or [batch, length, size] if batch_first.
namespace luminal::nn {

struct TransformerOptions {
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  std::string activation = "relu";  ///< or "gelu"
  double layer_norm_eps = 1e-5;
  bool batch_first = false;
  bool norm_first = false;  ///< normalise what goes into each part, not what comes out with the rest
  bool bias = true;
  Dtype dtype = Dtype::F32;
};

/// linear2(dropout(activation(linear1(x)))).
struct FeedForward {
  Linear linear1, linear2;
  Dropout dropout;
  std::string activation;
  FeedForward(GraphSite cx, int64_t size, const TransformerOptions& options);
  [[nodiscard]] GraphTensor forward(const GraphTensor& x) const;
  void serialize(Serializer& s) const;
};

/// Self-attention and feed-forward, each with a residual, dropout and LayerNorm:
/// torch.nn.TransformerEncoderLayer.
struct TransformerEncoderBlock {
  MultiheadAttention self_attn;
  FeedForward feed_forward;
  LayerNorm norm1, norm2;
  Dropout dropout;
  bool norm_first;
  TransformerEncoderBlock(GraphSite cx, int64_t size, int64_t heads, const TransformerOptions& options = {});
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, const AttentionMask& mask = {},
                                    Where where = Where::current()) const;
  void serialize(Serializer& s) const;
};
using TransformerEncoderLayer = TransformerEncoderBlock;

/// As the encoder's, with attention to `memory` in between: torch.nn.TransformerDecoderLayer.
struct TransformerDecoderBlock {
  MultiheadAttention self_attn, multihead_attn;
  FeedForward feed_forward;
  LayerNorm norm1, norm2, norm3;
  Dropout dropout;
  bool norm_first;
  TransformerDecoderBlock(GraphSite cx, int64_t size, int64_t heads, const TransformerOptions& options = {});
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, const GraphTensor& memory,
                                    const AttentionMask& mask = {}, const AttentionMask& memory_mask = {},
                                    Where where = Where::current()) const;
  void serialize(Serializer& s) const;
};
using TransformerDecoderLayer = TransformerDecoderBlock;

/// Blocks one after the other ("layers/0", ...) and, if so asked, a LayerNorm ("norm").
struct TransformerEncoder {
  std::vector<TransformerEncoderBlock> layers;
  std::optional<LayerNorm> norm;
  TransformerEncoder(GraphSite cx, int64_t num_layers, int64_t size, int64_t heads,
                     const TransformerOptions& options = {}, bool final_norm = false);
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, const AttentionMask& mask = {},
                                    Where where = Where::current()) const;
  void serialize(Serializer& s) const;
};

struct TransformerDecoder {
  std::vector<TransformerDecoderBlock> layers;
  std::optional<LayerNorm> norm;
  TransformerDecoder(GraphSite cx, int64_t num_layers, int64_t size, int64_t heads,
                     const TransformerOptions& options = {}, bool final_norm = false);
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, const GraphTensor& memory,
                                    const AttentionMask& mask = {}, const AttentionMask& memory_mask = {},
                                    Where where = Where::current()) const;
  void serialize(Serializer& s) const;
};

/// Encoder and decoder with final norms; matrices start Xavier-uniform.
/// Shapes: source [S, N, size], target [T, N, size] -> [T, N, size].
struct Transformer {
  TransformerEncoder encoder;
  TransformerDecoder decoder;
  struct Layers {
    int64_t encoder = 6, decoder = 6;
  };
  struct Masks {
    AttentionMask source, target, memory;
  };
  explicit Transformer(GraphSite cx, int64_t size = 512, int64_t heads = 8, Layers layers = {6, 6},
                       const TransformerOptions& options = {});
  [[nodiscard]] GraphTensor forward(const GraphTensor& source, const GraphTensor& target, const Masks& masks,
                                    Where where = Where::current()) const;
  [[nodiscard]] GraphTensor forward(const GraphTensor& source, const GraphTensor& target,
                                    Where where = Where::current()) const {
    return forward(source, target, Masks(), where);
  }
  void serialize(Serializer& s) const;
};

/// down_proj(silu(gate_proj(x)) * up_proj(x)): the gated feed-forward of Llama and its kin.
/// Source: Shazeer 2020.
struct Mlp {
  struct Options {
    bool bias = false;
    Dtype dtype = Dtype::F32;
  };
  Linear gate_proj, up_proj, down_proj;
  Mlp(GraphSite cx, int64_t size, int64_t hidden, const Options& options);
  Mlp(GraphSite cx, int64_t size, int64_t hidden) : Mlp(cx, size, hidden, Options()) {}
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where = Where::current()) const;
  void serialize(Serializer& s) const;
};

}  // namespace luminal::nn
