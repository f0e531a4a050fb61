#include "luminal/models/unet.h"

#include <string>

namespace luminal::models {
namespace {

constexpr int64_t kLevels = 4;  // below the first

nn::Conv2d unet_conv(nn::GraphSite cx, int64_t in, int64_t out, Dtype dtype) {
  return {cx, in, out, {3, 3}, {.padding = {1, 1}, .bias = false, .dtype = dtype}};
}

/// `x` with `axis` as long as that of `like`.
GraphTensor padded(const GraphTensor& x, const GraphTensor& like, int axis) {
  const Expression missing = like.dim(axis) - x.dim(axis);
  return Expression::known_equal(missing, 0) ? x : x.pad_along(axis, missing / 2, missing - missing / 2);
}

}  // namespace

UNet::DoubleConv::DoubleConv(nn::GraphSite cx, int64_t in, int64_t middle, int64_t out, Dtype dtype)
    : double_conv{
          unet_conv(cx, in, middle, dtype),  nn::BatchNorm2d(cx, middle, {.dtype = dtype}), nn::ReLU(),
          unet_conv(cx, middle, out, dtype), nn::BatchNorm2d(cx, out, {.dtype = dtype}),    nn::ReLU()} {}

UNet::Down::Down(nn::GraphSite cx, int64_t in, int64_t out, Dtype dtype)
    : maxpool_conv(nn::MaxPool2d(2), DoubleConv(cx, in, out, out, dtype)) {}

UNet::Up::Up(nn::GraphSite cx, int64_t in, int64_t out, Dtype dtype) : conv(cx, in, in / 2, out, dtype) {}

GraphTensor UNet::Up::forward(const GraphTensor& x, const GraphTensor& skip) const {
  GraphTensor wide = upsample(x, 2, {.mode = Interpolation::Linear, .align_corners = true});
  for (const int axis : {2, 3}) wide = padded(wide, skip, axis);
  return conv.forward(concat({skip, wide}, 1));
}

UNet::UNet(nn::GraphSite cx, const Options& options)
    : inc(cx, options.in, options.width, options.width, options.dtype),
      outc(cx, options.width, options.classes, {1, 1}, {.dtype = options.dtype}) {
  // The upsampled tensor keeps its channels, so the last level has no more than the one above it.
  const auto width = [&](int64_t level) { return options.width << std::min(level, kLevels - 1); };
  for (int64_t level = 1; level <= kLevels; ++level)
    down.emplace_back(cx, width(level - 1), width(level), options.dtype);
  for (int64_t level = kLevels - 1; level >= 0; --level)
    up.emplace_back(cx, 2 * width(level), level == 0 ? width(0) : width(level - 1), options.dtype);
}

GraphTensor UNet::forward(const GraphTensor& images) const {
  std::vector<GraphTensor> levels{inc.forward(images)};
  for (const Down& each : down) levels.push_back(each.forward(levels.back()));
  GraphTensor x = levels.back();
  for (size_t i = 0; i < up.size(); ++i) x = up[i].forward(x, levels[up.size() - 1 - i]);
  return outc.forward(x);
}

void UNet::serialize(nn::Serializer& s) const {
  s.module("inc", inc);
  for (size_t i = 0; i < down.size(); ++i) s.module("down" + std::to_string(i + 1), down[i]);
  for (size_t i = 0; i < up.size(); ++i) s.module("up" + std::to_string(i + 1), up[i]);
  struct Conv {
    const nn::Conv2d& conv;
    void serialize(nn::Serializer& inner) const { inner.module("conv", conv); }
  };
  s.module("outc", Conv{outc});
}

}  // namespace luminal::models
