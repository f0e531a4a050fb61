#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace luminal {

/// A character of UTF-8 text: its code point, and how many bytes it takes. No bytes: there is none.
struct Utf8Character {
  uint32_t code = 0;
  size_t size = 0;
};
/// What a text, which is not empty, begins with: no overlong form, surrogate or code point above U+10FFFF is one.
[[nodiscard]] Utf8Character first_character(std::string_view text);

/// Where the first bytes are that are no UTF-8 character; `npos` if the text is UTF-8 throughout.
[[nodiscard]] size_t find_invalid_utf8(std::string_view text);

}  // namespace luminal
