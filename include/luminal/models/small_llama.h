#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "luminal/nn.h"

namespace luminal::models {

/// A Llama in small, as `luminal train text` trains it: RMSNorm, rotary positions, grouped queries, SwiGLU, a
/// head that shares the embedding's table. Weights have the names of Hugging Face's Llama
/// ("layers.0.self_attn.q_proj"). Shapes: integers [N, T] below vocabulary -> logits f32 [N, T, vocabulary].
/// Source: Touvron et al. 2023.
struct SmallLlama {
  struct Options {
    int64_t vocabulary = 256;
    int64_t layers = 4, size = 64, heads = 4, kv_heads = 2;
    int64_t hidden = 0;  ///< of the feed-forward; 0: 8/3 of the size, up to a multiple of 8
    double norm_eps = 1e-5;
  };
  struct Layer {
    nn::RMSNorm input_layernorm, post_attention_layernorm;
    nn::CausalSelfAttention self_attn;
    nn::Mlp mlp;
    Layer(nn::GraphSite cx, const Options& options);
    /// `cache` may be absent: then x is the whole text.
    [[nodiscard]] GraphTensor forward(const GraphTensor& x, const nn::KvCache* cache) const;
    void serialize(nn::Serializer& s) const;
  };

  Options options;
  nn::Embedding embed_tokens;
  std::vector<Layer> layers;
  nn::RMSNorm norm;

  /// Errors: Error if a size is below 1; ShapeError if heads do not divide the size or kv_heads the heads.
  SmallLlama(nn::GraphSite cx, const Options& options);
  [[nodiscard]] GraphTensor forward(const GraphTensor& tokens) const;
  /// The tokens behind those in the caches, one for each layer.
  [[nodiscard]] GraphTensor forward(const GraphTensor& tokens, std::span<const nn::KvCache> caches) const;
  /// Caches for texts of up to `rows` tokens, of which `past` are read.
  [[nodiscard]] std::vector<nn::KvCache> caches(nn::GraphSite cx, int64_t rows, const Expression& past) const;
  void serialize(nn::Serializer& s) const;
};

}  // namespace luminal::models
