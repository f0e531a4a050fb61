#pragma once
#include <filesystem>

namespace luminal::cli {

/// Where a file or folder that ships with Luminal lies: data/NAME in this folder, data/NAME or NAME in one
/// above the program (a source tree), or share/luminal/NAME beside it (an installation). If there is none,
/// the first of these, for the error message.
[[nodiscard]] std::filesystem::path shipped(const std::filesystem::path& name);

}  // namespace luminal::cli
