#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "luminal/models/language_model.h"

namespace CLI {
class App;
}

/// What commands that run a language model are told.
namespace luminal::cli {

struct ModelChoice {
  std::string model, device, mode = "fast", cache = "f32", decoded;
  std::string activations = "q8";  ///< or f32: beside block-quantised weights
  int64_t context = 0, sequences = 1;
};
/// Declares the cache's dtype, what block-quantised weights become and what is multiplied with them.
void declare_model_dtypes(CLI::App& app, ModelChoice& choice);
/// What --cache-type names, as LanguageModel::Options has it. Errors: Error for other names than f32, f16, bf16, q8.
[[nodiscard]] Dtype cache_dtype(const std::string& name);
/// What --decoded names; nothing if it is not given. Errors: as parse_dtype.
[[nodiscard]] std::optional<Dtype> decoded_dtype(const std::string& name);
/// Whether --activations says that they are rounded to blocks of 8 bits. Errors: Error for other names than q8 and f32.
[[nodiscard]] bool rounds_activations(const std::string& name);
/// The small model that ships with Luminal. Errors: Error if it is not there.
[[nodiscard]] std::string shipped_model();
/// `scores`: as LanguageModel::Options has it. Errors: as LanguageModel, parse_mode,
/// parse_dtype, cache_dtype and rounds_activations.
[[nodiscard]] models::LanguageModel open_language_model(const ModelChoice& choice, bool scores = false);

}  // namespace luminal::cli
