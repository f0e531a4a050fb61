// A training loop from public parts: forward, backward, clipping and update are one graph, and one run is one
// step.
#include <cmath>
#include <iostream>
#include <random>

#include "luminal/luminal.h"

using namespace luminal;

int main() {
  Graph cx;
  const nn::Sequential model{nn::Linear(cx, 1, 32), nn::Tanh(), nn::Linear(cx, 32, 1)};
  GraphTensor x = cx.tensor({64, 1}), y = cx.tensor({64, 1});
  GraphTensor loss = training::mse_loss(model.forward(x), y).retrieve();

  const auto weights = nn::params(model);
  const auto gradients = cx.run_pass(Autograd(weights, loss));
  const auto clipped = training::clip_grad_norm(gradients, 1.0).gradients;
  training::AdamW adam(cx, weights, clipped, {.weight_decay = 1e-4});
  const training::WarmupCosineSchedule rate{.peak = 0.02, .warmup = 20, .steps = 500};

  std::mt19937 random(1);
  std::vector<float> in(64), out(64);
  for (int64_t step = 0; step < 500; ++step) {
    for (size_t i = 0; i < in.size(); ++i) {
      in[i] = std::uniform_real_distribution<float>(-3, 3)(random);
      out[i] = std::sin(in[i]);
    }
    x.set(in), y.set(out), adam.set_learning_rate(rate(step));
    cx.execute();
    if (step % 100 == 99) std::cout << "step " << step + 1 << "  loss " << loss.item() << '\n';
  }
  return loss.item() < 0.01 ? 0 : 1;
}
