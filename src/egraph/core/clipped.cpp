#include "egraph/core/clipped.h"

namespace luminal::egraph {

std::string clipped(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  size_t end = most - 3;
  const auto is_inside_code_point = [&] { return (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80; };
  while (end > 0 && is_inside_code_point()) --end;
  return std::string(text.substr(0, end)) + "...";
}

}  // namespace luminal::egraph
