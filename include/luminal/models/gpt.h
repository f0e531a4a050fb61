#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "luminal/nn.h"

namespace luminal::models {

/// GPT-2: learnt positions, LayerNorm before each part, GELU, a head that shares the embedding's table.
/// Weights have the names and layouts of nanoGPT ("transformer.h.0.attn.c_attn.weight"), and its initial
/// values. Shapes: integers [N, T] below vocabulary, T up to `context` -> logits [N, T, vocabulary].
/// Source: Radford et al. 2019; github.com/karpathy/nanoGPT.
struct Gpt {
  struct Options {
    int64_t vocabulary = 50257, context = 1024;
    int64_t layers = 12, heads = 12, size = 768;
    double dropout = 0;
    bool bias = true;                  ///< of linear layers and norms
    std::string approximate = "none";  ///< of GELU; "tanh" for the published weights of GPT-2
    Dtype dtype = Dtype::F32;
  };

  /// Causal self-attention whose queries, keys and values are one product.
  struct Attention {
    nn::Linear c_attn, c_proj;
    nn::Dropout dropout;
    int64_t heads;
    Attention(nn::GraphSite cx, const Options& options);
    [[nodiscard]] GraphTensor forward(const GraphTensor& x) const;
    void serialize(nn::Serializer& s) const;
  };
  struct FeedForward {
    nn::Linear c_fc, c_proj;
    nn::Dropout dropout;
    std::string approximate;
    FeedForward(nn::GraphSite cx, const Options& options);
    [[nodiscard]] GraphTensor forward(const GraphTensor& x) const;
    void serialize(nn::Serializer& s) const;
  };
  struct Block {
    nn::LayerNorm ln_1;
    Attention attn;
    nn::LayerNorm ln_2;
    FeedForward mlp;
    Block(nn::GraphSite cx, const Options& options);
    [[nodiscard]] GraphTensor forward(const GraphTensor& x) const;
    void serialize(nn::Serializer& s) const;
  };

  Options options;
  nn::Embedding wte, wpe;
  nn::Dropout dropout;
  std::vector<Block> h;
  nn::LayerNorm ln_f;

  /// Errors: Error if a size is below 1 or the dropout no probability; ShapeError if heads do not divide the
  /// size.
  Gpt(nn::GraphSite cx, const Options& options);
  /// Errors: ShapeError if the length may be above `context`.
  [[nodiscard]] GraphTensor forward(const GraphTensor& tokens) const;
  /// The weights to decay (matrices and tables) as nanoGPT's optimizer has them.
  [[nodiscard]] std::vector<GraphTensor> decayed() const;
  void serialize(nn::Serializer& s) const;
};

}  // namespace luminal::models
