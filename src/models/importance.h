#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

/// Importance matrices of llama.cpp (`llama-imatrix`): how much each input of a weight matters.
namespace luminal::models {

/// By the weight's name: mean squares of its inputs, one row for each expert of a weight with experts.
using Importance = std::map<std::string, std::vector<float>, std::less<>>;

/// Reads the GGUF format and the older binary one. Errors: FormatError for a file that is neither, is cut short, or
/// holds numbers that are not finite or below 0.
[[nodiscard]] Importance read_importance(const std::filesystem::path& path);

}  // namespace luminal::models
