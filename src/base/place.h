#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string>

namespace luminal {

/// Where element `flat` of an array of these sizes lies: "row 3", "[2, 0]", or "" if it is the only number
/// there is.
[[nodiscard]] inline std::string place_of(size_t flat, std::span<const int64_t> dims) {
  if (dims.size() == 1) return fmt::format("row {}", flat);
  std::string text;
  for (size_t axis = dims.size(); axis-- > 0; flat /= static_cast<size_t>(dims[axis]))
    text = fmt::format("{}{}{}", flat % static_cast<size_t>(dims[axis]), text.empty() ? "" : ", ", text);
  return text.empty() ? text : "[" + text + "]";
}

}  // namespace luminal
