#include "models/families/family.h"

namespace luminal::models {
namespace {

using Presence = FamilyTensor::Presence;
using Bias = FamilyTensor::Bias;

std::vector<FamilyField> llama_fields() {
  using O = DecoderOptions;
  std::vector<FamilyField> fields = common_fields();
  fields.push_back({{"expert_count", "num_local_experts"}, &O::experts, false});
  fields.push_back({{"expert_used_count", "num_experts_per_tok"}, &O::experts_used, false});
  fields.push_back({{"attention.sliding_window", "sliding_window"}, &O::window, false});
  return fields;
}

void complete_llama(DecoderOptions& options, const Facts& facts, const SmallTensor& tensor) {
  options.rotary = rotary_of(options, facts, tensor);
  // Files for GGML hold the rows of queries and keys in another order, for which pairs are neighbours.
  options.rotary.interleaved = facts.is_gguf();
  options.local_rotary = options.rotary;
}

void configure_llama(const DecoderOptions& options, const TensorPresence& has, nlohmann::json& config) {
  const bool experts = options.experts > 0, window = options.window > 0;
  config["architectures"] = nlohmann::json::array({experts  ? "MixtralForCausalLM"
                                                   : window ? "MistralForCausalLM"
                                                            : "LlamaForCausalLM"});
  config["model_type"] = experts ? "mixtral" : window ? "mistral" : "llama";
  config["attention_bias"] = has.bias("blk.0.attn_q");
  config["mlp_bias"] = has.bias("blk.0.ffn_up");
}

}  // namespace

/// Llama 1 to 3 and SmolLM2 (Touvron et al. 2023; Grattafiori et al. 2024), Mistral with its window (Jiang et al.
/// 2023), Mixtral with experts (Jiang et al. 2024): GGUF files call them all "llama".
extern const Family kLlamaFamily;
const Family kLlamaFamily{
    .gguf = "llama",
    .huggingface = {"LlamaForCausalLM", "MistralForCausalLM", "MixtralForCausalLM"},
    .fields = llama_fields(),
    .tensors = llama_tensors(
        {{"blk.{}.attn_q", "model.layers.{}.self_attn.q_proj", Presence::Always, Bias::Maybe},
         {"blk.{}.attn_k", "model.layers.{}.self_attn.k_proj", Presence::Always, Bias::Maybe},
         {"blk.{}.attn_v", "model.layers.{}.self_attn.v_proj", Presence::Always, Bias::Maybe},
         {"blk.{}.attn_output", "model.layers.{}.self_attn.o_proj", Presence::Always, Bias::Maybe},
         {"blk.{}.ffn_gate", "model.layers.{}.mlp.gate_proj", Presence::Always, Bias::Maybe},
         {"blk.{}.ffn_up", "model.layers.{}.mlp.up_proj", Presence::Always, Bias::Maybe},
         {"blk.{}.ffn_down", "model.layers.{}.mlp.down_proj", Presence::Always, Bias::Maybe},
         {"blk.{}.ffn_gate_inp", "model.layers.{}.block_sparse_moe.gate"},
         {"blk.{}.ffn_gate_exps", "model.layers.{}.block_sparse_moe.experts.{expert}.w1"},
         {"blk.{}.ffn_up_exps", "model.layers.{}.block_sparse_moe.experts.{expert}.w3"},
         {"blk.{}.ffn_down_exps", "model.layers.{}.block_sparse_moe.experts.{expert}.w2"}}),
    .complete = complete_llama,
    .configure = configure_llama,
    .ignored = {"rotary_emb.inv_freq"}};

}  // namespace luminal::models
