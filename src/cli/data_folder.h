#pragma once
#include <filesystem>

namespace luminal::cli {

/// Where the digits that ship with Luminal lie: data/mnist10k in this folder, in one above the program (a
/// source tree), or share/luminal/mnist10k beside it (an installation). If there is none, the first of these,
/// for the error message.
[[nodiscard]] std::filesystem::path default_digits();

}  // namespace luminal::cli
