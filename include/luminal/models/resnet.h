#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "luminal/nn.h"

namespace luminal::models {

/// Residual networks for images. Weights have the names and layouts of torchvision's ("layer1.0.conv1.weight",
/// "layer2.0.downsample.0.weight", "fc.bias"), and its initial values; the stride of a bottleneck is in its
/// 3x3 convolution. Shapes: images [N, in, H, W] -> logits [N, classes]; published weights want 224 x 224.
/// Source: He et al. 2016.
struct ResNet {
  struct Options {
    std::array<int64_t, 4> blocks{};  ///< of each stage
    bool bottleneck = false;          ///< 1x1, 3x3, 1x1 with four times the width; else 3x3, 3x3
    int64_t classes = 1000, in = 3, width = 64;
    Dtype dtype = Dtype::F32;
  };
  [[nodiscard]] static Options resnet18() { return {.blocks = {2, 2, 2, 2}}; }
  [[nodiscard]] static Options resnet34() { return {.blocks = {3, 4, 6, 3}}; }
  [[nodiscard]] static Options resnet50() { return {.blocks = {3, 4, 6, 3}, .bottleneck = true}; }

  struct Block {
    nn::Conv2d conv1, conv2;
    nn::BatchNorm2d bn1, bn2;
    std::optional<nn::Conv2d> conv3;
    std::optional<nn::BatchNorm2d> bn3;
    std::optional<nn::Sequential<nn::Conv2d, nn::BatchNorm2d>> downsample;
    /// `in` channels come in, `width` go through.
    Block(nn::GraphSite cx, int64_t in, int64_t width, int64_t stride, const Options& options);
    [[nodiscard]] GraphTensor forward(const GraphTensor& x) const;
    void serialize(nn::Serializer& s) const;
  };

  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  std::array<std::vector<Block>, 4> stages;
  nn::Linear fc;

  /// Errors: Error if a stage has no block or a size is below 1.
  ResNet(nn::GraphSite cx, const Options& options);
  [[nodiscard]] GraphTensor forward(const GraphTensor& images) const;
  void serialize(nn::Serializer& s) const;
};

}  // namespace luminal::models
