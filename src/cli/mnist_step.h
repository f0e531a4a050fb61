#pragma once
#include "luminal/graph.h"
#include "luminal/models/mnist_cnn.h"
#include "luminal/training/optimizer.h"

namespace luminal::cli {

/// One step of training the digit network as one graph: forward, backward and the update by Adam.
struct MnistStep {
  MnistStep(Graph& cx, int64_t batch, double learning_rate);

  models::MnistCnn model;
  GraphTensor images;  ///< f32[batch, 1, 28, 28]
  GraphTensor labels;  ///< i32[batch], below 10
  GraphTensor loss;    ///< f32[], retrieved
  training::Adam adam;

 private:
  std::vector<GraphTensor> differentiate(Graph& cx, int64_t batch);
};

}  // namespace luminal::cli
