#pragma once
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

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

/// A whole number of JSON as a `T`. Errors: FormatError led by "[`what`]" for anything else, and one that a T
/// cannot hold.
template <class T, class Json>
[[nodiscard]] T whole_number(const Json& value, std::string_view what) {
  if (value.is_number_unsigned() && std::in_range<T>(value.template get<uint64_t>()))
    return static_cast<T>(value.template get<uint64_t>());
  if (value.is_number_integer() && !value.is_number_unsigned() &&
      std::in_range<T>(value.template get<int64_t>()))
    return static_cast<T>(value.template get<int64_t>());
  fail<FormatError>("[{}] {} is not a whole number, or out of range", what,
                    value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

/// A list of them.
template <class T, class Json>
[[nodiscard]] std::vector<T> whole_numbers(const Json& list, std::string_view what) {
  if (!list.is_array()) fail<FormatError>("[{}] a list of whole numbers is missing", what);
  std::vector<T> numbers;
  for (const Json& value : list) numbers.push_back(whole_number<T>(value, what));
  return numbers;
}

}  // namespace luminal
