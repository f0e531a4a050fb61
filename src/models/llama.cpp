#include "luminal/models/llama.h"

#include "base/fail.h"
#include "models/initial.h"

namespace luminal::models {
namespace {

constexpr double kInitialDeviation = 0.02;  // of embeddings: small, as their table may be the head as well

int64_t hidden_size(const Llama::Options& options) {
  return options.hidden > 0 ? options.hidden : (options.size * 8 / 3 + 7) / 8 * 8;
}

const Llama::Options& checked(const Llama::Options& options) {
  for (const int64_t value :
       {options.vocabulary, options.layers, options.size, options.heads, options.kv_heads})
    if (value < 1) fail("[model] a size is {}; give 1 or more for each", value);
  if (options.size % options.heads != 0 || options.size / options.heads % 2 != 0)
    fail<ShapeError>(
        "[model] {} heads do not cut the size {} into even parts; choose a size that is a multiple of {}",
        options.heads, options.size, 2 * options.heads);
  if (options.heads % options.kv_heads != 0)
    fail<ShapeError>("[model] {} key heads do not divide the {} query heads; choose a divisor",
                     options.kv_heads, options.heads);
  return options;
}

}  // namespace

Llama::Options Llama::llama3_8b() {
  return {.vocabulary = 128256,
          .layers = 32,
          .size = 4096,
          .heads = 32,
          .kv_heads = 8,
          .hidden = 14336,
          .norm_eps = 1e-5,
          .rope_base = 5e5,
          .tied = false,
          .dtype = Dtype::BF16};
}

Llama::Layer::Layer(nn::GraphSite cx, const Options& options)
    : input_layernorm(cx, options.size, {.eps = options.norm_eps, .dtype = options.dtype}),
      post_attention_layernorm(cx, options.size, {.eps = options.norm_eps, .dtype = options.dtype}),
      self_attn(cx, options.size, options.heads,
                {.kv_heads = options.kv_heads, .rope_base = options.rope_base, .dtype = options.dtype}),
      mlp(cx, options.size, hidden_size(options), {.dtype = options.dtype}) {}

GraphTensor Llama::Layer::forward(const GraphTensor& x, const nn::KvCache* cache) const {
  const GraphTensor normed = input_layernorm.forward(x);
  const GraphTensor attended = x + (cache ? self_attn.forward(normed, *cache) : self_attn.forward(normed));
  return attended + mlp.forward(post_attention_layernorm.forward(attended));
}

void Llama::Layer::serialize(nn::Serializer& s) const {
  s.module("input_layernorm", input_layernorm);
  s.module("self_attn", self_attn);
  s.module("post_attention_layernorm", post_attention_layernorm);
  s.module("mlp", mlp);
}

Llama::Llama(nn::GraphSite cx, const Options& sizes)
    : options(checked(sizes)),
      embed_tokens(cx, sizes.vocabulary, sizes.size, {.dtype = sizes.dtype}),
      norm(cx, sizes.size, {.eps = sizes.norm_eps, .dtype = sizes.dtype}) {
  start_normal(cx, embed_tokens.weight, kInitialDeviation);
  for (int64_t i = 0; i < sizes.layers; ++i) layers.emplace_back(cx, sizes);
  if (!sizes.tied)
    lm_head = nn::Linear(cx, sizes.size, sizes.vocabulary, {.bias = false, .dtype = sizes.dtype});
}

GraphTensor Llama::forward(const GraphTensor& tokens) const { return forward(tokens, {}); }

GraphTensor Llama::forward(const GraphTensor& tokens, std::span<const nn::KvCache> caches) const {
  if (!caches.empty() && caches.size() != layers.size())
    fail("[model] {} caches for {} layers; give one for each, as caches() makes them", caches.size(),
         layers.size());
  GraphTensor x = embed_tokens.forward(tokens);
  for (size_t i = 0; i < layers.size(); ++i) x = layers[i].forward(x, caches.empty() ? nullptr : &caches[i]);
  const GraphTensor normed = norm.forward(x);
  return lm_head ? lm_head->forward(normed) : embed_tokens.logits(normed);
}

std::vector<nn::KvCache> Llama::caches(nn::GraphSite cx, int64_t rows, const Expression& past) const {
  std::vector<nn::KvCache> result;
  for (size_t i = 0; i < layers.size(); ++i)
    result.emplace_back(cx, 1, options.kv_heads, rows, options.size / options.heads, past, options.dtype);
  return result;
}

namespace {

/// All but the head, which Hugging Face's names keep apart as "model".
struct LlamaTrunk {
  const Llama& llama;
  void serialize(nn::Serializer& s) const {
    s.module("embed_tokens", llama.embed_tokens);
    s.module("layers", llama.layers);
    s.module("norm", llama.norm);
  }
};

}  // namespace

void Llama::serialize(nn::Serializer& s) const {
  s.module("model", LlamaTrunk{*this});
  s.module("lm_head", lm_head);
}

}  // namespace luminal::models
