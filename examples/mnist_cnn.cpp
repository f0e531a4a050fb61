// Trains the convolutional network of `luminal train mnist` on a few digits, with nothing but the public API.
#include <iostream>

#include "luminal/luminal.h"

using namespace luminal;

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "data/mnist10k";
  const int64_t count = argc > 2 ? std::stoll(argv[2]) : 1000;
  const data::ImageSet digits = data::load_mnist(folder, data::Split::Train).first(count);
  const data::BatchLoader loader(digits, {.batch = 50, .seed = 1});

  Graph cx;
  cx.set_seed(1);
  const models::MnistCnn model(cx);
  GraphTensor images = cx.named_tensor("images", {"batch", 1, 28, 28});
  GraphTensor labels = cx.named_tensor("labels", {"batch"}, Dtype::I32);
  GraphTensor loss = training::cross_entropy(model.forward(images), labels);

  const auto weights = nn::params(model);
  const auto gradients = cx.run_pass(Autograd(weights, loss));
  training::Adam adam(cx, weights, gradients,
                      {.learning_rate = 2e-3});  // one run of the graph is now one step
  loss.retrieve();

  auto batches = loader.epoch(0);
  int64_t step = 0;
  while (const data::Batch* batch = batches.next()) {
    images.set_dyn(batch->images, {batch->size, 1, 28, 28});
    labels.set_dyn(batch->labels, {batch->size});
    cx.execute();
    if (step++ % 5 == 0) std::cout << "step " << step << "  loss " << loss.item() << '\n';
  }
}
