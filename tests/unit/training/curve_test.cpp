#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "luminal/autograd.h"
#include "luminal/nn.h"
#include "luminal/training.h"
#include "unit/training/expectations.h"

// Training in f32 from PyTorch's weights on PyTorch's batches follows its losses (tools/pytorch_training.py).
namespace luminal::training {
namespace {

std::map<std::string, TensorData> state_of(const std::string& name) {
  const std::string prefix = "curve/" + name + "/state/";
  std::map<std::string, TensorData> state;
  for (const std::string& key : test::expectations().names())
    if (key.starts_with(prefix)) state.emplace(key.substr(prefix.size()), test::expectations().read(key));
  return state;
}

template <class M, class O>
void expect_curve(const std::string& name, Graph& cx, const M& model, GraphTensor loss,
                  typename O::Options options, const std::function<void(int64_t)>& feed) {
  nn::load_state_dict(model, state_of(name));
  const auto weights = nn::params(model);
  const auto gradients = cx.run_pass(Autograd(weights, loss));
  O optimizer(cx, weights, clip_grad_norm(gradients, 1).gradients, options);
  const CosineSchedule rate{.start = options.learning_rate, .steps = 100};
  loss.retrieve();
  const std::vector<double> wanted = test::expected("curve/" + name + "/losses");
  for (int64_t step = 0; step < 100; ++step) {
    feed(step);
    optimizer.set_learning_rate(rate(step));
    cx.execute();
    const double expected = wanted[static_cast<size_t>(step)];
    ASSERT_NEAR(loss.data<double>()[0], expected, 1e-3 * expected) << name << " step " << step;
  }
  EXPECT_LT(wanted.back(), wanted.front() * 0.7) << "nothing was learned, so nothing was compared";
}

/// On each device.
class Curves : public testing::TestWithParam<std::string> {};

TEST_P(Curves, AConvolutionalNetFollowsPyTorch) {
  Graph cx;
  cx.set_device(GetParam());
  const nn::Sequential model{nn::Conv2d(cx, 1, 4, {3, 3}, {.padding = {1, 1}}),
                             nn::BatchNorm2d(cx, 4),
                             nn::ReLU(),
                             nn::MaxPool2d(2),
                             nn::Flatten(),
                             nn::Linear(cx, 64, 4)};
  GraphTensor x = cx.tensor({8, 1, 8, 8}), y = cx.tensor({8}, Dtype::I64).set({0, 1, 2, 3, 0, 1, 2, 3});
  const GraphTensor loss = cross_entropy(model.forward(x), y, {.label_smoothing = 0.1});
  expect_curve<decltype(model), SGD>(
      "cnn", cx, model, loss, {.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 1e-4},
      [&](int64_t step) {
        std::vector<double> images;
        for (int c = 0; c < 8; ++c) {
          const auto image = test::wave(64, 0.2 + 0.1 * c, 0.01 * static_cast<double>(step));
          images.insert(images.end(), image.begin(), image.end());
        }
        x.set(images);
      });
}

struct Text {
  nn::Embedding table;
  nn::TransformerEncoder encoder;
  nn::Linear head;
  explicit Text(Graph& cx)
      : table(cx, 20, 16),
        encoder(cx, 2, 16, 2,
                {.dim_feedforward = 32,
                 .dropout = 0,
                 .activation = "gelu",
                 .batch_first = true,
                 .norm_first = true},
                true),
        head(cx, 16, 20) {}
  [[nodiscard]] GraphTensor forward(const GraphTensor& x) const {
    return head.forward(encoder.forward(table.forward(x), {.causal = true}));
  }
  void serialize(nn::Serializer& s) const {
    s.module("table", table);
    s.module("encoder", encoder);
    s.module("head", head);
  }
};

TEST_P(Curves, ATransformerFollowsPyTorch) {
  Graph cx;
  cx.set_device(GetParam());
  const Text model(cx);
  GraphTensor x = cx.tensor({4, 8}, Dtype::I64), y = cx.tensor({4, 8}, Dtype::I64);
  const GraphTensor loss = cross_entropy(model.forward(x).transpose(1, 2), y);
  expect_curve<Text, AdamW>("text", cx, model, loss, {.learning_rate = 3e-3}, [&](int64_t step) {
    std::vector<int64_t> in, out;
    for (int64_t row = 0; row < 4; ++row)
      for (int64_t i = 0; i < 9; ++i) {
        const int64_t base = (row * 9 + i) * 3 + step * 5, letter = base * base % 20;
        if (i < 8) in.push_back(letter);
        if (i > 0) out.push_back(letter);
      }
    x.set(in);
    y.set(out);
  });
}

INSTANTIATE_TEST_SUITE_P(Devices, Curves, testing::Values("reference", "cpu"),
                         [](const testing::TestParamInfo<std::string>& device) { return device.param; });

}  // namespace
}  // namespace luminal::training
