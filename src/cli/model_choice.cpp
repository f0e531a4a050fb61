#include "cli/model_choice.h"

#include <CLI/CLI.hpp>
#include <filesystem>

#include "base/fail.h"
#include "cli/compile_mode.h"
#include "cli/data_folder.h"

namespace luminal::cli {

void declare_model_dtypes(CLI::App& app, ModelChoice& choice) {
  app.add_option("--cache-type", choice.cache,
                 "Past keys and values: f32, f16, bf16 or q8 (rounded to blocks of 8 bits)")
      ->capture_default_str();
  app.add_option("--decoded", choice.decoded,
                 "Decode block-quantised weights when they are read, to f16, bf16 or f32");
  app.add_option("--activations", choice.activations,
                 "What is multiplied with block-quantised weights: q8 (rounded to blocks of 8 bits) or f32")
      ->capture_default_str();
}

std::string shipped_model() {
  const std::filesystem::path path = shipped(std::filesystem::path("talk") / "talk.gguf");
  if (!exists(path))
    fail(
        "[run] the model that ships with Luminal is not there; give a GGUF file, or a folder from Hugging "
        "Face");
  return path.string();
}

Dtype cache_dtype(const std::string& name) {
  if (name == "q8") return Dtype::I8;
  if (name == "f32" || name == "f16" || name == "bf16") return parse_dtype(name);
  fail("[model] --cache-type is '{}'; choose f32, f16, bf16 or q8 (rounded to blocks of 8 bits)", name);
}

std::optional<Dtype> decoded_dtype(const std::string& name) {
  return name.empty() ? std::nullopt : std::optional(parse_dtype(name));
}

bool rounds_activations(const std::string& name) {
  if (name != "q8" && name != "f32")
    fail("[model] --activations is '{}'; choose q8 (rounded to blocks of 8 bits) or f32", name);
  return name == "q8";
}

models::LanguageModel open_language_model(const ModelChoice& choice, bool scores) {
  return models::LanguageModel(choice.model, {.device = choice.device,
                                              .mode = parse_mode(choice.mode),
                                              .context = choice.context,
                                              .cache = cache_dtype(choice.cache),
                                              .decoded = decoded_dtype(choice.decoded),
                                              .rounded_activations = rounds_activations(choice.activations),
                                              .scores = scores,
                                              .sequences = choice.sequences});
}

}  // namespace luminal::cli
