#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "luminal/nn.h"
#include "luminal/text/tokenizer.h"

namespace luminal::models {

/// Llama: RMSNorm, rotary positions, grouped queries, SwiGLU. Weights have the names and layouts of Hugging
/// Face's LlamaForCausalLM ("model.layers.0.self_attn.q_proj.weight"). `luminal train text` trains a small
/// one. Shapes: integers [N, T] below vocabulary -> logits [N, T, vocabulary].
/// Source: Touvron et al. 2023; Grattafiori et al. 2024.
struct Llama {
  struct Options {
    int64_t vocabulary = 256;
    int64_t layers = 4, size = 64, heads = 4, kv_heads = 2;
    int64_t hidden = 0;  ///< of the feed-forward; 0: 8/3 of the size, up to a multiple of 8
    double norm_eps = 1e-5;
    double rope_base = 1e4;
    bool tied = true;  ///< the head shares the embedding's table, and there is no "lm_head.weight"
    Dtype dtype = Dtype::F32;
  };
  /// Llama 3 with 8 billion weights, in bf16 as published.
  [[nodiscard]] static Options llama3_8b();

  struct Layer {
    nn::RMSNorm input_layernorm, post_attention_layernorm;
    nn::CausalSelfAttention self_attn;
    nn::Mlp mlp;
    Layer(nn::GraphSite cx, const Options& options);
    /// `cache` may be absent: then x is the whole text.
    [[nodiscard]] GraphTensor forward(const GraphTensor& x, const nn::KvCache* cache) const;
    void serialize(nn::Serializer& s) const;
  };

  Options options;
  nn::Embedding embed_tokens;
  std::vector<Layer> layers;
  nn::RMSNorm norm;
  std::optional<nn::Linear> lm_head;  ///< absent if tied

  /// Errors: Error if a size is below 1; ShapeError if heads do not divide the size or kv_heads the heads.
  Llama(nn::GraphSite cx, const Options& options);
  [[nodiscard]] GraphTensor forward(const GraphTensor& tokens) const;
  /// The tokens behind those in the caches, one for each layer.
  [[nodiscard]] GraphTensor forward(const GraphTensor& tokens, std::span<const nn::KvCache> caches) const;
  /// Caches for texts of up to `rows` tokens, of which `past` are read.
  [[nodiscard]] std::vector<nn::KvCache> caches(nn::GraphSite cx, int64_t rows, const Expression& past) const;
  void serialize(nn::Serializer& s) const;
};

/// Writes a folder as Hugging Face has it, which LanguageModel and `transformers` read: config.json, the weights and the
/// tokenizer. `weights`: as nn::state_dict gives them; `context`: tokens that the model was trained with; `ends`: tokens
/// that end an answer. Errors: FormatError for a tokenizer of another size; Error if writing fails.
void write_llama(const Llama::Options& options, const std::map<std::string, TensorData>& weights,
                 int64_t context, const text::TokenizerSpec& tokenizer, std::span<const text::TokenId> ends,
                 const std::filesystem::path& folder);
/// The same as a GGUF file.
void write_llama_gguf(const Llama::Options& options, const std::map<std::string, TensorData>& weights,
                      int64_t context, const text::TokenizerSpec& tokenizer,
                      std::span<const text::TokenId> ends, const std::filesystem::path& file);

}  // namespace luminal::models
