#include "base/printable.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"

namespace luminal {
namespace {

/// What a terminal obeys, or what makes lines read otherwise than they are.
bool is_shown(uint32_t code) {
  const bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
  const bool direction = code == 0x61c || code == 0x200e || code == 0x200f ||
                         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
  return !control && !direction;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const auto [code, size] = first_character(text);
    if (size > 0 && is_shown(code)) {
      result += text.substr(0, size);
    } else {
      for (const char c : text.substr(0, std::max<size_t>(1, size)))
        result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
    text.remove_prefix(std::max<size_t>(1, size));
  }
  return result;
}

}  // namespace luminal
