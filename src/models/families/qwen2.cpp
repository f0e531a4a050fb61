#include "models/families/family.h"

namespace luminal::models {
namespace {

using Presence = FamilyTensor::Presence;
using Bias = FamilyTensor::Bias;

void complete_qwen2(DecoderOptions& options, const Facts& facts, const SmallTensor& tensor) {
  options.rotary = options.local_rotary = rotary_of(options, facts, tensor);
  // The window is stated in files whose models do not use it.
  if (!facts.flag({"", "use_sliding_window"}).value_or(false)) return;
  options.window = facts.integer({"", "sliding_window"}).value_or(0);
  const int64_t first = facts.integer({"", "max_window_layers"}).value_or(0);
  options.local = local_layers(options, facts, [first](int64_t layer) { return layer >= first; });
}

void configure_qwen2(const DecoderOptions&, const TensorPresence&, nlohmann::json& config) {
  config["model_type"] = "qwen2";
}

}  // namespace

/// Qwen 2 and 2.5: Llama with biases of queries, keys and values (Yang et al. 2024).
extern const Family kQwen2Family;
const Family kQwen2Family{
    .gguf = "qwen2",
    .huggingface = {"Qwen2ForCausalLM"},
    .fields = common_fields(),
    .tensors = llama_tensors(
        {{"blk.{}.attn_q", "model.layers.{}.self_attn.q_proj", Presence::Always, Bias::Always},
         {"blk.{}.attn_k", "model.layers.{}.self_attn.k_proj", Presence::Always, Bias::Always},
         {"blk.{}.attn_v", "model.layers.{}.self_attn.v_proj", Presence::Always, Bias::Always}}),
    .complete = complete_qwen2,
    .configure = configure_qwen2};

}  // namespace luminal::models
