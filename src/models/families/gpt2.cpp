#include "models/families/family.h"

namespace luminal::models {
namespace {

using Presence = FamilyTensor::Presence;
using Bias = FamilyTensor::Bias;

void complete_gpt2(DecoderOptions& options, const Facts&, const SmallTensor&) {
  options.layer_norm = true;
  options.gated = false;
  options.activation = DecoderOptions::Activation::GeluTanh;
  if (options.hidden == 0) options.hidden = 4 * options.size;
}

void configure_gpt2(const DecoderOptions&, const TensorPresence&, nlohmann::json& config) {
  config["model_type"] = "gpt2";
  config["activation_function"] = "gelu_new";
}

}  // namespace

/// GPT-2: learned positions, LayerNorm, no gate (Radford et al. 2019).
extern const Family kGpt2Family;
const Family kGpt2Family{
    .gguf = "gpt2",
    .huggingface = {"GPT2LMHeadModel"},
    .fields = {{{"block_count", "n_layer"}, &DecoderOptions::layers},
               {{"embedding_length", "n_embd"}, &DecoderOptions::size},
               {{"attention.head_count", "n_head"}, &DecoderOptions::heads},
               {{"feed_forward_length", "n_inner"}, &DecoderOptions::hidden, false},
               {{"context_length", "n_positions"}, &DecoderOptions::context},
               {{"attention.layer_norm_epsilon", "layer_norm_epsilon"}, &DecoderOptions::norm_eps}},
    .tensors = {{"token_embd", "transformer.wte"},
                {"position_embd", "transformer.wpe"},
                {"output_norm", "transformer.ln_f", Presence::Always, Bias::Always},
                {"output", "lm_head", Presence::Maybe},
                {"blk.{}.attn_norm", "transformer.h.{}.ln_1", Presence::Always, Bias::Always},
                {"blk.{}.attn_qkv", "transformer.h.{}.attn.c_attn", Presence::Always, Bias::Always, true},
                {"blk.{}.attn_output", "transformer.h.{}.attn.c_proj", Presence::Always, Bias::Always, true},
                {"blk.{}.ffn_norm", "transformer.h.{}.ln_2", Presence::Always, Bias::Always},
                {"blk.{}.ffn_up", "transformer.h.{}.mlp.c_fc", Presence::Always, Bias::Always, true},
                {"blk.{}.ffn_down", "transformer.h.{}.mlp.c_proj", Presence::Always, Bias::Always, true}},
    .complete = complete_gpt2,
    .configure = configure_gpt2,
    .ignored = {".attn.bias", ".attn.masked_bias"}};

}  // namespace luminal::models
