#pragma once
#include <cstdint>
#include <vector>

#include "luminal/nn.h"

namespace luminal::models {

/// U-Net with batch norms and bilinear upsampling, a class or a mask for each pixel. Weights have the names and
/// layouts of github.com/milesial/Pytorch-UNet with bilinear=True ("down1.maxpool_conv.1.double_conv.0.weight").
/// Shapes: images [N, in, H, W] -> logits [N, classes, H, W]. Source: Ronneberger et al. 2015.
struct UNet {
  struct Options {
    int64_t in = 3, classes = 2;
    int64_t width = 64;  ///< of the first level; the four below double it, the last one less
    Dtype dtype = Dtype::F32;
  };
  /// Two 3x3 convolutions, each with a batch norm and ReLU.
  struct DoubleConv {
    nn::Sequential<nn::Conv2d, nn::BatchNorm2d, nn::ReLU, nn::Conv2d, nn::BatchNorm2d, nn::ReLU> double_conv;
    DoubleConv(nn::GraphSite cx, int64_t in, int64_t middle, int64_t out, Dtype dtype);
    [[nodiscard]] GraphTensor forward(const GraphTensor& x) const { return double_conv.forward(x); }
    void serialize(nn::Serializer& s) const { s.module("double_conv", double_conv); }
  };
  struct Down {
    nn::Sequential<nn::MaxPool2d, DoubleConv> maxpool_conv;
    Down(nn::GraphSite cx, int64_t in, int64_t out, Dtype dtype);
    [[nodiscard]] GraphTensor forward(const GraphTensor& x) const { return maxpool_conv.forward(x); }
    void serialize(nn::Serializer& s) const { s.module("maxpool_conv", maxpool_conv); }
  };
  /// `x` at twice its size beside `skip`, which it is padded to where halving has rounded down.
  struct Up {
    DoubleConv conv;
    Up(nn::GraphSite cx, int64_t in, int64_t out, Dtype dtype);
    [[nodiscard]] GraphTensor forward(const GraphTensor& x, const GraphTensor& skip) const;
    void serialize(nn::Serializer& s) const { s.module("conv", conv); }
  };

  DoubleConv inc;
  std::vector<Down> down;  ///< "down1" to "down4"
  std::vector<Up> up;      ///< "up1" to "up4", the deepest first
  nn::Conv2d outc;         ///< "outc.conv"

  UNet(nn::GraphSite cx, const Options& options);
  [[nodiscard]] GraphTensor forward(const GraphTensor& images) const;
  void serialize(nn::Serializer& s) const;
};

}  // namespace luminal::models
