#pragma once
#include <string>
#include <string_view>

namespace luminal {

/// Text from outside as a terminal may show it: control characters, marks that turn the direction of writing and
/// bytes that are not UTF-8 become "\x1b", for each of their bytes.
[[nodiscard]] std::string escaped(std::string_view text);

}  // namespace luminal
