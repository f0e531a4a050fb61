#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/fail.h"
#include "base/file.h"
#include "luminal/models/convert.h"
#include "luminal/models/llama.h"
#include "luminal/safetensors.h"

namespace luminal::models {
namespace {

namespace fs = std::filesystem;

nlohmann::json config_of(const Llama::Options& options, const std::map<std::string, TensorData>& weights,
                         int64_t context, std::span<const text::TokenId> ends) {
  const auto gate = weights.find("model.layers.0.mlp.gate_proj.weight");
  if (gate == weights.end())
    fail<FormatError>("[model] the weights are no Llama's: they lack 'model.layers.0.mlp.gate_proj.weight'");
  nlohmann::json config{{"architectures", {"LlamaForCausalLM"}},
                        {"model_type", "llama"},
                        {"hidden_act", "silu"},
                        {"vocab_size", options.vocabulary},
                        {"num_hidden_layers", options.layers},
                        {"hidden_size", options.size},
                        {"num_attention_heads", options.heads},
                        {"num_key_value_heads", options.kv_heads},
                        {"intermediate_size", gate->second.dims.at(0)},
                        {"max_position_embeddings", context},
                        {"rms_norm_eps", options.norm_eps},
                        {"rope_theta", options.rope_base},
                        {"tie_word_embeddings", options.tied},
                        {"bos_token_id", nullptr},
                        {"eos_token_id", nullptr}};
  if (!ends.empty()) config["eos_token_id"] = ends;
  return config;
}

/// Removes a folder in the end.
struct PassingFolder {
  explicit PassingFolder(fs::path where) : path(std::move(where)) { fs::create_directories(path); }
  PassingFolder(const PassingFolder&) = delete;
  PassingFolder& operator=(const PassingFolder&) = delete;
  ~PassingFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  fs::path path;
};

}  // namespace

void write_llama(const Llama::Options& options, const std::map<std::string, TensorData>& weights,
                 int64_t context, const text::TokenizerSpec& tokenizer, std::span<const text::TokenId> ends,
                 const fs::path& folder) {
  if (const size_t size = text::Tokenizer(tokenizer).size(); std::cmp_not_equal(size, options.vocabulary))
    fail<FormatError>("[model] the tokenizer has {} tokens and the model {}", size, options.vocabulary);
  fs::create_directories(folder);
  write_safetensors(folder / "model.safetensors", {weights.begin(), weights.end()}, {{"format", "pt"}});
  write_file_atomic(folder / "config.json", config_of(options, weights, context, ends).dump(2) + "\n");
  text::write_tokenizer(tokenizer, folder);
}

void write_llama_gguf(const Llama::Options& options, const std::map<std::string, TensorData>& weights,
                      int64_t context, const text::TokenizerSpec& tokenizer,
                      std::span<const text::TokenId> ends, const fs::path& file) {
  fs::path beside = file;
  beside += fmt::format(".{}.new", ::getpid());
  const PassingFolder passing(beside);
  const fs::path folder = passing.path / file.stem();  // the file's name becomes the model's
  write_llama(options, weights, context, tokenizer, ends, folder);
  convert_to_gguf(folder, file);
}

}  // namespace luminal::models
