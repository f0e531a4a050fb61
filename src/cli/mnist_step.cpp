#include "cli/mnist_step.h"

#include "luminal/autograd.h"
#include "luminal/training/loss.h"

namespace luminal::cli {

MnistStep::MnistStep(Graph& cx, int64_t batch, double learning_rate)
    : model(cx), adam(cx, nn::params(model), differentiate(cx, batch), {.learning_rate = learning_rate}) {
  loss.retrieve();
}

/// Builds the forward pass and its gradients, which come in the order of the weights.
std::vector<GraphTensor> MnistStep::differentiate(Graph& cx, int64_t batch) {
  constexpr int64_t kSide = models::MnistCnn::kSide;
  images = cx.named_tensor("images", {batch, 1, kSide, kSide});
  labels = cx.named_tensor("labels", {batch}, Dtype::I32);
  loss = training::cross_entropy(model.forward(images), labels);
  const std::vector<GraphTensor> weights = nn::params(model);
  return cx.run_pass(Autograd(weights, loss));
}

}  // namespace luminal::cli
