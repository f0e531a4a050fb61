#include "luminal/models/resnet.h"

#include <string>

#include "base/fail.h"
#include "models/initial.h"

namespace luminal::models {
namespace {

int64_t expansion(const ResNet::Options& options) { return options.bottleneck ? 4 : 1; }

/// A convolution without bias, "same" padding, weights of He et al. 2015 by fan-out.
nn::Conv2d plain_conv(nn::GraphSite cx, int64_t in, int64_t out, int64_t kernel, int64_t stride,
                      Dtype dtype) {
  nn::Conv2d conv(
      cx, in, out, {kernel, kernel},
      {.stride = {stride, stride}, .padding = {kernel / 2, kernel / 2}, .bias = false, .dtype = dtype});
  start_kaiming(cx, conv.weight);
  return conv;
}

const ResNet::Options& checked_resnet(const ResNet::Options& options) {
  for (const int64_t count : options.blocks)
    if (count < 1) fail("[model] a stage has {} blocks; give 1 or more for each", count);
  return options;
}

int64_t last_width(const ResNet::Options& options) { return 8 * options.width * expansion(options); }

}  // namespace

ResNet::Block::Block(nn::GraphSite cx, int64_t in, int64_t width, int64_t stride, const Options& options)
    : conv1(options.bottleneck ? plain_conv(cx, in, width, 1, 1, options.dtype)
                               : plain_conv(cx, in, width, 3, stride, options.dtype)),
      conv2(plain_conv(cx, width, width, 3, options.bottleneck ? stride : 1, options.dtype)),
      bn1(cx, width, {.dtype = options.dtype}),
      bn2(cx, width, {.dtype = options.dtype}) {
  const int64_t out = width * expansion(options);
  if (options.bottleneck) {
    conv3 = plain_conv(cx, width, out, 1, 1, options.dtype);
    bn3 = nn::BatchNorm2d(cx, out, {.dtype = options.dtype});
  }
  if (in != out || stride != 1)
    downsample = nn::Sequential(plain_conv(cx, in, out, 1, stride, options.dtype),
                                nn::BatchNorm2d(cx, out, {.dtype = options.dtype}));
}

GraphTensor ResNet::Block::forward(const GraphTensor& x) const {
  GraphTensor y = bn2.forward(conv2.forward(bn1.forward(conv1.forward(x)).relu()));
  if (conv3) y = bn3->forward(conv3->forward(y.relu()));
  return (y + (downsample ? downsample->forward(x) : x)).relu();
}

void ResNet::Block::serialize(nn::Serializer& s) const {
  s.module("conv1", conv1);
  s.module("bn1", bn1);
  s.module("conv2", conv2);
  s.module("bn2", bn2);
  s.module("conv3", conv3);
  s.module("bn3", bn3);
  s.module("downsample", downsample);
}

ResNet::ResNet(nn::GraphSite cx, const Options& options)
    : conv1(plain_conv(cx, options.in, checked_resnet(options).width, 7, 2, options.dtype)),
      bn1(cx, options.width, {.dtype = options.dtype}),
      fc(cx, last_width(options), options.classes, {.dtype = options.dtype}) {
  int64_t in = options.width;
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    const int64_t width = options.width << stage;
    for (int64_t i = 0; i < options.blocks[stage]; ++i) {
      stages[stage].emplace_back(cx, in, width, i == 0 && stage > 0 ? 2 : 1, options);
      in = width * expansion(options);
    }
  }
}

GraphTensor ResNet::forward(const GraphTensor& images) const {
  GraphTensor x = bn1.forward(conv1.forward(images)).relu();
  x = max_pool2d(x, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
  for (const std::vector<Block>& stage : stages)
    for (const Block& block : stage) x = block.forward(x);
  return fc.forward(x.mean({2, 3}));
}

void ResNet::serialize(nn::Serializer& s) const {
  s.module("conv1", conv1);
  s.module("bn1", bn1);
  for (size_t stage = 0; stage < stages.size(); ++stage)
    s.module("layer" + std::to_string(stage + 1), stages[stage]);
  s.module("fc", fc);
}

}  // namespace luminal::models
