#include "cli/model_choice.h"

#include <CLI/CLI.hpp>
#include <optional>

#include "cli/compile_mode.h"

namespace luminal::cli {

void declare_model_dtypes(CLI::App& app, ModelChoice& choice) {
  app.add_option("--cache-type", choice.cache, "Dtype of past keys and values: f32, f16, bf16")
      ->capture_default_str();
  app.add_option("--decoded", choice.decoded,
                 "Decode block-quantised weights when they are read, to f16, bf16 or f32");
}

models::LanguageModel open_language_model(const ModelChoice& choice, bool scores) {
  std::optional<Dtype> decoded;
  if (!choice.decoded.empty()) decoded = parse_dtype(choice.decoded);
  return models::LanguageModel(choice.model, {.device = choice.device,
                                              .mode = parse_mode(choice.mode),
                                              .context = choice.context,
                                              .cache = parse_dtype(choice.cache),
                                              .decoded = decoded,
                                              .scores = scores,
                                              .sequences = choice.sequences});
}

}  // namespace luminal::cli
