#pragma once
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/fail.h"

namespace luminal {

/// JSON from outside: nested no deeper than anything of ours, since what prints or copies a document calls
/// itself once a level. Errors: FormatError led by "[`what`]" if it is deeper; json::parse_error.
template <class Json = nlohmann::json>
[[nodiscard]] Json parse_bounded_json(std::string_view text, std::string_view what) {
  constexpr int kDeepest = 64;
  return Json::parse(text, [&](int depth, nlohmann::json::parse_event_t, Json&) {
    if (depth > kDeepest) fail<FormatError>("[{}] the JSON is nested deeper than {} levels", what, kDeepest);
    return true;
  });
}

}  // namespace luminal
