#pragma once
#include <string>
#include <string_view>

namespace luminal::egraph {

/// A quotation of at most so many bytes: names and values of programs may be as long as the program.
[[nodiscard]] std::string clipped(std::string_view text, size_t most = 100);

}  // namespace luminal::egraph
