#include "luminal/models/vit.h"

#include <cmath>
#include <string>

#include "base/fail.h"
#include "models/initial.h"

namespace luminal::models {
namespace {

const Vit::Options& checked_vit(const Vit::Options& options) {
  if (options.patch < 1 || options.image < options.patch || options.image % options.patch != 0)
    fail<ShapeError>("[model] patches of {} do not divide an image of {}; choose a divisor", options.patch,
                     options.image);
  return options;
}

int64_t patches_of(const Vit::Options& options) {
  return (options.image / options.patch) * (options.image / options.patch);
}

/// torchvision's epsilon for this model.
nn::LayerNorm vit_norm(nn::GraphSite cx, const Vit::Options& options) {
  return {cx, options.size, {.eps = 1e-6, .dtype = options.dtype}};
}

/// A convolution whose stride is its kernel: one linear map for each patch.
nn::Conv2d patch_projection(nn::GraphSite cx, const Vit::Options& options) {
  nn::Conv2d conv(cx, options.in, options.size, {options.patch, options.patch},
                  {.stride = {options.patch, options.patch}, .dtype = options.dtype});
  const double fan_in = static_cast<double>(options.in * options.patch * options.patch);
  start(cx, conv.weight, [fan_in](nn::init::Stream stream, const std::vector<int64_t>& dims) {
    return nn::init::truncated_normal(stream, dims, 0, std::sqrt(1 / fan_in));
  });
  start_constant(*conv.bias, 0);
  return conv;
}

/// Xavier-uniform, with biases of torchvision's deviation.
nn::Linear mlp_linear(nn::GraphSite cx, int64_t in, int64_t out, Dtype dtype) {
  constexpr double kBiasDeviation = 1e-6;
  nn::Linear linear(cx, in, out, {.dtype = dtype});
  start(cx, linear.weight, [](nn::init::Stream stream, const std::vector<int64_t>& dims) {
    return nn::init::xavier_uniform(stream, dims);
  });
  start_normal(cx, *linear.bias, kBiasDeviation);
  return linear;
}

GraphTensor vit_input(nn::GraphSite cx, const char* name, const std::vector<int64_t>& dims, double deviation,
                      Dtype dtype) {
  Graph& graph = cx;
  return start_normal(cx, graph.named_tensor(name, Shape(dims.begin(), dims.end()), dtype), deviation);
}

}  // namespace

Vit::Block::Block(nn::GraphSite cx, const Options& options)
    : ln_1(vit_norm(cx, options)),
      self_attention(cx, options.size, options.heads,
                     {.dropout = options.dropout, .batch_first = true, .dtype = options.dtype}),
      ln_2(vit_norm(cx, options)),
      mlp{mlp_linear(cx, options.size, options.hidden, options.dtype), nn::GELU(),
          nn::Dropout(options.dropout), mlp_linear(cx, options.hidden, options.size, options.dtype),
          nn::Dropout(options.dropout)},
      dropout(options.dropout) {}

GraphTensor Vit::Block::forward(const GraphTensor& x) const {
  const GraphTensor attended = x + dropout.forward(self_attention.forward(ln_1.forward(x)));
  return attended + mlp.forward(ln_2.forward(attended));
}

void Vit::Block::serialize(nn::Serializer& s) const {
  s.module("ln_1", ln_1);
  s.module("self_attention", self_attention);
  s.module("ln_2", ln_2);
  s.module("mlp", mlp);
  dropout.serialize(s);
}

Vit::Vit(nn::GraphSite cx, const Options& sizes)
    : options(checked_vit(sizes)),
      conv_proj(patch_projection(cx, sizes)),
      class_token(vit_input(cx, "class_token", {1, 1, sizes.size}, 0, sizes.dtype)),
      pos_embedding(
          vit_input(cx, "pos_embedding", {1, patches_of(sizes) + 1, sizes.size}, 0.02, sizes.dtype)),
      dropout(sizes.dropout),
      ln(vit_norm(cx, sizes)),
      head(cx, sizes.size, sizes.classes, {.dtype = sizes.dtype}) {
  for (int64_t i = 0; i < sizes.layers; ++i) layers.emplace_back(cx, sizes);
  start_constant(head.weight, 0);
  start_constant(*head.bias, 0);
}

GraphTensor Vit::forward(const GraphTensor& images) const {
  if (images.rank() != 4 || !Expression::known_equal(images.dim(2), options.image) ||
      !Expression::known_equal(images.dim(3), options.image))
    fail<ShapeError>("[model] images are {} and must be [batch, {}, {}, {}]", images.type().to_string(),
                     options.in, options.image, options.image);
  const GraphTensor patches = conv_proj.forward(images).flatten(2, 3).transpose(1, 2);
  const GraphTensor token = class_token.expand({images.dim(0), 1, options.size});
  GraphTensor x = dropout.forward(concat({token, patches}, 1) + pos_embedding);
  for (const Block& block : layers) x = block.forward(x);
  return head.forward(ln.forward(x).slice_along(1, 0, 1).squeeze(1));
}

namespace {

/// Layers under torchvision's names.
struct VitEncoder {
  const Vit& vit;
  struct Layers {
    const Vit& vit;
    void serialize(nn::Serializer& s) const {
      for (size_t i = 0; i < vit.layers.size(); ++i)
        s.module("encoder_layer_" + std::to_string(i), vit.layers[i]);
    }
  };
  void serialize(nn::Serializer& s) const {
    s.tensor("pos_embedding", vit.pos_embedding);
    vit.dropout.serialize(s);
    s.module("layers", Layers{vit});
    s.module("ln", vit.ln);
  }
};

struct VitHeads {
  const nn::Linear& head;
  void serialize(nn::Serializer& s) const { s.module("head", head); }
};

}  // namespace

void Vit::serialize(nn::Serializer& s) const {
  s.tensor("class_token", class_token);
  s.module("conv_proj", conv_proj);
  s.module("encoder", VitEncoder{*this});
  s.module("heads", VitHeads{head});
}

}  // namespace luminal::models
