#include "cli/networks.h"

#include <algorithm>
#include <string>

#include "cli/mnist_step.h"
#include "luminal/autograd.h"
#include "luminal/models/gpt.h"
#include "luminal/models/llama.h"
#include "luminal/models/lstm.h"
#include "luminal/models/mobilenet.h"
#include "luminal/models/resnet.h"
#include "luminal/models/unet.h"
#include "luminal/models/vit.h"
#include "luminal/training/loss.h"
#include "luminal/training/optimizer.h"

namespace luminal::cli {
namespace {

/// A size that is a number in the graph.
int64_t taken(DimMap& sizes, const std::string& name, int64_t otherwise) {
  const auto given = sizes.extract(name);
  return given.empty() ? otherwise : given.mapped();
}

/// A size of a named dim unless it is given.
void suggest(DimMap& sizes, const std::string& name, int64_t size) { sizes.try_emplace(name, size); }

/// The weights that `listed` lacks, without decay.
template <class Optimizer>
std::vector<training::ParameterGroup<typename Optimizer::Options>> without_decay(
    const std::vector<GraphTensor>& weights, const std::vector<GraphTensor>& listed) {
  std::vector<GraphTensor> others;
  for (const GraphTensor& weight : weights)
    if (std::ranges::none_of(
            listed, [&](const GraphTensor& each) { return each.edge().source == weight.edge().source; }))
      others.push_back(weight);
  return {{others, [](auto& options) { options.weight_decay = 0; }}};
}

GraphTensor image_input(Graph& cx, int64_t batch, int64_t side) {
  return cx.named_tensor("images", {batch, 3, side, side});
}

/// Logits [..., classes] against one class for each row.
GraphTensor mean_loss(const GraphTensor& logits, const GraphTensor& targets) {
  const int classes = logits.rank() - 1;
  GraphTensor loss = training::cross_entropy(classes > 1 ? logits.flatten(0, classes - 1) : logits,
                                             classes > 1 ? targets.flatten() : targets);
  return loss.retrieve();
}

}  // namespace

Inputs build_mnist_step(Graph& cx, DimMap& sizes) {
  const MnistStep step(cx, taken(sizes, "batch", 64), 1e-3);
  return {step.images, step.labels};
}

Inputs build_gpt_step(Graph& cx, DimMap& sizes) {
  const int64_t batch = taken(sizes, "batch", 4), layers = taken(sizes, "layers", 6), length = 256;
  const models::Gpt model(
      cx, {.vocabulary = 65, .context = length, .layers = layers, .heads = 6, .size = 384, .bias = false});
  const GraphTensor tokens = cx.named_tensor("tokens", {batch, length}, Dtype::I32);
  const GraphTensor next = cx.named_tensor("next", {batch, length}, Dtype::I32);
  const GraphTensor loss = mean_loss(model.forward(tokens), next);
  const std::vector<GraphTensor> weights = nn::params(model);
  const training::AdamW optimizer(cx, weights, cx.run_pass(Autograd(weights, loss)),
                                  {.learning_rate = 1e-3, .beta2 = 0.99, .weight_decay = 0.1},
                                  without_decay<training::AdamW>(weights, model.decayed()));
  return {tokens, next};
}

namespace {

/// A step of SGD on classes of `inputs`, [batch, ...].
template <class M>
Inputs classifier_step(Graph& cx, const M& model, const GraphTensor& inputs,
                       const training::SGD::Options& options) {
  const GraphTensor labels = cx.named_tensor("labels", {inputs.dim(0)}, Dtype::I32);
  const GraphTensor loss = mean_loss(model.forward(inputs), labels);
  const std::vector<GraphTensor> weights = nn::params(model);
  const training::SGD optimizer(cx, weights, cx.run_pass(Autograd(weights, loss)), options);
  return {inputs, labels};
}

const training::SGD::Options kImageSgd{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 1e-4};

}  // namespace

Inputs build_resnet50_step(Graph& cx, DimMap& sizes) {
  const models::ResNet model(cx, models::ResNet::resnet50());
  return classifier_step(cx, model, image_input(cx, taken(sizes, "batch", 8), 224), kImageSgd);
}

Inputs build_mobilenet_step(Graph& cx, DimMap& sizes) {
  const models::MobileNetV3 model(cx, models::MobileNetV3::large());
  return classifier_step(cx, model, image_input(cx, taken(sizes, "batch", 8), 224), kImageSgd);
}

Inputs build_mlp_step(Graph& cx, DimMap& sizes) {
  const nn::Sequential model(nn::Linear(cx, 784, 512), nn::ReLU(), nn::Linear(cx, 512, 512), nn::ReLU(),
                             nn::Linear(cx, 512, 10));
  const GraphTensor inputs = cx.named_tensor("inputs", {taken(sizes, "batch", 128), 784});
  return classifier_step(cx, model, inputs, {.learning_rate = 0.01});
}

Inputs build_lstm_step(Graph& cx, DimMap& sizes) {
  const int64_t batch = taken(sizes, "batch", 16), steps = taken(sizes, "steps", 128);
  const models::LstmText model(cx, {.embedding = 512, .hidden = 512, .layers = 2});
  const GraphTensor tokens = cx.named_tensor("tokens", {steps, batch}, Dtype::I32);
  const GraphTensor next = cx.named_tensor("next", {steps, batch}, Dtype::I32);
  const GraphTensor loss = mean_loss(model.forward(tokens), next);
  const std::vector<GraphTensor> weights = nn::params(model);
  const training::Adam optimizer(cx, weights, cx.run_pass(Autograd(weights, loss)), {.learning_rate = 1e-3});
  return {tokens, next};
}

Inputs build_attention_step(Graph& cx, DimMap& sizes) {
  const int64_t length = taken(sizes, "length", 2048), heads = 8, size = 64;
  Inputs inputs;
  for (const char* name : {"q", "k", "v", "upstream"})
    inputs.push_back(cx.named_tensor(name, {heads, length, size}));
  GraphTensor y = attention(inputs[0], inputs[1], inputs[2]);
  const std::vector<GraphTensor> weights(inputs.begin(), inputs.begin() + 3);
  retrieve(cx.run_pass(Autograd(weights, (y * inputs[3]).sum()), y));
  y.retrieve();
  return inputs;
}

Inputs build_resnet50(Graph& cx, DimMap& sizes) {
  const models::ResNet model(cx, models::ResNet::resnet50());
  nn::eval(model);
  const GraphTensor images = image_input(cx, taken(sizes, "batch", 1), 224);
  model.forward(images).retrieve();
  return {images};
}

Inputs build_mobilenet(Graph& cx, DimMap& sizes) {
  const models::MobileNetV3 model(cx, models::MobileNetV3::large());
  nn::eval(model);
  const GraphTensor images = image_input(cx, taken(sizes, "batch", 1), 224);
  model.forward(images).retrieve();
  return {images};
}

Inputs build_encoder(Graph& cx, DimMap& sizes) {
  const int64_t batch = taken(sizes, "batch", 1), layers = taken(sizes, "layers", 6), length = 128,
                size = 384;
  const nn::Embedding words(cx, 30522, size), positions(cx, length, size);
  const nn::LayerNorm norm(cx, size);
  const nn::TransformerEncoder encoder(
      cx, layers, size, 12,
      {.dim_feedforward = 4 * size, .dropout = 0, .activation = "gelu", .batch_first = true});
  const GraphTensor tokens = cx.named_tensor("tokens", {batch, length}, Dtype::I32);
  encoder.forward(norm.forward(words.forward(tokens) + positions.weight)).retrieve();
  return {tokens};
}

/// Each expert sees all tokens; those that do not take it count 0.
Inputs build_experts(Graph& cx, DimMap& sizes) {
  const int64_t tokens = taken(sizes, "tokens", 128), experts = taken(sizes, "experts", 8), taken_each = 2;
  const int64_t size = 256, hidden = 512;
  const auto weight = [&](const char* label, const Shape& dims) { return cx.named_tensor(label, dims); };
  const GraphTensor x = cx.named_tensor("x", {tokens, size});
  const GraphTensor gate = weight("gate", {experts, size, hidden}),
                    up = weight("up", {experts, size, hidden}),
                    down = weight("down", {experts, hidden, size}),
                    router = weight("router", {size, experts});
  const auto [top, which] = x.matmul(router).topk(taken_each);
  const GraphTensor chosen = which.unsqueeze(-1).eq(cx.arange(experts));  // [tokens, taken, experts]
  const GraphTensor share = chosen.where(top.softmax(-1).unsqueeze(-1), 0).sum(1);
  const GraphTensor within = x.unsqueeze(0).matmul(gate).silu() * x.unsqueeze(0).matmul(up);
  ((within.matmul(down) * share.transpose(0, 1).unsqueeze(2)).sum(0) + x).retrieve();
  return {x, gate, up, down, router};
}

Inputs build_unet(Graph& cx, DimMap& sizes) {
  const models::UNet model(cx, {});
  nn::eval(model);
  const GraphTensor images = image_input(cx, taken(sizes, "batch", 1), taken(sizes, "side", 256));
  model.forward(images).retrieve();
  return {images};
}

Inputs build_vit(Graph& cx, DimMap& sizes) {
  const models::Vit model(cx, models::Vit::b16());
  nn::eval(model);
  const GraphTensor images = image_input(cx, taken(sizes, "batch", 1), model.options.image);
  model.forward(images).retrieve();
  return {images};
}

namespace {

constexpr int64_t kLlamaContext = 2048;

models::Llama::Options llama_sizes(DimMap& sizes) {
  models::Llama::Options options = models::Llama::llama3_8b();
  options.layers = taken(sizes, "layers", options.layers);
  return options;
}

Inputs build_llama(Graph& cx, const models::Llama::Options& sizes, int64_t fresh, const Expression& past) {
  const models::Llama model(cx, sizes);
  nn::eval(model);
  const GraphTensor tokens = cx.named_tensor("tokens", {1, fresh}, Dtype::I32);
  const GraphTensor logits = model.forward(tokens, model.caches(cx, kLlamaContext, past));
  logits.slice_along(1, fresh - 1, fresh).contiguous().retrieve();
  return {tokens};
}

}  // namespace

Inputs build_llama_decode(Graph& cx, DimMap& sizes) {
  suggest(sizes, "past", 511);
  return build_llama(cx, llama_sizes(sizes), 1, Expression("past"));
}

Inputs build_llama_prompt(Graph& cx, DimMap& sizes) {
  return build_llama(cx, llama_sizes(sizes), taken(sizes, "length", 512), 0);
}

}  // namespace luminal::cli
