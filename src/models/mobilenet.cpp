#include "luminal/models/mobilenet.h"

#include <algorithm>
#include <string>

#include "base/fail.h"
#include "models/initial.h"

namespace luminal::models {
namespace {

using ConvNorm = MobileNetV3::ConvNorm;
using Act = ConvNorm::Act;

struct ConvSizes {
  int64_t in, out, kernel = 1, stride = 1, groups = 1;
};

/// "Same" padding, no bias, torchvision's epsilon and momentum for this model.
ConvNorm conv_norm(nn::GraphSite cx, const ConvSizes& sizes, Act act, Dtype dtype) {
  const int64_t padding = sizes.kernel / 2;
  nn::Conv2d conv(cx, sizes.in, sizes.out, {sizes.kernel, sizes.kernel},
                  {.stride = {sizes.stride, sizes.stride},
                   .padding = {padding, padding},
                   .groups = sizes.groups,
                   .bias = false,
                   .dtype = dtype});
  start_kaiming(cx, conv.weight);
  return {std::move(conv), nn::BatchNorm2d(cx, sizes.out, {.eps = 1e-3, .momentum = 0.01, .dtype = dtype}),
          act};
}

/// The multiple of 8 nearest to `channels`, and no more than a tenth below it.
int64_t rounded_to_8(int64_t channels) {
  const int64_t rounded = std::max<int64_t>(8, (channels + 4) / 8 * 8);
  return 10 * rounded < 9 * channels ? rounded + 8 : rounded;
}

MobileNetV3::Squeeze squeeze_of(nn::GraphSite cx, int64_t channels, Dtype dtype) {
  const int64_t inside = rounded_to_8(channels / 4);
  const auto made = [&](int64_t in, int64_t out) {
    nn::Conv2d conv(cx, in, out, {1, 1}, {.dtype = dtype});
    start_kaiming(cx, conv.weight);
    start_constant(*conv.bias, 0);
    return conv;
  };
  return {made(channels, inside), made(inside, channels)};
}

nn::Linear classifier_linear(nn::GraphSite cx, int64_t in, int64_t out, Dtype dtype) {
  constexpr double kClassifierDeviation = 0.01;
  nn::Linear made(cx, in, out, {.dtype = dtype});
  start_normal(cx, made.weight, kClassifierDeviation);
  start_constant(*made.bias, 0);
  return made;
}

const MobileNetV3::Options& checked_mobilenet(const MobileNetV3::Options& options) {
  if (options.stages.empty()) fail("[model] there are no stages; take large() or small()");
  return options;
}

int64_t head_width(const MobileNetV3::Options& options) { return 6 * options.stages.back().out; }

}  // namespace

MobileNetV3::Options MobileNetV3::large() {
  return {.stages = {{3, 16, 16, false, false, 1},
                     {3, 64, 24, false, false, 2},
                     {3, 72, 24, false, false, 1},
                     {5, 72, 40, true, false, 2},
                     {5, 120, 40, true, false, 1},
                     {5, 120, 40, true, false, 1},
                     {3, 240, 80, false, true, 2},
                     {3, 200, 80, false, true, 1},
                     {3, 184, 80, false, true, 1},
                     {3, 184, 80, false, true, 1},
                     {3, 480, 112, true, true, 1},
                     {3, 672, 112, true, true, 1},
                     {5, 672, 160, true, true, 2},
                     {5, 960, 160, true, true, 1},
                     {5, 960, 160, true, true, 1}}};
}

MobileNetV3::Options MobileNetV3::small() {
  return {.stages = {{3, 16, 16, true, false, 2},
                     {3, 72, 24, false, false, 2},
                     {3, 88, 24, false, false, 1},
                     {5, 96, 40, true, true, 2},
                     {5, 240, 40, true, true, 1},
                     {5, 240, 40, true, true, 1},
                     {5, 120, 48, true, true, 1},
                     {5, 144, 48, true, true, 1},
                     {5, 288, 96, true, true, 2},
                     {5, 576, 96, true, true, 1},
                     {5, 576, 96, true, true, 1}},
          .last = 1024};
}

GraphTensor MobileNetV3::ConvNorm::forward(const GraphTensor& x) const {
  const GraphTensor y = norm.forward(conv.forward(x));
  switch (act) {
    case Act::None:
      return y;
    case Act::Relu:
      return y.relu();
    case Act::HardSwish:
      return y.hard_swish();
  }
  fail("[model] unknown activation");
}

void MobileNetV3::ConvNorm::serialize(nn::Serializer& s) const {
  s.module("0", conv);
  s.module("1", norm);
}

GraphTensor MobileNetV3::Squeeze::forward(const GraphTensor& x) const {
  const GraphTensor y = fc2.forward(fc1.forward(x.mean({2, 3}, true)).relu());
  return x * ((y + 3).clip(0, 6) / 6);
}

void MobileNetV3::Squeeze::serialize(nn::Serializer& s) const {
  s.module("fc1", fc1);
  s.module("fc2", fc2);
}

MobileNetV3::Block::Block(nn::GraphSite cx, int64_t in, const Stage& stage, Dtype dtype)
    : depthwise(conv_norm(cx, {stage.expanded, stage.expanded, stage.kernel, stage.stride, stage.expanded},
                          stage.hard_swish ? Act::HardSwish : Act::Relu, dtype)),
      project(conv_norm(cx, {stage.expanded, stage.out}, Act::None, dtype)),
      residual(stage.stride == 1 && in == stage.out) {
  if (in != stage.expanded) expand = conv_norm(cx, {in, stage.expanded}, depthwise.act, dtype);
  if (stage.squeeze) squeeze = squeeze_of(cx, stage.expanded, dtype);
}

GraphTensor MobileNetV3::Block::forward(const GraphTensor& x) const {
  GraphTensor y = depthwise.forward(expand ? expand->forward(x) : x);
  if (squeeze) y = squeeze->forward(y);
  y = project.forward(y);
  return residual ? x + y : y;
}

namespace {

/// The parts of a block by their positions.
struct MobileNetParts {
  const MobileNetV3::Block& block;
  void serialize(nn::Serializer& s) const {
    int next = 0;
    const auto part = [&](const auto& module) { s.module(std::to_string(next++), module); };
    if (block.expand) part(*block.expand);
    part(block.depthwise);
    if (block.squeeze) part(*block.squeeze);
    part(block.project);
  }
};

struct MobileNetFeatures {
  const MobileNetV3& model;
  void serialize(nn::Serializer& s) const {
    s.module("0", model.stem);
    for (size_t i = 0; i < model.blocks.size(); ++i) s.module(std::to_string(i + 1), model.blocks[i]);
    s.module(std::to_string(model.blocks.size() + 1), model.head);
  }
};

struct MobileNetClassifier {
  const MobileNetV3& model;
  void serialize(nn::Serializer& s) const {
    s.module("0", model.hidden);
    model.dropout.serialize(s);
    s.module("3", model.out);
  }
};

}  // namespace

void MobileNetV3::Block::serialize(nn::Serializer& s) const { s.module("block", MobileNetParts{*this}); }

MobileNetV3::MobileNetV3(nn::GraphSite cx, const Options& options)
    : stem(conv_norm(cx, {checked_mobilenet(options).in, options.stem, 3, 2}, Act::HardSwish, options.dtype)),
      head(conv_norm(cx, {options.stages.back().out, head_width(options)}, Act::HardSwish, options.dtype)),
      hidden(classifier_linear(cx, head_width(options), options.last, options.dtype)),
      out(classifier_linear(cx, options.last, options.classes, options.dtype)),
      dropout(options.dropout) {
  int64_t in = options.stem;
  for (const Stage& stage : options.stages) {
    blocks.emplace_back(cx, in, stage, options.dtype);
    in = stage.out;
  }
}

GraphTensor MobileNetV3::forward(const GraphTensor& images) const {
  GraphTensor x = stem.forward(images);
  for (const Block& block : blocks) x = block.forward(x);
  x = head.forward(x).mean({2, 3});
  return out.forward(dropout.forward(hidden.forward(x).hard_swish()));
}

void MobileNetV3::serialize(nn::Serializer& s) const {
  s.module("features", MobileNetFeatures{*this});
  s.module("classifier", MobileNetClassifier{*this});
}

}  // namespace luminal::models
