#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace luminal::models {

struct RandomModelOptions {
  int64_t layers = 0;  ///< 0: as many as the model has
  uint64_t seed = 0;
  /// Called after each tensor with its number, counted from 1, and how many there are.
  std::function<void(int64_t number, int64_t count)> progress = {};
};
/// Models of which one can be written: "tinyllama-1.1b" and so on.
[[nodiscard]] std::vector<std::string> random_model_names();

/// Writes a model that has the shape of a known one and random weights, in f16, as a GGUF file: it runs as fast as the
/// one that was trained, and says nothing. Its tokens are bytes and names without a meaning. Errors: Error for a name that
/// is not known, or if writing fails; Cancelled.
void write_random_model(std::string_view name, const std::filesystem::path& file,
                        const RandomModelOptions& options);

}  // namespace luminal::models
