#pragma once
#include <string>
#include <string_view>

namespace luminal {

/// `text` as XML and HTML may hold it, in text and in attributes; characters that XML forbids become U+FFFD.
[[nodiscard]] std::string xml(std::string_view text);

}  // namespace luminal
