// Plain tensor math, a gradient, and a graph that is built once and run at two sizes.
#include <iostream>

#include "luminal/luminal.h"

using namespace luminal;

int main() {
  Graph cx;
  const GraphTensor w = cx.named_tensor("w", {3}).set({1, -2, 3});
  GraphTensor x = cx.named_tensor("x", {"rows", 3});
  const GraphTensor y = (x * w).relu().sum(1);  // nothing is computed yet
  const GraphTensor loss = y.square().mean();
  const auto gradients = cx.run_pass(Autograd({w}, loss));

  retrieve(std::vector{y, loss, gradients[0]});
  for (const int64_t rows : {1, 2}) {
    std::vector<float> data;
    for (int64_t i = 0; i < rows * 3; ++i) data.push_back(static_cast<float>(i));
    x.set_dyn(data, {rows, 3});
    cx.execute();
    std::cout << "x      " << x.to_string() << "\ny      " << y.to_string() << "\nd loss/d w "
              << gradients[0].to_string() << "\n\n";
  }
}
