#pragma once
#include <cstdint>
#include <vector>

#include "luminal/nn.h"

namespace luminal::models {

/// Vision transformer. Weights have the names and layouts of torchvision's ("conv_proj.weight",
/// "encoder.layers.encoder_layer_0.mlp.0.weight", "heads.head.bias").
/// Shapes: images [N, in, image, image] -> logits [N, classes]. Source: Dosovitskiy et al. 2021.
struct Vit {
  struct Options {
    int64_t image = 224, patch = 16, in = 3, classes = 1000;
    int64_t layers = 12, heads = 12, size = 768, hidden = 3072;
    double dropout = 0;
    Dtype dtype = Dtype::F32;
  };
  [[nodiscard]] static Options b16() { return {}; }
  [[nodiscard]] static Options small16() { return {.heads = 6, .size = 384, .hidden = 1536}; }

  struct Block {
    nn::LayerNorm ln_1;
    nn::MultiheadAttention self_attention;
    nn::LayerNorm ln_2;
    nn::Sequential<nn::Linear, nn::GELU, nn::Dropout, nn::Linear, nn::Dropout> mlp;
    nn::Dropout dropout;
    Block(nn::GraphSite cx, const Options& options);
    [[nodiscard]] GraphTensor forward(const GraphTensor& x) const;
    void serialize(nn::Serializer& s) const;
  };

  Options options;
  nn::Conv2d conv_proj;
  GraphTensor class_token, pos_embedding;  ///< [1, 1, size], [1, patches + 1, size]
  nn::Dropout dropout;
  std::vector<Block> layers;
  nn::LayerNorm ln;
  nn::Linear head;

  /// Errors: ShapeError if patches do not divide the image or heads the size.
  Vit(nn::GraphSite cx, const Options& options);
  /// Errors: ShapeError unless images are of the model's size.
  [[nodiscard]] GraphTensor forward(const GraphTensor& images) const;
  void serialize(nn::Serializer& s) const;
};

}  // namespace luminal::models
