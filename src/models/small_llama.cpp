#include "luminal/models/small_llama.h"

#include "base/fail.h"

namespace luminal::models {
namespace {

constexpr double kInitialDeviation = 0.02;  // of embeddings: small, as their table is the head as well

int64_t hidden_size(const SmallLlama::Options& options) {
  return options.hidden > 0 ? options.hidden : (options.size * 8 / 3 + 7) / 8 * 8;
}

const SmallLlama::Options& checked(const SmallLlama::Options& options) {
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

SmallLlama::Layer::Layer(nn::GraphSite cx, const Options& options)
    : input_layernorm(cx, options.size, {.eps = options.norm_eps}),
      post_attention_layernorm(cx, options.size, {.eps = options.norm_eps}),
      self_attn(cx, options.size, options.heads, {.kv_heads = options.kv_heads}),
      mlp(cx, options.size, hidden_size(options)) {}

GraphTensor SmallLlama::Layer::forward(const GraphTensor& x, const nn::KvCache* cache) const {
  const GraphTensor normed = input_layernorm.forward(x);
  const GraphTensor attended = x + (cache ? self_attn.forward(normed, *cache) : self_attn.forward(normed));
  return attended + mlp.forward(post_attention_layernorm.forward(attended));
}

void SmallLlama::Layer::serialize(nn::Serializer& s) const {
  s.module("input_layernorm", input_layernorm);
  s.module("self_attn", self_attn);
  s.module("post_attention_layernorm", post_attention_layernorm);
  s.module("mlp", mlp);
}

SmallLlama::SmallLlama(nn::GraphSite cx, const Options& sizes)
    : options(checked(sizes)),
      embed_tokens(cx, sizes.vocabulary, sizes.size),
      norm(cx, sizes.size, {.eps = sizes.norm_eps}) {
  embed_tokens.weight.set(nn::init::normal(cx, {sizes.vocabulary, sizes.size}, 0, kInitialDeviation));
  for (int64_t i = 0; i < sizes.layers; ++i) layers.emplace_back(cx, sizes);
}

GraphTensor SmallLlama::forward(const GraphTensor& tokens) const { return forward(tokens, {}); }

GraphTensor SmallLlama::forward(const GraphTensor& tokens, std::span<const nn::KvCache> caches) const {
  if (!caches.empty() && caches.size() != layers.size())
    fail("[model] {} caches for {} layers; give one for each, as caches() makes them", caches.size(),
         layers.size());
  GraphTensor x = embed_tokens.forward(tokens);
  for (size_t i = 0; i < layers.size(); ++i) x = layers[i].forward(x, caches.empty() ? nullptr : &caches[i]);
  return embed_tokens.logits(norm.forward(x));
}

std::vector<nn::KvCache> SmallLlama::caches(nn::GraphSite cx, int64_t rows, const Expression& past) const {
  std::vector<nn::KvCache> result;
  for (size_t i = 0; i < layers.size(); ++i)
    result.emplace_back(cx, 1, options.kv_heads, rows, options.size / options.heads, past);
  return result;
}

void SmallLlama::serialize(nn::Serializer& s) const {
  s.module("embed_tokens", embed_tokens);
  s.module("layers", layers);
  s.module("norm", norm);
}

}  // namespace luminal::models
