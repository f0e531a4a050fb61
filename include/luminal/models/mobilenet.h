#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "luminal/nn.h"

namespace luminal::models {

/// Networks of depthwise convolutions for phones. Weights have the names and layouts of torchvision's
/// ("features.0.0.weight", "features.4.block.2.fc1.bias", "classifier.3.weight"), and its initial values.
/// Shapes: images [N, in, H, W] -> logits [N, classes]; published weights want 224 x 224.
/// Source: Howard et al. 2019.
struct MobileNetV3 {
  /// One inverted residual: a 1x1 convolution to `expanded` channels, a depthwise one of `kernel`, the channels
  /// weighed by what all pixels say (`squeeze`), and a 1x1 convolution to `out`.
  struct Stage {
    int64_t kernel, expanded, out;
    bool squeeze, hard_swish;  ///< ReLU unless hard_swish
    int64_t stride;
  };
  struct Options {
    std::vector<Stage> stages;
    int64_t last = 1280;  ///< width of the classifier's hidden layer
    int64_t classes = 1000, in = 3, stem = 16;
    double dropout = 0.2;
    Dtype dtype = Dtype::F32;
  };
  [[nodiscard]] static Options large();
  [[nodiscard]] static Options small();

  /// Convolution, BatchNorm, activation.
  struct ConvNorm {
    enum class Act : uint8_t { None, Relu, HardSwish };
    nn::Conv2d conv;
    nn::BatchNorm2d norm;
    Act act;
    [[nodiscard]] GraphTensor forward(const GraphTensor& x) const;
    void serialize(nn::Serializer& s) const;
  };
  struct Squeeze {
    nn::Conv2d fc1, fc2;
    [[nodiscard]] GraphTensor forward(const GraphTensor& x) const;
    void serialize(nn::Serializer& s) const;
  };
  struct Block {
    std::optional<ConvNorm> expand;  ///< absent where the width stays
    ConvNorm depthwise;
    std::optional<Squeeze> squeeze;
    ConvNorm project;
    bool residual;
    Block(nn::GraphSite cx, int64_t in, const Stage& stage, Dtype dtype);
    [[nodiscard]] GraphTensor forward(const GraphTensor& x) const;
    void serialize(nn::Serializer& s) const;
  };

  ConvNorm stem;
  std::vector<Block> blocks;
  ConvNorm head;
  nn::Linear hidden, out;
  nn::Dropout dropout;

  /// Errors: Error if there is no stage.
  MobileNetV3(nn::GraphSite cx, const Options& options);
  [[nodiscard]] GraphTensor forward(const GraphTensor& images) const;
  void serialize(nn::Serializer& s) const;
};

}  // namespace luminal::models
