#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace luminal::serving {

/// Objects keep their order: schemas mean one, and templates print one.
using Json = nlohmann::ordered_json;

/// JSON from outside. Errors: FormatError if it is nested deeper than 64 levels or an object has more than 4096 keys;
/// Json::parse_error.
[[nodiscard]] Json parse_json(std::string_view text);

/// JSON as it is sent: bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] inline std::string json_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace luminal::serving
