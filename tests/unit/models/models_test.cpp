#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "luminal/autograd.h"
#include "luminal/error.h"
#include "luminal/models/gpt.h"
#include "luminal/models/llama.h"
#include "luminal/models/lstm.h"
#include "luminal/models/mnist_cnn.h"
#include "luminal/models/mobilenet.h"
#include "luminal/models/resnet.h"
#include "luminal/models/unet.h"
#include "luminal/models/vit.h"

// Models of the published sizes by their counts and names, small ones by their gradients.
namespace luminal::models {
namespace {

using testing::IsSupersetOf;

template <class M>
int64_t count_of(const M& model) {
  int64_t count = 0;
  for (const GraphTensor& weight : nn::params(model)) count += *element_count(weight.dims()).constant();
  return count;
}

template <class M>
std::set<std::string> names_of(const M& model) {
  std::set<std::string> names;
  for (const auto& entry : nn::entries(model)) names.insert(entry.name);
  return names;
}

// Counts as torchvision, nanoGPT and Hugging Face publish them. No weight is drawn: Llama's would fill 16 GB.
TEST(ModelSizes, ArePublished) {
  Graph cx;
  EXPECT_EQ(count_of(ResNet(cx, ResNet::resnet18())), 11'689'512);
  EXPECT_EQ(count_of(ResNet(cx, ResNet::resnet34())), 21'797'672);
  EXPECT_EQ(count_of(ResNet(cx, ResNet::resnet50())), 25'557'032);
  EXPECT_EQ(count_of(MobileNetV3(cx, MobileNetV3::large())), 5'483'032);
  EXPECT_EQ(count_of(MobileNetV3(cx, MobileNetV3::small())), 2'542'856);
  EXPECT_EQ(count_of(Vit(cx, Vit::b16())), 86'567'656);
  EXPECT_EQ(count_of(Vit(cx, Vit::small16())), 22'050'664);
  EXPECT_EQ(count_of(Gpt(cx, {})), 124'439'808);
  EXPECT_EQ(count_of(Llama(cx, Llama::llama3_8b())), 8'030'261'248);
  EXPECT_EQ(count_of(UNet(cx, {.classes = 1})), 17'262'977);
  EXPECT_EQ(count_of(LstmText(cx, {})), 256 * 512 + 2 * (4 * 512 * 1024 + 2 * 4 * 512) + 256 * 512 + 256);
}

TEST(ModelNames, AreThoseOfCheckpoints) {
  Graph cx;
  EXPECT_THAT(names_of(ResNet(cx, ResNet::resnet50())),
              IsSupersetOf({"conv1/weight", "bn1/running_mean", "layer1/0/downsample/0/weight",
                            "layer1/0/downsample/1/num_batches_tracked", "layer4/2/bn3/bias", "fc/bias"}));
  EXPECT_THAT(names_of(MobileNetV3(cx, MobileNetV3::large())),
              IsSupersetOf({"features/0/0/weight", "features/1/block/0/0/weight",
                            "features/4/block/2/fc1/bias", "features/4/block/3/1/running_var",
                            "features/16/1/bias", "classifier/0/weight", "classifier/3/bias"}));
  EXPECT_THAT(names_of(Vit(cx, {.layers = 1})),
              IsSupersetOf({"class_token", "conv_proj/bias", "encoder/pos_embedding",
                            "encoder/layers/encoder_layer_0/self_attention/in_proj_weight",
                            "encoder/layers/encoder_layer_0/self_attention/out_proj/bias",
                            "encoder/layers/encoder_layer_0/mlp/3/weight", "encoder/ln/weight",
                            "heads/head/weight"}));
  EXPECT_THAT(
      names_of(Gpt(cx, {.layers = 1})),
      IsSupersetOf({"transformer/wte/weight", "transformer/wpe/weight", "transformer/h/0/attn/c_attn/bias",
                    "transformer/h/0/mlp/c_proj/weight", "transformer/ln_f/bias", "lm_head/weight"}));
  EXPECT_THAT(names_of(UNet(cx, {})),
              IsSupersetOf({"inc/double_conv/0/weight", "down4/maxpool_conv/1/double_conv/4/running_var",
                            "up1/conv/double_conv/3/weight", "outc/conv/bias"}));
  EXPECT_THAT(names_of(Llama(cx, {.tied = false})),
              IsSupersetOf({"model/embed_tokens/weight", "model/layers/3/self_attn/o_proj/weight",
                            "model/layers/0/mlp/down_proj/weight", "model/norm/weight", "lm_head/weight"}));
  EXPECT_FALSE(names_of(Llama(cx, {})).contains("lm_head/weight"));
  EXPECT_THAT(names_of(LstmText(cx, {})),
              IsSupersetOf({"encoder/weight", "rnn/weight_hh_l1", "rnn/bias_ih_l0", "decoder/bias"}));
}

TEST(ModelShapes, FollowTheirInputs) {
  Graph cx;
  const GraphTensor images = cx.tensor({"n", 3, 96, 96});
  EXPECT_EQ(ResNet(cx, ResNet::resnet50()).forward(images).dims(), (Shape{"n", 1000}));
  EXPECT_EQ(MobileNetV3(cx, MobileNetV3::small()).forward(images).dims(), (Shape{"n", 1000}));
  EXPECT_THROW(MobileNetV3(cx, MobileNetV3::Options()), Error);
  // Halving 70 four times rounds down twice; the skips bring it back.
  EXPECT_EQ(UNet(cx, {.width = 4}).forward(cx.tensor({2, 3, 70, 86})).dims(), (Shape{2, 2, 70, 86}));
  const GraphTensor tokens = cx.tensor({"n", 7}, Dtype::I32);
  EXPECT_EQ(Gpt(cx, {.layers = 1}).forward(tokens).dims(), (Shape{"n", 7, 50257}));
  EXPECT_EQ(LstmText(cx, {}).forward(tokens.transpose(0, 1)).dims(), (Shape{7, "n", 256}));
  EXPECT_THROW((void)Gpt(cx, {.context = 6, .layers = 1}).forward(tokens), ShapeError);
  EXPECT_THROW((void)Vit(cx, {.layers = 1}).forward(images), ShapeError);
  EXPECT_THROW(Vit(cx, {.image = 100}), ShapeError);
  EXPECT_THROW(Gpt(cx, {.heads = 5}), ShapeError);
  EXPECT_THROW(LstmText(cx, {.embedding = 3, .hidden = 4, .tied = true}), ShapeError);
}

/// Numbers without pattern in [-1, 1].
std::vector<double> waves(int64_t count, double phase) {
  std::vector<double> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(1.7 * static_cast<double>(i * i) + phase);
  return values;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// The gradient of each weight along one direction against differences of the loss, all in f64.
template <class M>
void expect_gradients(Graph& cx, const M& model, const GraphTensor& output) {
  const GraphTensor angle = cx.iota(Expression::flat_index(), output.dims()).cast(Dtype::F64) * 0.7 + 0.3;
  GraphTensor loss = (output * angle.cos()).sum();
  std::vector<GraphTensor> weights = nn::params(model);
  std::vector<GraphTensor> gradients = cx.run_pass(Autograd(weights, loss));
  loss.retrieve();
  retrieve(gradients);
  cx.execute();
  std::vector<std::vector<double>> exact;
  for (const GraphTensor& gradient : gradients) exact.push_back(gradient.data<double>());
  for (size_t i = 0; i < weights.size(); ++i) {
    const TensorData start = weights[i].data();
    const std::vector<double> direction = waves(start.element_count(), 0.1 * static_cast<double>(i));
    const auto loss_at = [&](double step) {
      TensorData moved = start;
      for (size_t j = 0; j < direction.size(); ++j) moved.as<double>()[j] += step * direction[j];
      weights[i].set(std::move(moved));
      cx.execute();
      return loss.item();
    };
    constexpr double kStep = 1e-6;
    const double slope = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
    weights[i].set(TensorData(start));
    EXPECT_NEAR(slope, dot(exact[i], direction), 1e-5 * (1 + std::abs(slope))) << weights[i].name();
  }
}

GraphTensor wave_images(Graph& cx, int64_t count, int64_t channels, int64_t side) {
  GraphTensor images = cx.tensor({count, channels, side, side}, Dtype::F64);
  return images.set(waves(count * channels * side * side, 0.5));
}
GraphTensor some_tokens(Graph& cx, int64_t rows, int64_t columns, int32_t vocabulary) {
  std::vector<int32_t> values(static_cast<size_t>(rows * columns));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int32_t>(i * i + 3 * i + 1) % vocabulary;
  return cx.tensor({rows, columns}, Dtype::I32).set(values);
}

TEST(ModelGradients, ResNet) {
  for (const bool bottleneck : {false, true}) {
    Graph cx;
    const ResNet model(cx, {.blocks = {1, 1, 1, 1},
                            .bottleneck = bottleneck,
                            .classes = 3,
                            .in = 2,
                            .width = 2,
                            .dtype = Dtype::F64});
    expect_gradients(cx, model, model.forward(wave_images(cx, 3, 2, 20)));
  }
}

TEST(ModelGradients, MobileNet) {
  Graph cx;
  const MobileNetV3 model(cx, {.stages = {{3, 4, 4, false, false, 1}, {5, 8, 4, true, true, 2}},
                               .last = 6,
                               .classes = 3,
                               .in = 2,
                               .stem = 4,
                               .dropout = 0,
                               .dtype = Dtype::F64});
  expect_gradients(cx, model, model.forward(wave_images(cx, 3, 2, 18)));
}

TEST(ModelGradients, UNet) {
  Graph cx;
  const UNet model(cx, {.in = 1, .classes = 2, .width = 2, .dtype = Dtype::F64});
  nn::eval(model);                               // the deepest level has one pixel: no statistics
  for (GraphTensor& weight : nn::params(model))  // norms start with a bias of 0, where ReLU has its kink
    if (weight.rank() == 1) weight.set(waves(*weight.dim(0).constant(), 0.4));
  expect_gradients(cx, model, model.forward(wave_images(cx, 1, 1, 18)));
}

TEST(ModelGradients, Vit) {
  Graph cx;
  const Vit model(cx, {.image = 6,
                       .patch = 3,
                       .in = 2,
                       .classes = 3,
                       .layers = 2,
                       .heads = 2,
                       .size = 4,
                       .hidden = 6,
                       .dtype = Dtype::F64});
  GraphTensor head = model.head.weight;  // starts at 0, which hides all gradients but its own
  head.set(waves(12, 0.2));
  expect_gradients(cx, model, model.forward(wave_images(cx, 2, 2, 6)));
}

TEST(ModelGradients, Gpt) {
  Graph cx;
  const Gpt model(cx,
                  {.vocabulary = 5, .context = 6, .layers = 2, .heads = 2, .size = 4, .dtype = Dtype::F64});
  expect_gradients(cx, model, model.forward(some_tokens(cx, 2, 4, 5)));
}

TEST(ModelGradients, Llama) {
  for (const bool tied : {true, false}) {
    Graph cx;
    const Llama model(cx, {.vocabulary = 5,
                           .layers = 2,
                           .size = 8,
                           .heads = 4,
                           .kv_heads = 2,
                           .tied = tied,
                           .dtype = Dtype::F64});
    expect_gradients(cx, model, model.forward(some_tokens(cx, 2, 4, 5)));
  }
}

TEST(ModelGradients, Lstm) {
  for (const bool tied : {true, false}) {
    Graph cx;
    const LstmText model(cx, {.vocabulary = 5,
                              .embedding = tied ? 3 : 4,
                              .hidden = 3,
                              .layers = 2,
                              .tied = tied,
                              .dtype = Dtype::F64});
    expect_gradients(cx, model, model.forward(some_tokens(cx, 4, 2, 5)));
  }
}

// A prompt and then single tokens, keys and values from the cache, give what the whole text gives.
TEST(LlamaDecode, IsTheWholeText) {
  const Llama::Options sizes{.vocabulary = 7,
                             .layers = 2,
                             .size = 8,
                             .heads = 4,
                             .kv_heads = 2,
                             .rope_base = 100,
                             .tied = false,
                             .dtype = Dtype::F64};
  Graph whole, stepwise;
  const Llama model(whole, sizes), same(stepwise, sizes);
  nn::load_state_dict(same, nn::state_dict(model));
  GraphTensor wanted = model.forward(some_tokens(whole, 1, 6, 7)).retrieve();
  whole.execute();
  const std::vector<double> all = wanted.data<double>();
  const std::vector<int32_t> text = some_tokens(whole, 1, 6, 7).data<int32_t>();

  GraphTensor tokens = stepwise.named_tensor("tokens", {1, "new"}, Dtype::I32);
  GraphTensor logits = same.forward(tokens, same.caches(stepwise, 8, "past")).retrieve();
  size_t past = 0;
  for (const size_t fresh : {3, 1, 1, 1}) {
    stepwise.set_dim("past", static_cast<int64_t>(past));
    tokens.set_dyn(std::vector<int32_t>(text.begin() + static_cast<ptrdiff_t>(past),
                                        text.begin() + static_cast<ptrdiff_t>(past + fresh)),
                   {1, static_cast<int64_t>(fresh)});
    stepwise.execute();
    const std::vector<double> got = logits.data<double>();
    ASSERT_EQ(got.size(), fresh * 7);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], all[past * 7 + i], 1e-12);
    past += fresh;
  }
}

}  // namespace
}  // namespace luminal::models
