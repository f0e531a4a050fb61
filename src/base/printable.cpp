#include "base/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace luminal {
namespace {

/// Bytes of the UTF-8 character that `text` begins with, 0 if it begins with none, and its code point.
size_t first_character(std::string_view text, uint32_t& point) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t size = byte(0) < 0x80   ? 1
                      : byte(0) < 0xc2 ? 0
                      : byte(0) < 0xe0 ? 2
                      : byte(0) < 0xf0 ? 3
                      : byte(0) < 0xf5 ? 4
                                       : 0;
  if (size == 0 || size > text.size()) return 0;
  point = size == 1 ? byte(0) : byte(0) & (0x7fU >> size);
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    point = point << 6 | (byte(i) & 0x3fU);
  }
  const bool overlong = (size == 3 && point < 0x800) || (size == 4 && point < 0x10000);
  return overlong || point > 0x10ffff || (point >= 0xd800 && point < 0xe000) ? 0 : size;
}

/// What a terminal obeys, or what makes lines read otherwise than they are.
bool is_shown(uint32_t point) {
  const bool control = point < 0x20 || (point >= 0x7f && point < 0xa0);
  const bool direction = point == 0x61c || point == 0x200e || point == 0x200f ||
                         (point >= 0x2028 && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
  return !control && !direction;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    uint32_t point = 0;
    const size_t size = first_character(text, point);
    if (size > 0 && is_shown(point)) {
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
