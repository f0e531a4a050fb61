#pragma once
#include <string_view>

namespace luminal {

/// The version of the library in use, "major.minor.patch".
[[nodiscard]] std::string_view version();

}  // namespace luminal
