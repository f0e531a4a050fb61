#include "base/fail.h"
#include "models/families/family.h"
#include "models/gguf_source.h"
#include "models/sentence_modules.h"

namespace luminal::models {
namespace {

using Activation = DecoderOptions::Activation;
using Pooling = DecoderOptions::Pooling;
using Presence = FamilyTensor::Presence;
using Bias = FamilyTensor::Bias;

/// What "bert.pooling_type" calls them.
constexpr int64_t kMeanPooling = 1, kFirstPooling = 2;

void complete_bert(DecoderOptions& options, const Facts& facts, const SmallTensor&) {
  options.layer_norm = true;
  options.gated = false;
  const std::string activation = facts.text({"", "hidden_act"}).value_or("gelu");
  if (activation == "gelu")
    options.activation = Activation::Gelu;
  else if (activation == "gelu_new" || activation == "gelu_pytorch_tanh")
    options.activation = Activation::GeluTanh;
  else
    fail<FormatError>("[model] the activation '{}' of this bert model is not known; known are gelu, gelu_new",
                      activation);
  const std::string positions = facts.text({"", "position_embedding_type"}).value_or("absolute");
  if (positions != "absolute")
    fail<FormatError>("[model] bert models with '{}' positions are not supported; absolute ones are",
                      positions);
  const std::string pooling = facts.text({"", kPoolingKey}).value_or("mean");
  const int64_t number =
      facts.integer({"pooling_type", ""}).value_or(pooling == "cls" ? kFirstPooling : kMeanPooling);
  if (number != kMeanPooling && number != kFirstPooling)
    fail<FormatError>(
        "[model] pooling of type {} is not supported; the mean ({}) and the first token ({}) are", number,
        kMeanPooling, kFirstPooling);
  options.pooling = number == kFirstPooling ? Pooling::First : Pooling::Mean;
}

void configure_bert(const DecoderOptions& options, const TensorPresence&, nlohmann::json& config) {
  config["model_type"] = "bert";
  config["hidden_act"] = "gelu";
  config["position_embedding_type"] = "absolute";
  config["type_vocab_size"] = options.token_types;
  config[kPoolingKey] = options.pooling == Pooling::First ? "cls" : "mean";
}

void describe_bert(const DecoderOptions& options, GgufMetadata& metadata) {
  const bool first = options.pooling == Pooling::First;
  set_metadata(metadata, "bert.attention.causal", GgufValue(false));
  set_metadata(metadata, "bert.pooling_type",
               GgufValue(static_cast<uint32_t>(first ? kFirstPooling : kMeanPooling)));
  set_metadata(metadata, "tokenizer.ggml.token_type_count",
               GgufValue(static_cast<uint32_t>(options.token_types)));
}

/// A weight and a bias.
FamilyTensor with_bias(std::string_view gguf, std::string_view huggingface) {
  return {gguf, huggingface, Presence::Always, Bias::Always};
}

}  // namespace

/// BERT and what has its shape, such as MiniLM: encoders that make embeddings (Devlin et al. 2019).
extern const Family kBertFamily;
const Family kBertFamily{
    .gguf = "bert",
    .huggingface = {"BertModel"},
    .fields = {{{"block_count", "num_hidden_layers"}, &DecoderOptions::layers},
               {{"embedding_length", "hidden_size"}, &DecoderOptions::size},
               {{"attention.head_count", "num_attention_heads"}, &DecoderOptions::heads},
               {{"feed_forward_length", "intermediate_size"}, &DecoderOptions::hidden},
               {{"context_length", "max_position_embeddings"}, &DecoderOptions::context},
               {{"attention.layer_norm_epsilon", "layer_norm_eps"}, &DecoderOptions::norm_eps}},
    .tensors = {{"token_embd", "bert.embeddings.word_embeddings"},
                {"position_embd", "bert.embeddings.position_embeddings"},
                {"token_types", "bert.embeddings.token_type_embeddings"},
                with_bias("token_embd_norm", "bert.embeddings.LayerNorm"),
                with_bias("blk.{}.attn_q", "bert.encoder.layer.{}.attention.self.query"),
                with_bias("blk.{}.attn_k", "bert.encoder.layer.{}.attention.self.key"),
                with_bias("blk.{}.attn_v", "bert.encoder.layer.{}.attention.self.value"),
                with_bias("blk.{}.attn_output", "bert.encoder.layer.{}.attention.output.dense"),
                with_bias("blk.{}.attn_output_norm", "bert.encoder.layer.{}.attention.output.LayerNorm"),
                with_bias("blk.{}.ffn_up", "bert.encoder.layer.{}.intermediate.dense"),
                with_bias("blk.{}.ffn_down", "bert.encoder.layer.{}.output.dense"),
                with_bias("blk.{}.layer_output_norm", "bert.encoder.layer.{}.output.LayerNorm")},
    .complete = complete_bert,
    .configure = configure_bert,
    // The pooler is for the task of pretraining.
    .ignored = {"embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias"},
    .describe = describe_bert,
    .encodes = true};

}  // namespace luminal::models
