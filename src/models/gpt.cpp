#include "luminal/models/gpt.h"

#include <cmath>

#include "base/fail.h"
#include "models/initial.h"

namespace luminal::models {
namespace {

constexpr double kDeviation = 0.02;

const Gpt::Options& checked_gpt(const Gpt::Options& options) {
  for (const int64_t value :
       {options.vocabulary, options.context, options.layers, options.heads, options.size})
    if (value < 1) fail("[model] a size is {}; give 1 or more for each", value);
  if (options.size % options.heads != 0)
    fail<ShapeError>("[model] {} heads do not divide the size {}; choose a multiple of them", options.heads,
                     options.size);
  return options;
}

/// Weights N(0, deviation), biases 0.
nn::Linear started_linear(nn::GraphSite cx, int64_t in, int64_t out, const Gpt::Options& options,
                          double deviation = kDeviation) {
  nn::Linear made(cx, in, out, {.bias = options.bias, .dtype = options.dtype});
  start_normal(cx, made.weight, deviation);
  if (made.bias) start_constant(*made.bias, 0);
  return made;
}

/// Each block adds twice to the residual stream, whose deviation this keeps.
double residual_deviation(const Gpt::Options& options) {
  return kDeviation / std::sqrt(2 * static_cast<double>(options.layers));
}

nn::LayerNorm::Options norm_of(const Gpt::Options& options) {
  return {.bias = options.bias, .dtype = options.dtype};
}

}  // namespace

Gpt::Attention::Attention(nn::GraphSite cx, const Options& options)
    : c_attn(started_linear(cx, options.size, 3 * options.size, options)),
      c_proj(started_linear(cx, options.size, options.size, options, residual_deviation(options))),
      dropout(options.dropout),
      heads(options.heads) {}

GraphTensor Gpt::Attention::forward(const GraphTensor& x) const {
  const GraphTensor all = c_attn.forward(x);
  const int64_t size = *c_proj.weight.dim(0).constant();
  const auto part = [&](int64_t which) {
    return all.slice_along(2, which * size, (which + 1) * size)
        .split_dims(2, size / heads)
        .transpose(1, 2);  // [N, heads, T, size / heads]
  };
  const AttentionOptions how{.causal = true, .dropout = dropout.mode.training() ? dropout.p : 0};
  const GraphTensor y = attention(part(0), part(1), part(2), how);
  return dropout.forward(c_proj.forward(y.transpose(1, 2).merge_dims(2, 3)));
}

void Gpt::Attention::serialize(nn::Serializer& s) const {
  s.module("c_attn", c_attn);
  s.module("c_proj", c_proj);
  dropout.serialize(s);
}

Gpt::FeedForward::FeedForward(nn::GraphSite cx, const Options& options)
    : c_fc(started_linear(cx, options.size, 4 * options.size, options)),
      c_proj(started_linear(cx, 4 * options.size, options.size, options, residual_deviation(options))),
      dropout(options.dropout),
      approximate(options.approximate) {}

GraphTensor Gpt::FeedForward::forward(const GraphTensor& x) const {
  return dropout.forward(c_proj.forward(c_fc.forward(x).gelu(approximate)));
}

void Gpt::FeedForward::serialize(nn::Serializer& s) const {
  s.module("c_fc", c_fc);
  s.module("c_proj", c_proj);
  dropout.serialize(s);
}

Gpt::Block::Block(nn::GraphSite cx, const Options& options)
    : ln_1(cx, options.size, norm_of(options)),
      attn(cx, options),
      ln_2(cx, options.size, norm_of(options)),
      mlp(cx, options) {}

GraphTensor Gpt::Block::forward(const GraphTensor& x) const {
  const GraphTensor attended = x + attn.forward(ln_1.forward(x));
  return attended + mlp.forward(ln_2.forward(attended));
}

void Gpt::Block::serialize(nn::Serializer& s) const {
  s.module("ln_1", ln_1);
  s.module("attn", attn);
  s.module("ln_2", ln_2);
  s.module("mlp", mlp);
}

Gpt::Gpt(nn::GraphSite cx, const Options& sizes)
    : options(checked_gpt(sizes)),
      wte(cx, sizes.vocabulary, sizes.size, {.dtype = sizes.dtype}),
      wpe(cx, sizes.context, sizes.size, {.dtype = sizes.dtype}),
      dropout(sizes.dropout),
      ln_f(cx, sizes.size, norm_of(sizes)) {
  start_normal(cx, wte.weight, kDeviation);
  start_normal(cx, wpe.weight, kDeviation);
  for (int64_t i = 0; i < sizes.layers; ++i) h.emplace_back(cx, sizes);
}

GraphTensor Gpt::forward(const GraphTensor& tokens) const {
  if (tokens.rank() != 2 || tokens.dim(1).range().max > options.context)
    fail<ShapeError>("[model] tokens are {} and must be [batch, length], at most {} long",
                     tokens.type().to_string(), options.context);
  GraphTensor x = dropout.forward(wte.forward(tokens) + wpe.weight.slice_along(0, 0, tokens.dim(1)));
  for (const Block& block : h) x = block.forward(x);
  return wte.logits(ln_f.forward(x));
}

std::vector<GraphTensor> Gpt::decayed() const {
  std::vector<GraphTensor> list;
  for (const GraphTensor& weight : nn::params(*this))
    if (weight.rank() >= 2) list.push_back(weight);
  return list;
}

namespace {

/// All but the head, which nanoGPT's names keep apart as "transformer".
struct GptTrunk {
  const Gpt& gpt;
  void serialize(nn::Serializer& s) const {
    s.module("wte", gpt.wte);
    s.module("wpe", gpt.wpe);
    gpt.dropout.serialize(s);
    s.module("h", gpt.h);
    s.module("ln_f", gpt.ln_f);
  }
};

}  // namespace

void Gpt::serialize(nn::Serializer& s) const {
  s.module("transformer", GptTrunk{*this});
  s.tensor("lm_head/weight", wte.weight);
}

}  // namespace luminal::models
