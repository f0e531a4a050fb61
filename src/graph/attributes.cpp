#include "luminal/attributes.h"

#include <algorithm>

#include "base/fail.h"
#include "base/hash.h"
#include "graph/subgraph.h"

namespace luminal {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

std::string text_of(const Attribute& attribute) {
  return std::visit(
      Overloaded{[](int64_t v) { return std::to_string(v); },
                 [](bool v) { return std::string(v ? "true" : "false"); },
                 [](const Number& v) { return v.to_string(); }, [](const std::string& v) { return v; },
                 [](Dtype v) { return std::string(name(v)); },
                 [](const Expression& v) { return v.to_string(); },
                 [](const Shape& v) { return to_string(v); },
                 [](const std::vector<int64_t>& v) { return fmt::format("[{}]", fmt::join(v, ", ")); },
                 [](const std::shared_ptr<const Payload>& v) {
                   const auto* part = dynamic_cast<const Subgraph*>(v.get());
                   return part != nullptr ? fmt::format("<{}>", summary_of(*part)) : "<user code>";
                 }},
      attribute);
}

uint64_t hash_of(const Attribute& attribute) {
  if (const auto* payload = std::get_if<std::shared_ptr<const Payload>>(&attribute))
    return mix(reinterpret_cast<uintptr_t>(payload->get()));
  if (const auto* number = std::get_if<Number>(&attribute)) return number->hash();
  return hash_bytes(text_of(attribute));
}

bool before(const std::pair<std::string, Attribute>& entry, std::string_view key) {
  return entry.first < key;
}

}  // namespace

Attributes::Attributes(std::initializer_list<std::pair<std::string, Attribute>> entries) {
  for (const auto& [key, value] : entries) set(key, value);
}

void Attributes::set(std::string key, Attribute value) {
  const auto place = std::lower_bound(entries_.begin(), entries_.end(), std::string_view(key), before);
  if (place != entries_.end() && place->first == key)
    place->second = std::move(value);
  else
    entries_.insert(place, {std::move(key), std::move(value)});
}

const Attribute* Attributes::find(std::string_view key) const {
  const auto place = std::lower_bound(entries_.begin(), entries_.end(), key, before);
  return place != entries_.end() && place->first == key ? &place->second : nullptr;
}

std::string Attributes::to_string() const {
  std::vector<std::string> parts;
  parts.reserve(entries_.size());
  for (const auto& [key, value] : entries_) parts.push_back(key + "=" + text_of(value));
  return fmt::format("{}", fmt::join(parts, ", "));
}

uint64_t Attributes::hash() const {
  uint64_t result = entries_.size();
  for (const auto& [key, value] : entries_)
    result = combine(combine(result, hash_bytes(key)), hash_of(value));
  return result;
}

void Attributes::missing(std::string_view key) const {
  throw InternalError(fmt::format("attribute '{}' is absent or of another type in {{{}}}", key, to_string()));
}

}  // namespace luminal
