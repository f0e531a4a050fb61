#include <cmath>

#include "error/mistake.h"

// Mistakes with modules, losses, optimizers and gradients.
namespace luminal::error_test {
namespace {

struct Classifier {
  nn::Linear hidden, out;
  explicit Classifier(Graph& cx) : hidden(cx, 4, 8), out(cx, 8, 3) {}
  [[nodiscard]] GraphTensor forward(const GraphTensor& x) const {
    return out.forward(hidden.forward(x).relu());
  }
  void serialize(nn::Serializer& s) const {
    s.module("hidden", hidden);
    s.module("out", out);
  }
};

/// A module whose weight waits to be loaded.
struct Scale {
  GraphTensor weight;
  explicit Scale(Graph& cx) : weight(cx.named_tensor("weight", {4})) {}
  [[nodiscard]] GraphTensor forward(const GraphTensor& x) const { return x * weight; }
  void serialize(nn::Serializer& s) const { s.tensor("weight", weight); }
};
struct Scaled {
  Scale scale;
  explicit Scaled(Graph& cx) : scale(cx) {}
  [[nodiscard]] GraphTensor forward(const GraphTensor& x) const { return scale.forward(x); }
  void serialize(nn::Serializer& s) const { s.module("scale", scale); }
};

struct Unlisted {
  nn::Linear layer;
  explicit Unlisted(Graph& cx) : layer(cx, 4, 2) {}
  [[nodiscard]] GraphTensor forward(const GraphTensor& x) const { return layer.forward(x); }
  void serialize(nn::Serializer&) const {}
};

struct Twice {
  nn::Linear a, b;
  explicit Twice(Graph& cx) : a(cx, 4, 4), b(cx, 4, 4) {}
  void serialize(nn::Serializer& s) const {
    s.module("layer", a);
    s.module("layer", b);
  }
};

TEST(TrainingMistakes, Modules) {
  Graph cx;
  const Classifier model(cx);
  const nn::BatchNorm2d norm(cx, 8);
  expect_told({
      {"features of another size", [&] { (void)model.forward(cx.named_tensor("x", {2, 5})); },
       "[Linear] x is f32[2, 5] and must end in 4 to match the weight f32[8, 4] (made at `return "
       "out.forward(hidden.forward(x).relu());`)"},
      {"a Linear", [&] { (void)model.hidden.forward(cx.tensor({2, 5})); },
       "[Linear] x is f32[2, 5] and must end in 4 to match the weight f32[8, 4] (made at "
       "`(void)model.hidden.forward(cx.tensor({2, 5}));`)"},
      {"a Linear of nothing", [&] { (void)nn::Linear(cx, 0, 4); },
       "[Linear] in=0 is out of range; give at least 1 (made at `(void)nn::Linear(cx, 0, 4);`)"},
      {"a Linear of a negative size", [&] { (void)nn::Linear(cx, 4, -4); },
       "[Linear] out=-4 is out of range; give at least 1 (made at `(void)nn::Linear(cx, 4, -4);`)"},
      {"a convolution of other channels",
       [&] { (void)nn::Conv2d(cx, 3, 8, {3, 3}).forward(cx.tensor({1, 1, 28, 28})); },
       "[Conv2d > conv2d] x f32[1, 1, 28, 28] has 1 channels, but weight f32[8, 3, 3, 3] expects 3 (3 x 1 "
       "groups); weight must be [out, 1, kh, kw] (made at `(void)nn::Conv2d(cx, 3, 8, {3, "
       "3}).forward(cx.tensor({1, 1, 28, 28}));`)"},
      {"a norm of other channels", [&] { (void)norm.forward(cx.tensor({2, 4, 7, 7})); },
       "[BatchNorm] x is f32[2, 4, 7, 7] and must be [N, 8] or [N, 8, ...] (made at "
       "`(void)norm.forward(cx.tensor({2, 4, 7, 7}));`)"},
      {"a norm of one value", [&] { (void)nn::BatchNorm(cx, 4).forward(cx.tensor({1, 4})); },
       "[BatchNorm] x f32[1, 4] has one value for each channel, so there is no variance to train on; give a "
       "larger batch, or call nn::eval first (made at `(void)nn::BatchNorm(cx, 4).forward(cx.tensor({1, "
       "4}));`)"},
      {"a layer norm of another size", [&] { (void)nn::LayerNorm(cx, 8).forward(cx.tensor({2, 4})); },
       "[LayerNorm] x is f32[2, 4] and must end in [8], over which it is normalised (made at "
       "`(void)nn::LayerNorm(cx, 8).forward(cx.tensor({2, 4}));`)"},
      {"an embedding of floats", [&] { (void)nn::Embedding(cx, 10, 4).forward(cx.tensor({2})); },
       "[Embedding > index_select] the index is f32[2]; give integers, as cast(Dtype::I64) makes them (made "
       "at `(void)nn::Embedding(cx, 10, 4).forward(cx.tensor({2}));`)"},
      {"heads that do not divide", [&] { (void)nn::MultiheadAttention(cx, 10, 3); },
       "[MultiheadAttention] embed=10 is not a multiple of heads=3; give a multiple (made at "
       "`(void)nn::MultiheadAttention(cx, 10, 3);`)"},
      {"an LSTM of another size", [&] { (void)nn::LSTM(cx, 4, 8).forward(cx.tensor({5, 2, 3})); },
       "[LSTM] x is f32[5, 2, 3] and must be [length, batch, 4] or [length, 4] (made at `(void)nn::LSTM(cx, "
       "4, 8).forward(cx.tensor({5, 2, 3}));`)"},
      {"a gain misspelt", [&] { (void)nn::init::gain("leaky_rleu"); },
       "[init] no gain is known for the nonlinearity 'leaky_rleu'; choose one of linear, sigmoid, tanh, "
       "relu, leaky_relu, selu; did you mean 'leaky_relu'?"},
      {"two members of one name", [&] { (void)nn::state_dict(Twice(cx)); },
       "[serialize] two tensors are called 'layer/weight'; give each member of a module its own name"},
      {"dropout of 50 percent", [&] { (void)model.forward(cx.tensor({2, 4})).dropout(50); },
       "[dropout] p is 50; give a probability between 0 and 1 (made at `(void)model.forward(cx.tensor({2, "
       "4})).dropout(50);`)"},
  });
  expect_told({
      {"a word that is not in the table",
       [] {
         Graph g;
         GraphTensor words = g.named_tensor("words", {2}, Dtype::I64);
         (void)nn::Embedding(g, 10, 4).forward(words).retrieve();
         words.set({3, 10});
       },
       "[Embedding] the index at row 1 is 10, but the table has the rows 0..9; fix the data, or make the "
       "table larger (made at `words.set({3, 10});`)"},
      {"weights that were not loaded",
       [] {
         Graph g;
         const Scaled scaled(g);
         (void)nn::params(scaled);
         (void)scaled.forward(g.tensor({4}).set({1, 2, 3, 4})).retrieve();
         g.execute();
       },
       "[execute] input 'scale/weight' f32[4] (made at `explicit Scale(Graph& cx) : "
       "weight(cx.named_tensor(\"weight\", {4})) {}`) is not set; give its data with set() before execute()"},
      {"weights that were dropped",
       [] {
         Graph g;
         const Classifier classifier(g);
         for (GraphTensor weight : nn::params(classifier)) weight.drop();
         (void)nn::state_dict(classifier);
       },
       "[data] 'hidden/weight' f32[8, 4] (made at `explicit Classifier(Graph& cx) : hidden(cx, 4, 8), "
       "out(cx, 8, 3) {}`) has no value; it is an input; give its data with set()"},
  });
}

TEST(TrainingMistakes, State) {
  Graph cx;
  const Classifier model(cx);
  auto state = nn::state_dict(model);
  const auto changed = [&](const std::string& name, TensorData data) {
    auto other = state;
    other[name] = std::move(data);
    return other;
  };
  auto missing = state;
  missing.erase("out.bias");
  auto renamed = missing;
  renamed["output.bias"] = state["out.bias"];
  expect_told({
      {"a missing weight", [&] { nn::load_state_dict(model, missing); },
       "[load_state_dict] names differ: missing [out.bias], unexpected []; pass strict = false to load what "
       "fits"},
      {"a weight under another name", [&] { nn::load_state_dict(model, renamed); },
       "[load_state_dict] names differ: missing [out.bias], unexpected [output.bias]; pass strict = false to "
       "load what fits"},
      {"a weight the other way around",
       [&] { nn::load_state_dict(model, changed("hidden.weight", TensorData(Dtype::F32, {4, 8}))); },
       "[load_state_dict] 'hidden.weight' is f32[4, 8] in the file and f32[8, 4] in the model; load weights "
       "of the same model"},
      {"a weight of integers",
       [&] { nn::load_state_dict(model, changed("hidden.bias", TensorData(Dtype::I32, {8}))); },
       "[load_state_dict] 'hidden.bias' is i32[8] in the file and f32[8] in the model; load weights of the "
       "same model"},
      {"nothing", [&] { nn::load_state_dict(model, {}); },
       "[load_state_dict] names differ: missing [hidden.weight, hidden.bias, out.weight, out.bias], "
       "unexpected []; pass strict = false to load what fits"},
  });
}

TEST(TrainingMistakes, Losses) {
  Graph cx;
  const GraphTensor logits = cx.named_tensor("logits", {4, 10});
  expect_told({
      {"targets as floats", [&] { (void)training::cross_entropy(logits, cx.named_tensor("y", {4})); },
       "[cross_entropy] target f32[4] fits neither class indices (integers [4]) nor probabilities (floats "
       "[4, 10]) of logits f32[4, 10] (made at `(void)training::cross_entropy(logits, cx.named_tensor(\"y\", "
       "{4}));`)"},
      {"targets of another count",
       [&] { (void)training::cross_entropy(logits, cx.named_tensor("y", {5}, Dtype::I64)); },
       "[cross_entropy] target i64[5] fits neither class indices (integers [4]) nor probabilities (floats "
       "[4, 10]) of logits f32[4, 10] (made at `(void)training::cross_entropy(logits, cx.named_tensor(\"y\", "
       "{5}, Dtype::I64));`)"},
      {"targets with an axis too many",
       [&] { (void)training::cross_entropy(logits, cx.named_tensor("y", {4, 1}, Dtype::I64)); },
       "[cross_entropy] target i64[4, 1] fits neither class indices (integers [4]) nor probabilities (floats "
       "[4, 10]) of logits f32[4, 10] (made at `(void)training::cross_entropy(logits, cx.named_tensor(\"y\", "
       "{4, 1}, Dtype::I64));`)"},
      {"mse that would broadcast", [&] { (void)training::mse(cx.tensor({4}), cx.tensor({4, 1})); },
       "[mse] input f32[4] and target f32[4, 1] must have the same dims; reshape one of them (made at "
       "`(void)training::mse(cx.tensor({4}), cx.tensor({4, 1}));`)"},
      {"mse of integers",
       [&] { (void)training::mse(cx.tensor({4}, Dtype::I32), cx.tensor({4}, Dtype::I32)); },
       "[mse] the input is i32[4] and must be floats; cast it, or swap input and target (made at "
       "`(void)training::mse(cx.tensor({4}, Dtype::I32), cx.tensor({4}, Dtype::I32));`)"},
      {"a class that is not there",
       [&] {
         GraphTensor y = cx.named_tensor("y", {4}, Dtype::I64);
         (void)training::cross_entropy(logits, y);
         y.set({0, 9, 10, 1});
       },
       "[cross_entropy] the target at row 2 is 10, which is none of the 10 classes 0..9; fix the data "
       "(classes count from 0), or give it the ignored index -100 (made at `y.set({0, 9, 10, 1});`)"},
  });
}

TEST(TrainingMistakes, Gradients) {
  Graph cx;
  const Classifier model(cx);
  GraphTensor x = cx.named_tensor("x", {2, 4}), i = cx.tensor({2, 4}, Dtype::I32);
  const GraphTensor y = model.forward(x), loss = y.square().mean();
  const auto weights = nn::params(model);
  expect_told({
      {"of integers", [&] { (void)cx.run_pass(Autograd({i}, loss)); },
       "[Autograd] parameter 0 is #N i32[2, 4] (made at `GraphTensor x = cx.named_tensor(\"x\", {2, 4}), i = "
       "cx.tensor({2, 4}, Dtype::I32);`); only floating tensors have gradients, cast() it before it is used"},
      {"of a loss of integers", [&] { (void)cx.run_pass(Autograd(weights, i.sum())); },
       "[Autograd] the loss is #N i64[] (made at `(void)cx.run_pass(Autograd(weights, i.sum()));`); "
       "only floating tensors have gradients, cast() it before it is used"},
      {"through argmax", [&] { (void)cx.run_pass(Autograd(weights, y.argmax(1).cast(Dtype::F32).sum())); },
       "[argmax > less_than] no gradient reaches a parameter: the loss depends on them only through bool[2, "
       "3], which has no gradient with respect to floats. Use a differentiable op (softmax instead of "
       "argmax, sigmoid instead of a comparison), or x + (y - x).stop_gradient() to let gradients pass as if "
       "y were x (made at `(void)cx.run_pass(Autograd(weights, y.argmax(1).cast(Dtype::F32).sum()));`)"},
      {"through a comparison", [&] { (void)cx.run_pass(Autograd(weights, y.gt(0).mean())); },
       "[gt > less_than] no gradient reaches a parameter: the loss depends on them only through bool[2, 3], "
       "which has no gradient with respect to floats. Use a differentiable op (softmax instead of argmax, "
       "sigmoid instead of a comparison), or x + (y - x).stop_gradient() to let gradients pass as if y were "
       "x (made at `(void)cx.run_pass(Autograd(weights, y.gt(0).mean()));`)"},
      {"of a tensor that was never made", [&] { (void)cx.run_pass(Autograd({GraphTensor()}, loss)); },
       "[Autograd] parameter 0 is not a tensor of an existing graph; give tensors that this graph still "
       "holds"},
      {"for a loss that was never made", [&] { (void)cx.run_pass(Autograd(weights, GraphTensor())); },
       "[Autograd] the loss is not a tensor of an existing graph; give tensors that this graph still holds"},
  });
}

TEST(TrainingMistakes, Optimizers) {
  Graph cx;
  const Classifier model(cx);
  GraphTensor x = cx.named_tensor("x", {2, 4});
  const GraphTensor loss = model.forward(x).square().mean();
  const auto weights = nn::params(model);
  const auto gradients = cx.run_pass(Autograd(weights, loss));
  auto fewer = gradients, swapped = gradients;
  fewer.pop_back();
  std::swap(swapped[0], swapped[1]);
  Graph other;
  const Classifier elsewhere(other);
  expect_told({
      {"no parameters", [&] { (void)training::Adam(cx, {}, {}, {}); },
       "[Adam] there are no parameters to train; does the module's serialize() list them with tensor()? "
       "(made at `(void)training::Adam(cx, {}, {}, {});`)"},
      {"fewer gradients", [&] { (void)training::Adam(cx, weights, fewer, {}); },
       "[Adam] 4 parameters and 3 gradients; give one gradient for each (made at `(void)training::Adam(cx, "
       "weights, fewer, {});`)"},
      {"gradients in another order", [&] { (void)training::Adam(cx, weights, swapped, {}); },
       "[Adam] parameter 0 is f32[8, 4] but its gradient f32[8]; both must be floats of the same dims (made "
       "at `(void)training::Adam(cx, weights, swapped, {});`)"},
      {"weights of another graph", [&] { (void)training::Adam(cx, nn::params(elsewhere), gradients, {}); },
       "[Adam] parameter 0 or its gradient belongs to another graph; give tensors of the optimizer's own "
       "(made at `(void)training::Adam(cx, nn::params(elsewhere), gradients, {});`)"},
      {"a parameter that is computed", [&] { (void)training::SGD(cx, {x * 2}, {x}, {}); },
       "[assign] only an input can be state, and this tensor is made by 'mul'; declare it with tensor() "
       "(made at `(void)training::SGD(cx, {x * 2}, {x}, {});`)"},
      {"a negative rate", [&] { (void)training::SGD(cx, weights, gradients, {.learning_rate = -0.1}); },
       "[SGD] learning_rate=-0.1 is out of range; give 0 or more (made at `(void)training::SGD(cx, weights, "
       "gradients, {.learning_rate = -0.1});`)"},
      {"a beta of 1", [&] { (void)training::Adam(cx, weights, gradients, {.beta1 = 1}); },
       "[Adam] beta1=1 is out of range; give a number in [0, 1) (made at `(void)training::Adam(cx, weights, "
       "gradients, {.beta1 = 1});`)"},
      {"a clip below 0", [&] { (void)training::clip_grad_norm(gradients, -1); },
       "[clip_grad_norm] max_norm=-1 is out of range; give 0 or more (made at "
       "`(void)training::clip_grad_norm(gradients, -1);`)"},
  });
}

/// A new graph, a model in it, and what a test makes of them.
struct Made {
  Graph cx;
  Classifier model;
  GraphTensor x, rows, loss, other;
  Made() : model(cx) {
    x = cx.named_tensor("x", {2, 4});
    rows = model.forward(x).sum(1);
    loss = rows.square().mean();
    other = x.square().mean();
  }
};
const training::MakeOptimizer kAdam = training::use<training::Adam>({});

TEST(TrainingMistakes, Trainers) {
  expect_told({
      {"without weights",
       [] {
         Made run;
         training::Trainer(run.cx, Unlisted(run.cx), run.loss, kAdam);
       },
       "[Trainer] there are no weights to train; does serialize() list them with tensor()?"},
      {"with a loss of a batch",
       [] {
         Made run;
         training::Trainer(run.cx, run.model, run.rows, kAdam);
       },
       "[Trainer] the loss is f32[2]; give one number, as mean() or sum() makes (made at `rows = "
       "model.forward(x).sum(1);`)"},
      {"with a loss that depends on no weight",
       [] {
         Made run;
         training::Trainer(run.cx, run.model, run.other, kAdam);
       },
       "[Trainer] the loss depends on none of the 4 weights; is it computed from what forward() returned? "
       "(made at `other = x.square().mean();`)"},
      {"in another graph",
       [] {
         Made run;
         Graph other;
         training::Trainer(other, run.model, run.loss, kAdam);
       },
       "[Autograd] the loss #N f32[] (made at `loss = rows.square().mean();`) belongs to another graph; give "
       "tensors of the graph that is compiled"},
      {"without a function that feeds",
       [] {
         Made run;
         training::Trainer(run.cx, run.model, run.loss, kAdam).fit({.steps = 1});
       },
       "[Trainer] fit has no feed; give a function that sets the inputs of each run"},
      {"whose input is not set",
       [] {
         Made run;
         training::Trainer(run.cx, run.model, run.loss, kAdam).step();
       },
       "[execute] input 'x' f32[2, 4] (made at `x = cx.named_tensor(\"x\", {2, 4});`) is not set; give its "
       "data with set() before execute()"},
      {"with data that are NaN",
       [] {
         Made run;
         run.x.set({{1, 2, 3, 4}, {5, std::nan(""), 7, 8}});
         training::Trainer(run.cx, run.model, run.loss, kAdam).step();
       },
       "[Trainer] the loss is nan in run 1 (learning rate 0.001, norm of the gradients nan); the weights are "
       "unchanged. 'x' f32[2, 4] (made at `x = cx.named_tensor(\"x\", {2, 4});`) holds nan at [1, 1]; give "
       "it finite numbers"},
      {"two for the same weights",
       [] {
         Made run;
         const training::Trainer first(run.cx, run.model, run.loss, kAdam);
         training::Trainer(run.cx, run.model, run.loss, kAdam);
       },
       "[Adam] parameter 0 already has an update; give each weight to one optimizer of a graph (made at "
       "`const training::MakeOptimizer kAdam = training::use<training::Adam>({});`)"},
  });
}

}  // namespace
}  // namespace luminal::error_test
