#include "models/families/family.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/fail.h"
#include "base/suggest.h"

namespace luminal::models {
namespace {

[[noreturn]] void unknown_family(std::string_view architecture, const std::vector<std::string>& known) {
  fail<FormatError>("[model] the architecture '{}' is not known{}; known are {}", architecture,
                    did_you_mean(architecture, known), fmt::join(known, ", "));
}

}  // namespace

const Family& family_of_gguf(std::string_view architecture) {
  std::vector<std::string> known;
  for (const Family* family : families()) {
    if (family->gguf == architecture) return *family;
    known.emplace_back(family->gguf);
  }
  unknown_family(architecture, known);
}

const Family& family_of_huggingface(std::string_view architecture) {
  std::vector<std::string> known;
  for (const Family* family : families())
    for (const std::string_view name : family->huggingface) {
      if (name == architecture) return *family;
      known.emplace_back(name);
    }
  unknown_family(architecture, known);
}

DecoderOptions read_options(const Family& family, const Facts& facts, const SmallTensor& tensor) {
  DecoderOptions options;
  for (const FamilyField& field : family.fields)
    std::visit(
        [&]<class T>(T DecoderOptions::* option) {
          std::optional<T> value;
          if constexpr (std::is_same_v<T, double>)
            value = facts.number(field.key);
          else
            value = facts.integer(field.key);
          if (value)
            options.*option = *value;
          else if (field.required)
            fail<FormatError>("[model] the file does not say '{}', which {} models have",
                              facts.is_gguf() ? field.key.gguf : field.key.huggingface, family.gguf);
        },
        field.option);
  constexpr int64_t kMost = int64_t{1} << 32;  // so that no product of two of them overflows
  for (const int64_t value :
       {options.layers, options.size, options.heads, options.kv_heads, options.head_size, options.hidden,
        options.context, options.experts, options.window})
    if (value < 0 || value >= kMost || options.layers > 10'000)
      fail<FormatError>("[model] the file states a size of {} and {} layers, which no model has", value,
                        options.layers);
  if (options.kv_heads == 0) options.kv_heads = options.heads;
  if (options.head_size == 0 && options.heads > 0) options.head_size = options.size / options.heads;
  family.complete(options, facts, tensor);
  return options;
}

std::vector<FamilyField> common_fields() {
  using O = DecoderOptions;
  return {{{"block_count", "num_hidden_layers"}, &O::layers},
          {{"embedding_length", "hidden_size"}, &O::size},
          {{"attention.head_count", "num_attention_heads"}, &O::heads},
          {{"attention.head_count_kv", "num_key_value_heads"}, &O::kv_heads, false},
          {{"attention.key_length", "head_dim"}, &O::head_size, false},
          {{"feed_forward_length", "intermediate_size"}, &O::hidden},
          {{"context_length", "max_position_embeddings"}, &O::context},
          {{"attention.layer_norm_rms_epsilon", "rms_norm_eps"}, &O::norm_eps}};
}

std::vector<FamilyTensor> llama_tensors(std::vector<FamilyTensor> more) {
  using Presence = FamilyTensor::Presence;
  const std::vector<FamilyTensor> base{
      {"token_embd", "model.embed_tokens"},
      {"output_norm", "model.norm"},
      {"output", "lm_head", Presence::Maybe},
      {"blk.{}.attn_norm", "model.layers.{}.input_layernorm"},
      {"blk.{}.attn_q", "model.layers.{}.self_attn.q_proj"},
      {"blk.{}.attn_k", "model.layers.{}.self_attn.k_proj"},
      {"blk.{}.attn_v", "model.layers.{}.self_attn.v_proj"},
      {"blk.{}.attn_output", "model.layers.{}.self_attn.o_proj"},
      {"blk.{}.ffn_norm", "model.layers.{}.post_attention_layernorm"},
      {"blk.{}.ffn_gate", "model.layers.{}.mlp.gate_proj"},
      {"blk.{}.ffn_up", "model.layers.{}.mlp.up_proj"},
      {"blk.{}.ffn_down", "model.layers.{}.mlp.down_proj"},
  };
  for (const FamilyTensor& each : base)
    if (std::ranges::find(more, each.gguf, &FamilyTensor::gguf) == more.end()) more.push_back(each);
  return more;
}

std::string difference_of(const DecoderOptions& a, const DecoderOptions& b) {
  using O = DecoderOptions;
  const auto near = [](double x, double y) {
    return std::abs(x - y) <= 1e-6 * std::max(std::abs(x), std::abs(y));
  };
  for (const auto& [name, option] :
       std::initializer_list<std::pair<const char*, int64_t O::*>>{{"layers", &O::layers},
                                                                   {"size", &O::size},
                                                                   {"heads", &O::heads},
                                                                   {"key heads", &O::kv_heads},
                                                                   {"head size", &O::head_size},
                                                                   {"hidden", &O::hidden},
                                                                   {"context", &O::context},
                                                                   {"window", &O::window},
                                                                   {"experts", &O::experts},
                                                                   {"experts used", &O::experts_used},
                                                                   {"hidden of experts", &O::expert_hidden}})
    if (a.*option != b.*option) return fmt::format("{}: {} and {}", name, a.*option, b.*option);
  for (const auto& [name, option] : std::initializer_list<std::pair<const char*, double O::*>>{
           {"epsilon of norms", &O::norm_eps},
           {"scale of embeddings", &O::embedding_scale},
           {"scale of attention", &O::attention_scale},
           {"cap of attention", &O::attention_softcap},
           {"cap of logits", &O::logit_softcap},
           {"limit of gates", &O::swish_limit},
           {"slope of gates", &O::swish_slope}})
    if (!near(a.*option, b.*option)) return fmt::format("{}: {} and {}", name, a.*option, b.*option);
  for (const auto& [name, option] : std::initializer_list<std::pair<const char*, bool O::*>>{
           {"layer norm", &O::layer_norm},
           {"gate", &O::gated},
           {"routing over all experts", &O::route_over_all}})
    if (a.*option != b.*option) return fmt::format("{}: {} and {}", name, a.*option, b.*option);
  if (a.activation != b.activation) return "activation";
  if (a.pooling != b.pooling) return "pooling";
  if (a.window > 0 && a.local != b.local) return "which layers are local";
  for (const auto& [name, rotary] : std::initializer_list<std::pair<const char*, Rotary O::*>>{
           {"rotary positions", &O::rotary}, {"rotary positions of local layers", &O::local_rotary}}) {
    if (rotary == &O::local_rotary && a.window == 0) continue;
    const Rotary &x = a.*rotary, &y = b.*rotary;
    if (!near(x.magnitude, y.magnitude) || !std::ranges::equal(x.frequencies, y.frequencies, near))
      return name;
  }
  return {};
}

std::vector<bool> local_layers(const DecoderOptions& options, const Facts& facts,
                               const std::function<bool(int64_t)>& otherwise) {
  const std::vector<std::string> types = facts.texts({"", "layer_types"});
  std::vector<bool> local;
  for (const std::string& type : types) local.push_back(type == "sliding_attention");
  if (types.empty())
    for (int64_t i = 0; i < options.layers; ++i) local.push_back(otherwise(i));
  return local;
}

}  // namespace luminal::models
