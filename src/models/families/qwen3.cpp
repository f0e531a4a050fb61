#include "base/fail.h"
#include "models/families/family.h"

namespace luminal::models {
namespace {

using Presence = FamilyTensor::Presence;
using Bias = FamilyTensor::Bias;

void complete_qwen3(DecoderOptions& options, const Facts& facts, const SmallTensor& tensor) {
  options.rotary = options.local_rotary = rotary_of(options, facts, tensor);
  if (!facts.flag({"", "use_sliding_window"}).value_or(false)) return;
  options.window = facts.integer({"", "sliding_window"}).value_or(0);
  const int64_t first = facts.integer({"", "max_window_layers"}).value_or(0);
  options.local = local_layers(options, facts, [first](int64_t layer) { return layer >= first; });
}

void complete_qwen3moe(DecoderOptions& options, const Facts& facts, const SmallTensor& tensor) {
  complete_qwen3(options, facts, tensor);
  if (facts.integer({"", "decoder_sparse_step"}).value_or(1) != 1 ||
      !facts.numbers({"", "mlp_only_layers"}).empty())
    fail<FormatError>("[model] only some layers of this qwen3moe model have experts, which is not supported");
  options.route_over_all = !facts.is_gguf() && !facts.flag({"", "norm_topk_prob"}).value_or(false);
}

void configure_qwen3(const DecoderOptions&, const TensorPresence& has, nlohmann::json& config) {
  config["model_type"] = "qwen3";
  config["attention_bias"] = has.bias("blk.0.attn_q");
}

void configure_qwen3moe(const DecoderOptions& options, const TensorPresence& has, nlohmann::json& config) {
  configure_qwen3(options, has, config);
  config["model_type"] = "qwen3_moe";
  config["norm_topk_prob"] = !options.route_over_all;
}

std::vector<FamilyField> qwen3moe_fields() {
  using O = DecoderOptions;
  std::vector<FamilyField> fields = common_fields();
  fields.push_back({{"expert_count", "num_experts"}, &O::experts, false});
  fields.push_back({{"", "num_local_experts"}, &O::experts, false});  // as newer files call them
  fields.push_back({{"expert_used_count", "num_experts_per_tok"}, &O::experts_used});
  fields.push_back({{"expert_feed_forward_length", "moe_intermediate_size"}, &O::expert_hidden});
  return fields;
}

std::vector<FamilyTensor> qwen3_tensors() {
  return llama_tensors(
      {{"blk.{}.attn_q", "model.layers.{}.self_attn.q_proj", Presence::Always, Bias::Maybe},
       {"blk.{}.attn_k", "model.layers.{}.self_attn.k_proj", Presence::Always, Bias::Maybe},
       {"blk.{}.attn_v", "model.layers.{}.self_attn.v_proj", Presence::Always, Bias::Maybe},
       {"blk.{}.attn_output", "model.layers.{}.self_attn.o_proj", Presence::Always, Bias::Maybe},
       {"blk.{}.attn_q_norm", "model.layers.{}.self_attn.q_norm"},
       {"blk.{}.attn_k_norm", "model.layers.{}.self_attn.k_norm"}});
}

std::vector<FamilyTensor> qwen3moe_tensors() {
  std::vector<FamilyTensor> tensors = qwen3_tensors();
  tensors.push_back({"blk.{}.ffn_gate_inp", "model.layers.{}.mlp.gate"});
  tensors.push_back({"blk.{}.ffn_gate_exps", "model.layers.{}.mlp.experts.{expert}.gate_proj"});
  tensors.push_back({"blk.{}.ffn_up_exps", "model.layers.{}.mlp.experts.{expert}.up_proj"});
  tensors.push_back({"blk.{}.ffn_down_exps", "model.layers.{}.mlp.experts.{expert}.down_proj"});
  return tensors;
}

}  // namespace

/// Qwen 3: Llama with norms of queries and keys, head by head (Yang et al. 2025).
extern const Family kQwen3Family;
const Family kQwen3Family{.gguf = "qwen3",
                          .huggingface = {"Qwen3ForCausalLM"},
                          .fields = common_fields(),
                          .tensors = qwen3_tensors(),
                          .complete = complete_qwen3,
                          .configure = configure_qwen3};

/// The same with experts.
extern const Family kQwen3MoeFamily;
const Family kQwen3MoeFamily{.gguf = "qwen3moe",
                             .huggingface = {"Qwen3MoeForCausalLM"},
                             .fields = qwen3moe_fields(),
                             .tensors = qwen3moe_tensors(),
                             .complete = complete_qwen3moe,
                             .configure = configure_qwen3moe};

}  // namespace luminal::models
