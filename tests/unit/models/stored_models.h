#pragma once
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "luminal/safetensors.h"
#include "luminal/text/tokenizer.h"

/// Tiny models of each family with random weights beside what transformers computes with them
/// (tools/language_models.py).
namespace luminal::test {

inline const std::filesystem::path kModels =
    std::string(LUMINAL_SOURCE_DIR) + "/tests/unit/models/data/families";

inline std::vector<std::string> stored_models() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kModels))
    if (entry.is_directory()) {
      names.push_back(entry.path().filename().string());
      if (exists(entry.path() / "model.gguf")) names.push_back(names.back() + "/model.gguf");
    }
  std::ranges::sort(names);
  return names;
}

struct ExpectedLogits {
  std::vector<text::TokenId> tokens;
  TensorData logits;  ///< [steps, vocabulary]
  size_t prompt;

  explicit ExpectedLogits(const std::filesystem::path& model) {
    const auto folder = is_directory(model) ? model : model.parent_path();
    const SafetensorsFile file(folder / "expected.safetensors");
    const TensorData ids = file.read("tokens");
    tokens.assign(ids.as<int32_t>().begin(), ids.as<int32_t>().end());
    logits = file.read("logits");
    prompt = tokens.size() - static_cast<size_t>(logits.dims[0]) + 1;
  }
  [[nodiscard]] std::span<const float> row(size_t step) const {
    const auto size = static_cast<size_t>(logits.dims[1]);
    return logits.as<float>().subspan(step * size, size);
  }
};

/// The greatest difference by the greatest number.
inline double relative_error(std::span<const float> got, std::span<const float> wanted) {
  double difference = 0, most = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    difference = std::max(difference, std::abs(static_cast<double>(got[i]) - wanted[i]));
    most = std::max(most, std::abs(static_cast<double>(wanted[i])));
  }
  return difference / most;
}

}  // namespace luminal::test
