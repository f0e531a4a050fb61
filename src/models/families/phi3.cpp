#include "models/families/family.h"

namespace luminal::models {
namespace {

std::vector<FamilyField> phi3_fields() {
  std::vector<FamilyField> fields = common_fields();
  fields.push_back({{"attention.sliding_window", "sliding_window"}, &DecoderOptions::window, false});
  return fields;
}

void complete_phi3(DecoderOptions& options, const Facts& facts, const SmallTensor& tensor) {
  options.rotary = options.local_rotary = rotary_of(options, facts, tensor);
}

void configure_phi3(const DecoderOptions&, const TensorPresence&, nlohmann::json& config) {
  config["model_type"] = "phi3";
}

}  // namespace

/// Phi 3 and 4: Llama with joined projections (Abdin et al. 2024).
extern const Family kPhi3Family;
const Family kPhi3Family{.gguf = "phi3",
                         .huggingface = {"Phi3ForCausalLM"},
                         .fields = phi3_fields(),
                         .tensors = {{"token_embd", "model.embed_tokens"},
                                     {"output_norm", "model.norm"},
                                     {"output", "lm_head", FamilyTensor::Presence::Maybe},
                                     {"blk.{}.attn_norm", "model.layers.{}.input_layernorm"},
                                     {"blk.{}.attn_qkv", "model.layers.{}.self_attn.qkv_proj"},
                                     {"blk.{}.attn_output", "model.layers.{}.self_attn.o_proj"},
                                     {"blk.{}.ffn_norm", "model.layers.{}.post_attention_layernorm"},
                                     {"blk.{}.ffn_up", "model.layers.{}.mlp.gate_up_proj"},
                                     {"blk.{}.ffn_down", "model.layers.{}.mlp.down_proj"}},
                         .complete = complete_phi3,
                         .configure = configure_phi3};

}  // namespace luminal::models
