#pragma once
#include "luminal/nn.h"

namespace luminal::models {

/// The small convolutional network that `luminal train mnist` trains.
/// Shapes: images f32[N, 1, 28, 28], 0..1 -> logits f32[N, 10].
/// conv 1->16 3x3, ReLU, max-pool 2, conv 16->32 3x3, ReLU, max-pool 2, linear 1568->128, ReLU, linear
/// 128->10.
struct MnistCnn {
  static constexpr int64_t kSide = 28, kClasses = 10;
  nn::Sequential<nn::Conv2d, nn::ReLU, nn::MaxPool2d, nn::Conv2d, nn::ReLU, nn::MaxPool2d, nn::Flatten,
                 nn::Linear, nn::ReLU, nn::Linear>
      layers;

  explicit MnistCnn(nn::GraphSite cx);
  [[nodiscard]] GraphTensor forward(const GraphTensor& images) const { return layers.forward(images); }
  void serialize(nn::Serializer& s) const { layers.serialize(s); }
};

}  // namespace luminal::models
