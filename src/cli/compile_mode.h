#pragma once
#include <string_view>

#include "luminal/session.h"

namespace luminal::cli {

/// "fast", "optimal" or "budget=SECONDS". Errors: Error that says so.
[[nodiscard]] CompilationMode parse_mode(std::string_view text);

}  // namespace luminal::cli
