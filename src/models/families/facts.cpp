#include "models/families/facts.h"

#include <utility>

#include "base/bounded_json.h"
#include "base/fail.h"
#include "models/gguf_source.h"

namespace luminal::models {
namespace {

using nlohmann::json;

json json_of_gguf(const GgufValue& value) {
  return std::visit(
      [](const auto& v) -> json {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, GgufArray>) {
          json list = json::array();
          for (const GgufValue& each : v.values) list.push_back(json_of_gguf(each));
          return list;
        } else {
          return v;
        }
      },
      static_cast<const GgufValue::variant&>(value));
}

[[noreturn]] void wrong_kind(const std::string& name, const json& value, std::string_view wanted) {
  fail<FormatError>("[model] '{}' is {} and must be {}", name,
                    value.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 80), wanted);
}

}  // namespace

Facts::Facts(const GgufMetadata& metadata, std::string architecture, int64_t context)
    : gguf_(&metadata), prefix_(std::move(architecture) + "."), context_(context) {}

std::string Facts::name_of(FactKey key) const {
  return gguf_ ? prefix_ + std::string(key.gguf) : std::string(key.huggingface);
}

json Facts::find(FactKey key) const {
  if ((gguf_ ? key.gguf : key.huggingface).empty()) return nullptr;
  if (gguf_) {
    const GgufValue* value = find_metadata(*gguf_, name_of(key));
    return value ? json_of_gguf(*value) : json(nullptr);
  }
  const json* at = &config_;
  for (std::string_view rest = key.huggingface; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find('/'));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    if (!at->is_object()) return nullptr;
    const auto found = at->find(part);
    if (found == at->end()) return nullptr;
    at = &*found;
  }
  return *at;
}

std::optional<int64_t> Facts::integer(FactKey key) const {
  const json value = find(key);
  if (value.is_null()) return std::nullopt;
  if (!value.is_number_integer()) wrong_kind(name_of(key), value, "a whole number");
  return whole_number<int64_t>(value, "model");
}

std::optional<double> Facts::number(FactKey key) const {
  const json value = find(key);
  if (value.is_null()) return std::nullopt;
  if (!value.is_number()) wrong_kind(name_of(key), value, "a number");
  return value.get<double>();
}

std::optional<bool> Facts::flag(FactKey key) const {
  const json value = find(key);
  if (value.is_null()) return std::nullopt;
  if (!value.is_boolean()) wrong_kind(name_of(key), value, "true or false");
  return value.get<bool>();
}

std::optional<std::string> Facts::text(FactKey key) const {
  const json value = find(key);
  if (value.is_null()) return std::nullopt;
  if (!value.is_string()) wrong_kind(name_of(key), value, "a text");
  return value.get<std::string>();
}

std::vector<double> Facts::numbers(FactKey key) const {
  const json value = find(key);
  if (value.is_null()) return {};
  std::vector<double> result;
  if (!value.is_array()) wrong_kind(name_of(key), value, "a list of numbers");
  for (const json& each : value) {
    if (!each.is_number()) wrong_kind(name_of(key), value, "a list of numbers");
    result.push_back(each.get<double>());
  }
  return result;
}

std::vector<std::string> Facts::texts(FactKey key) const {
  const json value = find(key);
  if (value.is_null()) return {};
  std::vector<std::string> result;
  if (!value.is_array()) wrong_kind(name_of(key), value, "a list of texts");
  for (const json& each : value) {
    if (!each.is_string()) wrong_kind(name_of(key), value, "a list of texts");
    result.push_back(each.get<std::string>());
  }
  return result;
}

}  // namespace luminal::models
