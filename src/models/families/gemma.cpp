#include <cmath>

#include "models/families/family.h"

namespace luminal::models {
namespace {

/// What both versions have. `odd_one_out`: the number of layers of the one size whose queries are scaled by the size
/// of the model and not of the head; GGUF files do not say it.
void complete_gemma(DecoderOptions& options, const Facts& facts, int64_t odd_one_out) {
  options.activation = DecoderOptions::Activation::GeluTanh;
  options.norm_offset = facts.is_gguf() ? 0 : 1;  // converters add the 1
  options.embedding_scale = std::sqrt(static_cast<double>(options.size));
  const int64_t usual =
      options.layers == odd_one_out && options.heads > 0 ? options.size / options.heads : options.head_size;
  options.attention_scale =
      1 / std::sqrt(facts.number({"", "query_pre_attn_scalar"}).value_or(static_cast<double>(usual)));
}

void complete_gemma2(DecoderOptions& options, const Facts& facts, const SmallTensor& tensor) {
  complete_gemma(options, facts, 46);
  options.rotary = options.local_rotary = rotary_of(options, facts, tensor);
  options.local = local_layers(options, facts, [](int64_t layer) { return layer % 2 == 0; });
}

void complete_gemma3(DecoderOptions& options, const Facts& facts, const SmallTensor& tensor) {
  complete_gemma(options, facts, 62);
  options.rotary = rotary_of(options, facts, tensor, "full_attention");
  const auto local_base = facts.number({"", "rope_parameters/sliding_attention/rope_theta"});
  options.local_rotary = plain_rotary(
      options.head_size, local_base
                             ? *local_base
                             : facts.number({"rope.freq_base_swa", "rope_local_base_freq"}).value_or(10'000));
  const int64_t every = facts.integer({"", "sliding_window_pattern"}).value_or(6);
  options.local =
      local_layers(options, facts, [every](int64_t layer) { return every < 1 || (layer + 1) % every != 0; });
}

void configure_gemma(const DecoderOptions& options, nlohmann::json& config) {
  config["query_pre_attn_scalar"] =  // transformers refuses a real number
      std::llround(1 / (options.attention_scale * options.attention_scale));
  config["hidden_activation"] = "gelu_pytorch_tanh";
  for (const bool local : options.local)
    config["layer_types"].push_back(local ? "sliding_attention" : "full_attention");
  for (const char* cap : {"attn_logit_softcapping", "final_logit_softcapping"})
    if (!config.contains(cap)) config[cap] = nullptr;  // whose default is a number
}

void configure_gemma2(const DecoderOptions& options, const TensorPresence&, nlohmann::json& config) {
  config["model_type"] = "gemma2";
  configure_gemma(options, config);
}

void configure_gemma3(const DecoderOptions& options, const TensorPresence&, nlohmann::json& config) {
  config["model_type"] = "gemma3_text";
  configure_gemma(options, config);
}

std::vector<FamilyField> gemma_fields() {
  using O = DecoderOptions;
  std::vector<FamilyField> fields = common_fields();
  fields.push_back({{"attention.sliding_window", "sliding_window"}, &O::window});
  fields.push_back({{"attn_logit_softcapping", "attn_logit_softcapping"}, &O::attention_softcap, false});
  fields.push_back({{"final_logit_softcapping", "final_logit_softcapping"}, &O::logit_softcap, false});
  return fields;
}

std::vector<FamilyTensor> gemma_tensors(bool head_norms) {
  std::vector<FamilyTensor> tensors =
      llama_tensors({{"blk.{}.post_attention_norm", "model.layers.{}.post_attention_layernorm"},
                     {"blk.{}.ffn_norm", "model.layers.{}.pre_feedforward_layernorm"},
                     {"blk.{}.post_ffw_norm", "model.layers.{}.post_feedforward_layernorm"}});
  if (head_norms) {
    tensors.push_back({"blk.{}.attn_q_norm", "model.layers.{}.self_attn.q_norm"});
    tensors.push_back({"blk.{}.attn_k_norm", "model.layers.{}.self_attn.k_norm"});
  }
  return tensors;
}

}  // namespace

/// Gemma 2: soft caps, norms before and behind, every other layer local (Gemma Team 2024).
extern const Family kGemma2Family;
const Family kGemma2Family{.gguf = "gemma2",
                           .huggingface = {"Gemma2ForCausalLM"},
                           .fields = gemma_fields(),
                           .tensors = gemma_tensors(false),
                           .complete = complete_gemma2,
                           .configure = configure_gemma2};

/// Gemma 3, its text alone: five local layers to a global one, norms of queries and keys (Gemma Team 2025).
extern const Family kGemma3Family;
const Family kGemma3Family{.gguf = "gemma3",
                           .huggingface = {"Gemma3ForCausalLM"},
                           .fields = gemma_fields(),
                           .tensors = gemma_tensors(true),
                           .complete = complete_gemma3,
                           .configure = configure_gemma3};

}  // namespace luminal::models
