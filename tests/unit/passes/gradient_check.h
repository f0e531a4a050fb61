#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "luminal/autograd.h"
#include "luminal/graph.h"

namespace luminal::test {

/// An f64 input of a function under test. `low`, `high` bound its values.
struct Argument {
  std::vector<int64_t> sizes;
  double low = -2, high = 2;
};
/// From inputs to any tensor of floats.
using Function = std::function<GraphTensor(Graph&, const std::vector<GraphTensor>&)>;

inline Shape static_shape(const std::vector<int64_t>& sizes) { return Shape(sizes.begin(), sizes.end()); }

inline std::vector<double> random_values(std::mt19937_64& random, const Argument& argument) {
  std::uniform_real_distribution<double> draw(argument.low, argument.high);
  int64_t count = 1;
  for (const int64_t size : argument.sizes) count *= size;
  std::vector<double> values(static_cast<size_t>(count));
  for (double& value : values) value = draw(random);
  return values;
}

/// Weights that make a sum of all elements depend on each one differently: cos of the position.
inline GraphTensor weighted_sum(Graph& graph, const GraphTensor& tensor) {
  return (tensor *
          (graph.iota(Expression::flat_index(), tensor.dims()).cast(tensor.dtype()) * 0.7 + 0.3).cos())
      .sum();
}

/// A function's weighted sum at chosen inputs, and its gradients.
class Probe {
 public:
  Probe(const std::vector<Argument>& arguments, const Function& function, bool with_gradients) {
    for (const Argument& argument : arguments)
      inputs_.push_back(graph_.tensor(static_shape(argument.sizes), Dtype::F64));
    loss_ = weighted_sum(graph_, function(graph_, inputs_));
    if (with_gradients) gradients_ = graph_.run_pass(Autograd(inputs_, loss_));
    loss_.retrieve();
    retrieve(gradients_);
  }
  double run(const std::vector<std::vector<double>>& values) {
    for (size_t i = 0; i < values.size(); ++i) inputs_[i].set(values[i]);
    graph_.execute();
    return loss_.data<double>().at(0);
  }
  [[nodiscard]] std::vector<double> gradient(size_t i) const { return gradients_.at(i).data<double>(); }

 private:
  Graph graph_;
  std::vector<GraphTensor> inputs_, gradients_;
  GraphTensor loss_;
};

/// Gradients against central differences. Their error is step^2 times the third derivative plus rounding /
/// step; both are near 1e-10 of the values' scale at this step.
inline void expect_gradients(const std::vector<Argument>& arguments, const Function& function,
                             uint64_t seed = 1) {
  constexpr double kStep = 6e-6, kTolerance = 2e-7;
  std::mt19937_64 random(seed);
  std::vector<std::vector<double>> values;
  for (const Argument& argument : arguments) values.push_back(random_values(random, argument));
  Probe with(arguments, function, true), plain(arguments, function, false);
  const double loss = with.run(values);
  ASSERT_TRUE(std::isfinite(loss)) << "seed " << seed;
  for (size_t i = 0; i < values.size(); ++i) {
    const std::vector<double> gradient = with.gradient(i);
    ASSERT_EQ(gradient.size(), values[i].size());
    for (size_t k = 0; k < values[i].size(); ++k) {
      const double at = values[i][k];
      values[i][k] = at + kStep;
      const double above = plain.run(values);
      values[i][k] = at - kStep;
      const double below = plain.run(values);
      values[i][k] = at;
      const double expected = (above - below) / (2 * kStep);
      EXPECT_NEAR(gradient[k], expected, kTolerance * (1 + std::abs(expected) + std::abs(loss)))
          << "input " << i << " element " << k << " seed " << seed;
    }
  }
}

/// The weighted sum of all gradients of `function`: checking its gradients checks second derivatives.
inline Function gradient_of(const Function& function) {
  return [function](Graph& graph, const std::vector<GraphTensor>& inputs) {
    const GraphTensor loss = weighted_sum(graph, function(graph, inputs));
    GraphTensor total;
    for (const GraphTensor& gradient : graph.run_pass(Autograd(inputs, loss)))
      total = total.valid() ? total + weighted_sum(graph, gradient) : weighted_sum(graph, gradient);
    return total;
  };
}

}  // namespace luminal::test
