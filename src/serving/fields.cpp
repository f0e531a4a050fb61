#include "serving/fields.h"

#include <fmt/format.h>

#include <vector>

#include "base/suggest.h"
#include "serving/api_error.h"

namespace luminal::serving {
namespace {

/// A value in an error, cut where it is long.
std::string shown_value(const Json& value) {
  constexpr size_t kMostBytes = 60;
  if (value.is_null()) return "missing";
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  std::string text = json_text(value);
  if (text.size() <= kMostBytes) return text;
  size_t end = kMostBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not within a character
  return text.substr(0, end) + "...";
}

}  // namespace

void refuse_field(const std::string& path, const Json& value, std::string_view wanted) {
  throw ApiError(400, fmt::format("'{}' is {}; give {}", path, shown_value(value), wanted), path,
                 "invalid_value");
}

Json parse_body(std::string_view body) {
  Json parsed;
  try {
    parsed = parse_json(body);
  } catch (const Json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    const std::string_view what = error.what();
    const size_t begin = what.find("] ");
    throw ApiError(400, fmt::format("the body is not JSON: {}",
                                    begin == std::string_view::npos ? what : what.substr(begin + 2)));
  }
  if (!parsed.is_object())
    throw ApiError(400, fmt::format("the body is {}; give a JSON object", shown_value(parsed)));
  return parsed;
}

Fields::Fields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
  if (!object_.is_object()) refuse_field(path_, object_, "an object");
}

std::string Fields::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

const Json* Fields::any(const char* name) {
  known_.insert(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<double> Fields::number(const char* name, double least, double most) {
  const Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  const auto refuse = [&] {
    refuse_field(path_of(name), *value, fmt::format("a number from {} to {}", least, most));
  };
  if (!value->is_number()) refuse();
  const auto result = value->get<double>();
  if (!(result >= least && result <= most)) refuse();
  return result;
}

std::optional<int64_t> Fields::whole(const char* name, int64_t least, int64_t most) {
  const Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  const auto refuse = [&] {
    refuse_field(path_of(name), *value,
                 most == std::numeric_limits<int64_t>::max()
                     ? fmt::format("a whole number of at least {}", least)
                     : fmt::format("a whole number from {} to {}", least, most));
  };
  if (!value->is_number_integer()) refuse();
  if (value->is_number_unsigned() && !std::in_range<int64_t>(value->get<uint64_t>())) refuse();
  const auto result = value->get<int64_t>();
  if (result < least || result > most) refuse();
  return result;
}

std::optional<bool> Fields::flag(const char* name) {
  const Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse_field(path_of(name), *value, "true or false");
  return value->get<bool>();
}

std::optional<std::string> Fields::text(const char* name) {
  const Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse_field(path_of(name), *value, "a string");
  return value->get<std::string>();
}

const Json* Fields::list(const char* name) {
  const Json* value = any(name);
  if (value != nullptr && !value->is_array()) refuse_field(path_of(name), *value, "a list");
  return value;
}

const Json* Fields::object(const char* name) {
  const Json* value = any(name);
  if (value != nullptr && !value->is_object()) refuse_field(path_of(name), *value, "an object");
  return value;
}

void Fields::ignore(std::initializer_list<const char*> names) { known_.insert(names.begin(), names.end()); }

void Fields::finish() const {
  for (const auto& [name, value] : object_.items()) {
    if (known_.contains(name)) continue;
    const bool is_short = name.size() <= 60;
    const std::vector<std::string> known(known_.begin(), known_.end());
    throw ApiError(400,
                   fmt::format("there is no field {}{}{}", shown_value(name),
                               path_.empty() ? "" : fmt::format(" in '{}'", path_),
                               is_short ? did_you_mean(name, known) : ""),
                   is_short ? path_of(name) : path_, "unknown_parameter");
  }
}

}  // namespace luminal::serving
