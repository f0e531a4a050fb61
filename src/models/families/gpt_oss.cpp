#include "models/families/family.h"

namespace luminal::models {
namespace {

using Presence = FamilyTensor::Presence;
using Bias = FamilyTensor::Bias;
using Bare = FamilyTensor::Bare;

void complete_gpt_oss(DecoderOptions& options, const Facts& facts, const SmallTensor& tensor) {
  options.rotary = options.local_rotary = rotary_of(options, facts, tensor, "", false);
  options.local = local_layers(options, facts, [](int64_t layer) { return layer % 2 == 0; });
  options.activation = DecoderOptions::Activation::ClampedSwish;
  options.swish_limit = facts.number({"", "swiglu_limit"}).value_or(7);  // GGUF files do not say them
  options.swish_slope = facts.number({"", "swiglu_alpha"}).value_or(1.702);
}

void configure_gpt_oss(const DecoderOptions& options, const TensorPresence&, nlohmann::json& config) {
  config["model_type"] = "gpt_oss";
  config["attention_bias"] = true;
  for (const bool local : options.local)
    config["layer_types"].push_back(local ? "sliding_attention" : "full_attention");
  if (config["rope_scaling"].is_object()) config["rope_scaling"]["truncate"] = false;
}

std::vector<FamilyField> gpt_oss_fields() {
  using O = DecoderOptions;
  std::vector<FamilyField> fields = common_fields();
  fields.push_back({{"attention.sliding_window", "sliding_window"}, &O::window});
  fields.push_back({{"expert_count", "num_local_experts"}, &O::experts});
  fields.push_back({{"", "experts_per_token"}, &O::experts_used, false});  // as older files call it
  fields.push_back({{"expert_used_count", "num_experts_per_tok"}, &O::experts_used, false});
  fields.push_back({{"expert_feed_forward_length", "intermediate_size"}, &O::expert_hidden});
  return fields;
}

}  // namespace

/// gpt-oss: experts with clamped gates and biases, local layers between global ones, and in each head a score that
/// takes a share of attention and gives nothing (OpenAI 2025).
extern const Family kGptOssFamily;
const Family kGptOssFamily{
    .gguf = "gpt-oss",
    .huggingface = {"GptOssForCausalLM"},
    .fields = gpt_oss_fields(),
    .tensors = {{"token_embd", "model.embed_tokens"},
                {"output_norm", "model.norm"},
                {"output", "lm_head", Presence::Maybe},
                {"blk.{}.attn_norm", "model.layers.{}.input_layernorm"},
                {"blk.{}.attn_q", "model.layers.{}.self_attn.q_proj", Presence::Always, Bias::Always},
                {"blk.{}.attn_k", "model.layers.{}.self_attn.k_proj", Presence::Always, Bias::Always},
                {"blk.{}.attn_v", "model.layers.{}.self_attn.v_proj", Presence::Always, Bias::Always},
                {"blk.{}.attn_output", "model.layers.{}.self_attn.o_proj", Presence::Always, Bias::Always},
                {.gguf = "blk.{}.attn_sinks",
                 .huggingface = "model.layers.{}.self_attn.sinks",
                 .bare = Bare::Whole},
                {.gguf = "blk.{}.post_attention_norm",
                 .huggingface = "model.layers.{}.post_attention_layernorm",
                 .role = "blk.{}.ffn_norm"},
                {"blk.{}.ffn_gate_inp", "model.layers.{}.mlp.router", Presence::Always, Bias::Always},
                {.gguf = "blk.{}.ffn_gate_exps",
                 .huggingface = "model.layers.{}.mlp.experts.gate_up_proj",
                 .bias = Bias::Always,
                 .bare = Bare::FirstHalf},
                {.gguf = "blk.{}.ffn_up_exps",
                 .huggingface = "model.layers.{}.mlp.experts.gate_up_proj",
                 .bias = Bias::Always,
                 .bare = Bare::SecondHalf},
                {.gguf = "blk.{}.ffn_down_exps",
                 .huggingface = "model.layers.{}.mlp.experts.down_proj",
                 .bias = Bias::Always,
                 .bare = Bare::Whole}},
    .complete = complete_gpt_oss,
    .configure = configure_gpt_oss};

}  // namespace luminal::models
