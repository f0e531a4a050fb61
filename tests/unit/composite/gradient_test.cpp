#include "run.h"

// Gradients of the larger compositions, of first and second order, against central differences in f64.
namespace luminal::composite_test {
namespace {

std::vector<double> doubles(int64_t count, uint32_t seed) {
  const std::vector<float> values = random_values(count, seed);
  return {values.begin(), values.end()};
}

/// Compares d(loss)/d(x) with differences of the loss. `x` is an input that holds `values`.
void expect_gradient(Graph& cx, GraphTensor x, std::vector<double> values, GraphTensor loss,
                     const GraphTensor& gradient, const std::string& what) {
  constexpr double kStep = 1e-5;
  const std::vector<double> got = run(gradient);
  ASSERT_EQ(got.size(), values.size());
  loss.retrieve();
  const auto loss_with = [&](size_t place, double value) {
    const double before = std::exchange(values[place], value);
    x.set(values);
    cx.execute();
    values[place] = before;
    return loss.data<double>()[0];
  };
  for (size_t i = 0; i < values.size(); ++i) {
    const double slope_there =
        (loss_with(i, values[i] + kStep) - loss_with(i, values[i] - kStep)) / (2 * kStep);
    // The third derivative times step^2, and the rounding of the loss by the step, are both below 1e-8.
    EXPECT_NEAR(got[i], slope_there, 1e-7 * std::max(1.0, std::abs(slope_there)))
        << what << ", element " << i;
  }
  x.set(values);
}

using Formula = std::function<GraphTensor(const GraphTensor&, const GraphTensor&)>;

/// Both gradients of sum(f(a, b)^2), and the gradient by a of the sum of the squared gradient by b.
void check(const std::string& what, const Shape& a_dims, const Shape& b_dims, const Formula& f) {
  Graph cx;
  const std::vector<double> av = doubles(*element_count(a_dims).constant(), 11),
                            bv = doubles(*element_count(b_dims).constant(), 12);
  const GraphTensor a = input64(cx, a_dims, av), b = input64(cx, b_dims, bv);
  const GraphTensor loss = f(a, b).square().sum();
  const std::vector<GraphTensor> first = cx.run_pass(Autograd({a, b}, loss));
  expect_gradient(cx, a, av, loss, first[0], what + " by the first input");
  expect_gradient(cx, b, bv, loss, first[1], what + " by the second input");
  const GraphTensor steepness = first[1].square().sum();
  const GraphTensor second = cx.run_pass(Autograd({a}, steepness)).at(0);
  expect_gradient(cx, a, av, steepness, second, what + " twice");
}

TEST(Gradients, Convolution) {
  check("conv2d", {1, 2, 4, 5}, {2, 2, 3, 2}, [](const GraphTensor& x, const GraphTensor& w) {
    return conv2d(x, w, {.stride = {2, 1}, .padding = {1, 1}, .dilation = {1, 2}});
  });
  check("grouped conv2d", {1, 2, 4, 4}, {4, 1, 2, 2}, [](const GraphTensor& x, const GraphTensor& w) {
    return conv2d(x, w, {.padding = {1, 0}, .groups = 2});
  });
}

TEST(Gradients, Pooling) {
  check("max_pool2d", {1, 1, 5, 5}, {1, 1, 2, 3}, [](const GraphTensor& x, const GraphTensor& w) {
    return max_pool2d(conv2d(x, w), {.kernel = {2, 2}, .stride = {1, 2}, .padding = {1, 0}});
  });
  check("avg_pool2d", {1, 1, 5, 5}, {1, 1, 2, 3}, [](const GraphTensor& x, const GraphTensor& w) {
    return avg_pool2d(conv2d(x, w).tanh(), {.kernel = {2, 2}, .stride = {1, 1}, .padding = {1, 1}});
  });
}

TEST(Gradients, Attention) {
  check("attention", {3, 2}, {4, 2}, [](const GraphTensor& q, const GraphTensor& k) {
    return attention(q * 2, k * 2, k, {.causal = true});
  });
}

TEST(Gradients, RowsAndNorms) {
  check("softmax", {2, 3}, {3}, [](const GraphTensor& x, const GraphTensor& w) { return (x * w).softmax(); });
  check("layer_norm", {2, 4}, {4},
        [](const GraphTensor& x, const GraphTensor& w) { return (x + w * w).layer_norm(); });
  check("normalize", {2, 3}, {3},
        [](const GraphTensor& x, const GraphTensor& w) { return (x * w).normalize() + x; });
  check("std", {2, 4}, {4}, [](const GraphTensor& x, const GraphTensor& w) { return (x * w).std(1); });
}

TEST(Gradients, ProductsAndScans) {
  check("einsum", {2, 3}, {3, 3},
        [](const GraphTensor& a, const GraphTensor& b) { return einsum("ij,jj,kj->ki", {a, b, a}); });
  check("cumprod", {4}, {4},
        [](const GraphTensor& a, const GraphTensor& b) { return (a + b * 2).cumprod(0); });
  check("pow", {3}, {3}, [](const GraphTensor& a, const GraphTensor& b) { return (a.square() + 1).pow(b); });
  check("concat", {2, 2}, {2, 3}, [](const GraphTensor& a, const GraphTensor& b) {
    return concat({a, b * b, a}, 1).flip(1) * concat({b, a}, 1).pad({{0, 0}, {1, 1}}, 2);
  });
}

}  // namespace
}  // namespace luminal::composite_test
