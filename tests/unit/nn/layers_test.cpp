#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string_view>

#include "luminal/error.h"
#include "luminal/nn.h"
#include "support/files.h"
#include "unit/nn/pytorch_case.h"

// Layers against PyTorch: values, gradients, buffers (tools/pytorch_modules.py).
namespace luminal::nn {
namespace {

using test::error_of;
using test::kF64;
using test::PyTorchCase;
using testing::HasSubstr;

/// A module of one input; `make` builds it in the case's graph.
template <class Make>
void expect_module(const std::string& name, const Make& make, bool training = true) {
  PyTorchCase c(name);
  const auto module = make(c.cx);
  train(module, training);
  c.expect(module, {module.forward(c.in(0))});
}

TEST(Layers, LinearAndEmbeddingFollowPyTorch) {
  expect_module("linear", [](Graph& cx) { return Linear(cx, 3, 4, {.dtype = kF64}); });
  expect_module("linear_no_bias", [](Graph& cx) { return Linear(cx, 3, 4, {.bias = false, .dtype = kF64}); });
  expect_module("embedding", [](Graph& cx) { return Embedding(cx, 5, 3, {.dtype = kF64}); });
  expect_module("embedding_padding",
                [](Graph& cx) { return Embedding(cx, 5, 3, {.padding_idx = 2, .dtype = kF64}); });
}

TEST(Layers, ConvolutionsFollowPyTorch) {
  expect_module("conv1d", [](Graph& cx) {
    return Conv1d(cx, 4, 6, {3}, {.stride = {2}, .padding = {1}, .groups = 2, .dtype = kF64});
  });
  expect_module("conv2d", [](Graph& cx) {
    return Conv2d(cx, 4, 6, {2, 3},
                  {.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}, .groups = 2, .dtype = kF64});
  });
  expect_module("conv3d", [](Graph& cx) {
    return Conv3d(cx, 2, 3, {2, 2, 2}, {.stride = {1, 2, 1}, .padding = {1, 1, 1}, .dtype = kF64});
  });
  expect_module("conv_transpose1d", [](Graph& cx) {
    return ConvTranspose1d(cx, 2, 3, {3},
                           {.stride = {2}, .padding = {1}, .output_padding = {1}, .dtype = kF64});
  });
  expect_module("conv_transpose2d", [](Graph& cx) {
    return ConvTranspose2d(
        cx, 4, 6, {3, 3},
        {.stride = {2, 2}, .padding = {1, 1}, .output_padding = {1, 1}, .groups = 2, .dtype = kF64});
  });
}

TEST(Layers, PoolsFollowPyTorch) {
  expect_module("max_pool1d",
                [](Graph&) { return MaxPool1d({.kernel = {3}, .stride = {2}, .padding = {1}}); });
  expect_module("max_pool2d", [](Graph&) { return MaxPool2d(2); });
  expect_module("avg_pool2d",
                [](Graph&) { return AvgPool2d({.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}); });
  expect_module("avg_pool3d", [](Graph&) { return AvgPool3d(2); });
  expect_module("adaptive_avg_pool2d",
                [](Graph&) { return AdaptiveAvgPool2d(std::array<int64_t, 2>{2, 3}); });
}

TEST(Layers, ActivationsFollowPyTorch) {
  for (const bool training : {true, false})
    expect_module(
        training ? "prelu_True" : "prelu_False", [](Graph& cx) { return PReLU(cx, 3, 0.25, kF64); },
        training);
  expect_module("gelu", [](Graph&) { return GELU(); });
  expect_module("gelu_tanh", [](Graph&) { return GELU{"tanh"}; });
  expect_module("silu", [](Graph&) { return SiLU(); });
  expect_module("elu", [](Graph&) { return ELU{0.7}; });
  expect_module("leaky_relu", [](Graph&) { return LeakyReLU(); });
  expect_module("softplus", [](Graph&) { return Softplus(); });
  expect_module("mish", [](Graph&) { return Mish(); });
  expect_module("tanh", [](Graph&) { return Tanh(); });
  expect_module("sigmoid", [](Graph&) { return Sigmoid(); });
  expect_module("hardswish", [](Graph&) { return Hardswish(); });
  expect_module("softmax", [](Graph&) { return Softmax(); });
  expect_module("log_softmax", [](Graph&) { return LogSoftmax{1}; });
  expect_module("glu", [](Graph&) { return GLU(); });
}

TEST(Layers, NormsFollowPyTorch) {
  expect_module("layer_norm", [](Graph& cx) { return LayerNorm(cx, 4, {.dtype = kF64}); });
  expect_module("layer_norm_2",
                [](Graph& cx) { return LayerNorm(cx, {3, 4}, {.eps = 1e-3, .dtype = kF64}); });
  expect_module("layer_norm_plain",
                [](Graph& cx) { return LayerNorm(cx, 4, {.elementwise_affine = false, .dtype = kF64}); });
  expect_module("rms_norm", [](Graph& cx) { return RMSNorm(cx, 4, {.dtype = kF64}); });
  expect_module("rms_norm_eps", [](Graph& cx) { return RMSNorm(cx, {3, 4}, {.eps = 1e-2, .dtype = kF64}); });
  expect_module("group_norm", [](Graph& cx) { return GroupNorm(cx, 2, 6, {.dtype = kF64}); });
  expect_module("group_norm_flat", [](Graph& cx) { return GroupNorm(cx, 3, 6, {.dtype = kF64}); });
}

TEST(Layers, BatchNormFollowsPyTorchInBothModes) {
  for (const bool training : {true, false}) {
    const std::string mode = training ? "True" : "False";
    expect_module(
        "batch_norm1d_" + mode, [](Graph& cx) { return BatchNorm1d(cx, 3, {.dtype = kF64}); }, training);
    expect_module(
        "batch_norm2d_" + mode,
        [](Graph& cx) { return BatchNorm2d(cx, 3, {.eps = 1e-3, .momentum = 0.3, .dtype = kF64}); },
        training);
    expect_module(
        "batch_norm_mean_" + mode,
        [](Graph& cx) { return BatchNorm1d(cx, 3, {.momentum = std::nullopt, .dtype = kF64}); }, training);
    expect_module(
        "batch_norm_plain_" + mode,
        [](Graph& cx) {
          return BatchNorm2d(cx, 2, {.affine = false, .track_running_stats = false, .dtype = kF64});
        },
        training);
  }
}

TEST(Layers, BatchNormAppliedTwiceMovesItsStatisticsTwice) {
  PyTorchCase c("batch_norm_twice");
  const BatchNorm1d norm(c.cx, 2, {.dtype = kF64});
  const GraphTensor first = norm.forward(c.in(0)), second = norm.forward(c.in(1));
  c.expect(norm, {first, second});
}

TEST(Layers, PermutedWeightsGiveTheSame) {
  Graph cx;
  const Linear plain(cx, 3, 2);
  Linear permuted(cx, 3, 2, {.permuted = true});
  permuted.weight.set(plain.weight.t().data<float>());
  permuted.bias->set(plain.bias->data<float>());
  Embedding table(cx, 4, 3), turned(cx, 4, 3, {.permuted = true});
  turned.weight.set(table.weight.t().data<float>());
  GraphTensor index = cx.tensor({2}, Dtype::I64).set({3, 1});
  GraphTensor x = table.forward(index).retrieve(), y = turned.forward(index).retrieve();
  GraphTensor a = plain.forward(x).retrieve(), b = permuted.forward(y).retrieve();
  GraphTensor c = table.logits(x).retrieve(), d = Linear(table.weight).forward(x).retrieve();
  cx.execute();
  EXPECT_EQ(x.data<float>(), y.data<float>());
  EXPECT_EQ(a.data<float>(), b.data<float>());
  EXPECT_EQ(c.data<float>(), d.data<float>());
}

/// A tied head is one weight: trained once, saved under both names.
struct Tied {
  Embedding table;
  Linear head;
  explicit Tied(Graph& cx) : table(cx, 4, 3), head(table.weight) {}
  void serialize(Serializer& s) const {
    s.module("table", table);
    s.module("head", head);
  }
};

TEST(Layers, ATiedHeadIsOneWeight) {
  Graph cx;
  const Tied model(cx);
  EXPECT_EQ(params(model).size(), 1U);
  EXPECT_EQ(state_dict(model).size(), 2U);
}

TEST(Dropout, ActsWhileTrainingOnly) {
  Graph cx;
  const Sequential model(Dropout(0.25), Identity());
  GraphTensor x = cx.ones({100, 100});
  GraphTensor trained = model.forward(x).retrieve();
  eval(model);
  GraphTensor evaluated = model.forward(x).retrieve();
  train(model);
  GraphTensor again = model.forward(x).retrieve();
  cx.execute();
  int zeros = 0;
  for (const float value : trained.data<float>()) {
    zeros += value == 0 ? 1 : 0;
    if (value != 0) {
      ASSERT_FLOAT_EQ(value, 1 / 0.75F);
    }
  }
  EXPECT_NEAR(zeros, 2500, 5 * std::sqrt(10000 * 0.25 * 0.75));  // five deviations of a binomial
  EXPECT_THAT(evaluated.data<float>(), testing::Each(1.0F));
  EXPECT_NE(again.data<float>(), trained.data<float>());  // another draw
  const auto before = trained.data<float>();
  cx.execute();
  EXPECT_NE(trained.data<float>(), before);  // and another at each run
  EXPECT_THAT(error_of<Error>([] { Dropout(1.5); }), HasSubstr("[Dropout] p=1.5 is not a probability"));
}

/// The gradient passes exactly where the value did.
TEST(Dropout, TheBackwardPassDrawsTheSameMask) {
  Graph cx;
  GraphTensor x = cx.tensor({1000}).set(std::vector<float>(1000, 2));
  GraphTensor y = Dropout(0.5).forward(x);
  GraphTensor gradient = cx.run_pass(Autograd({x}, y.sum()))[0];
  retrieve(std::vector{y, gradient});
  y.retrieve();
  gradient.retrieve();
  for (int run = 0; run < 2; ++run) {
    cx.execute();
    const auto values = y.data<float>(), slopes = gradient.data<float>();
    for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(slopes[i], values[i] / 2) << i;
  }
}

TEST(Layers, RefuseWhatDoesNotFit) {
  Graph cx;
  EXPECT_THAT(error_of<Error>([&] { Linear(cx, 0, 3); }), HasSubstr("[Linear] in=0 is out of range"));
  EXPECT_THAT(error_of<Error>([&] { Linear(cx, 2, 3, {.dtype = Dtype::I32}); }),
              HasSubstr("[Linear] weights of i32 cannot be trained"));
  EXPECT_THAT(error_of<Error>([&] { Conv1d(cx, 3, 4, {3}, {.groups = 2}); }),
              HasSubstr("[Conv1d] in=3 and out=4 must be positive multiples of groups=2"));
  EXPECT_THAT(error_of<Error>([&] { Embedding(cx, 4, 3, {.padding_idx = 4}); }),
              HasSubstr("[Embedding] padding_idx=4 is outside the 4 rows; give one from -4 to 3"));
  GraphTensor words = cx.tensor({2, 3}, Dtype::I32);
  const GraphTensor rows = Embedding(cx, 4, 3).forward(words);
  EXPECT_THAT(error_of<Error>([&] { words.set({{0, 1, 2}, {3, 0, 4}}); }),
              HasSubstr("[Embedding] the index at [1, 2] is 4, but the table has the rows 0..3; fix the "
                        "data, or make the table larger (made at layers_test.cpp:"));
  EXPECT_THAT(error_of<Error>([&] { GroupNorm(cx, 2, 5); }),
              HasSubstr("[GroupNorm] 2 groups do not divide 5 channels"));
  EXPECT_THAT(error_of<Error>([&] { (void)LayerNorm(cx, {2, 3}).forward(cx.tensor({4, 3})); }),
              HasSubstr("[LayerNorm] x is f32[4, 3] and must end in [2, 3]"));
  EXPECT_THAT(error_of<Error>([&] { (void)BatchNorm(cx, 3).forward(cx.tensor({4, 2})); }),
              HasSubstr("[BatchNorm] x is f32[4, 2] and must be [N, 3] or [N, 3, ...]"));
  EXPECT_THAT(error_of<Error>([&] { (void)BatchNorm(cx, 3).forward(cx.tensor({1, 3})); }),
              HasSubstr("[BatchNorm] x f32[1, 3] has one value for each channel"));
  EXPECT_THAT(error_of<Error>([&] { BatchNorm(cx, 3, {.momentum = 2}); }),
              HasSubstr("[BatchNorm] momentum=2 is out of range"));
}

TEST(Containers, ListsOfAnyModuleRunInOrder) {
  Graph cx;
  std::vector<AnyModule> list{Linear(cx, 2, 2), ReLU(), Dropout(0.5)};
  const SequentialOf model(list);
  EXPECT_EQ(param_dict(model).begin()->first, "0/bias");
  eval(model);
  GraphTensor x = cx.tensor({1, 2}).set({{1, -1}});
  GraphTensor y = model.forward(x).retrieve(), z = list[0].forward(x).relu().retrieve();
  cx.execute();
  EXPECT_EQ(y.data<float>(), z.data<float>());
}

/// Statistics after batches of these sizes of a named batch dim; each value is its number.
std::vector<std::vector<float>> batch_norm_after(const std::vector<int64_t>& sizes,
                                                 std::optional<double> momentum, std::string_view device) {
  Graph cx;
  cx.set_device(device);
  const BatchNorm norm(cx, 2, {.momentum = momentum});
  GraphTensor x = cx.named_tensor("x", {"batch", 2});
  GraphTensor y = norm.forward(x).retrieve();
  for (const int64_t size : sizes) {
    std::vector<float> values(static_cast<size_t>(2 * size));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    x.set_dyn(values, {size, 2});
    cx.execute();
    for (const float value : y.data<float>()) EXPECT_TRUE(std::isfinite(value)) << "batch of " << size;
  }
  return {norm.running_mean->data<float>(), norm.running_var->data<float>(),
          norm.num_batches_tracked->data<float>()};
}

// Worked out by hand: a batch of one has the mean of its only value and no variance, an empty one has
// neither.
TEST(BatchNorm, ANamedBatchOfOneOrNoneBringsNoNanIntoTheStatistics) {
  using Stats = std::vector<std::vector<float>>;
  for (const std::string_view device : {"reference", "cpu"}) {
    EXPECT_EQ(batch_norm_after({1}, 0.5, device), (Stats{{0, 0.5F}, {1, 1}, {1}})) << device;
    EXPECT_EQ(batch_norm_after({0}, 0.5, device), (Stats{{0, 0}, {1, 1}, {0}})) << device;
    // {0, 1}, {2, 3}: means 1 and 2, sample variances 2 and 2.
    EXPECT_EQ(batch_norm_after({2}, 0.5, device), (Stats{{0.5F, 1}, {1.5F, 1.5F}, {1}})) << device;
    EXPECT_EQ(batch_norm_after({1, 2, 0}, 0.5, device), (Stats{{0.5F, 1.25F}, {1.5F, 1.5F}, {2}})) << device;
    EXPECT_EQ(batch_norm_after({0, 2}, std::nullopt, device), (Stats{{1, 2}, {2, 2}, {1}})) << device;
  }
}

}  // namespace
}  // namespace luminal::nn
