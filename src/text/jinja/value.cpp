#include "text/jinja/value.h"

#include <algorithm>
#include <cmath>

#include "base/fail.h"
#include "text/unicode.h"

namespace luminal::text::jinja {
namespace {

constexpr int kDeepestValue = 100;

void check_value_depth(int depth) {
  if (depth > kDeepestValue)
    fail<Error>("[chat template] a value is nested deeper than {} levels", kDeepestValue);
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  const double magnitude = std::abs(value);
  if (magnitude != 0 && (magnitude < 1e-4 || magnitude >= 1e16)) return fmt::format("{}", value);
  std::string text = fmt::format("{}", value);
  if (text.find('e') != std::string::npos) text = fmt::format("{:.0f}", value);
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

std::string repr_of_text(const std::string& text) {
  const char quote = text.find('\'') != std::string::npos && text.find('"') == std::string::npos ? '"' : '\'';
  std::string result(1, quote);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n')
      result += "\\n";
    else if (c == '\r')
      result += "\\r";
    else if (c == '\t')
      result += "\\t";
    else if (c == '\\' || c == quote)
      result += {'\\', c};
    else if (byte < 32 || byte == 127)
      result += fmt::format("\\x{:02x}", byte);
    else
      result += c;
  }
  return result + quote;
}

std::string json_of_text(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '"':
        result += "\\\"";
        break;
      case '\\':
        result += "\\\\";
        break;
      case '\n':
        result += "\\n";
        break;
      case '\r':
        result += "\\r";
        break;
      case '\t':
        result += "\\t";
        break;
      case '\b':
        result += "\\b";
        break;
      case '\f':
        result += "\\f";
        break;
      default:
        result += byte < 32 ? fmt::format("\\u{:04x}", byte) : std::string(1, c);
    }
  }
  return result + '"';
}

}  // namespace

const Value* Dict::find(const std::string& key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : &entries_[found->second].second;
}

void Dict::set(const std::string& key, Value value) {
  const auto [at, is_new] = index_.emplace(key, entries_.size());
  if (is_new)
    entries_.emplace_back(key, std::move(value));
  else
    entries_[at->second].second = std::move(value);
}

const Value* Arguments::get(size_t position, const char* name) const {
  if (position < positional.size()) return &positional[position];
  for (const auto& [key, value] : keywords)
    if (key == name) return &value;
  return nullptr;
}

const int64_t* Value::integer(int64_t& room) const {
  if (const auto* whole = as<int64_t>()) return whole;
  if (const auto* truth = as<bool>()) return room = *truth, &room;
  return nullptr;
}

double Value::number() const {
  int64_t room = 0;
  if (const int64_t* whole = integer(room)) return static_cast<double>(*whole);
  return *as<double>();
}

bool Value::truthy() const {
  if (is_number()) return number() != 0;
  if (text()) return !text()->empty();
  if (sequence()) return !sequence()->items.empty();
  if (mapping()) return !mapping()->entries().empty();
  return !is_undefined() && !is_none();
}

std::string Value::kind() const {
  if (const auto* missing = as<Undefined>()) return "undefined '" + missing->name + "'";
  if (is_none()) return "None";
  if (as<bool>()) return "bool";
  if (as<int64_t>()) return "int";
  if (as<double>()) return "float";
  if (text()) return "string";
  if (sequence()) return sequence()->tuple ? "tuple" : "list";
  if (mapping()) return "dict";
  return name_space() ? "namespace" : "function";
}

std::string Value::str() const { return text() ? *text() : is_undefined() ? std::string() : repr(); }

std::string Value::repr(int depth) const {
  check_value_depth(depth);
  if (is_undefined()) return "Undefined";
  if (is_none()) return "None";
  if (const auto* truth = as<bool>()) return *truth ? "True" : "False";
  if (const auto* whole = as<int64_t>()) return std::to_string(*whole);
  if (const auto* real = as<double>()) return number_text(*real);
  if (text()) return repr_of_text(*text());
  std::string result;
  if (sequence()) {
    for (const Value& item : sequence()->items) result += (result.empty() ? "" : ", ") + item.repr(depth + 1);
    if (!sequence()->tuple) return "[" + result + "]";
    return "(" + result + (sequence()->items.size() == 1 ? ",)" : ")");
  }
  if (mapping()) {
    for (const auto& [key, value] : mapping()->entries())
      result += (result.empty() ? "" : ", ") + repr_of_text(key) + ": " + value.repr(depth + 1);
    return "{" + result + "}";
  }
  return "<" + kind() + ">";
}

std::string Value::json(int64_t indent, bool sort_keys, int depth) const {
  check_value_depth(depth);
  if (is_none()) return "null";
  if (const auto* truth = as<bool>()) return *truth ? "true" : "false";
  if (const auto* whole = as<int64_t>()) return std::to_string(*whole);
  if (const auto* real = as<double>())
    return std::isnan(*real)   ? "NaN"
           : std::isinf(*real) ? (*real > 0 ? "Infinity" : "-Infinity")
                               : number_text(*real);
  if (text()) return json_of_text(*text());
  std::vector<std::string> parts;
  if (sequence()) {
    for (const Value& item : sequence()->items) parts.push_back(item.json(indent, sort_keys, depth + 1));
  } else if (mapping()) {
    auto entries = mapping()->entries();
    if (sort_keys) std::ranges::sort(entries, [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [key, value] : entries)
      parts.push_back(json_of_text(key) + ": " + value.json(indent, sort_keys, depth + 1));
  } else {
    fail<Error>("[chat template] tojson cannot write {}", kind());
  }
  const char *open = sequence() ? "[" : "{", *close = sequence() ? "]" : "}";
  if (parts.empty()) return std::string(open) + close;
  const auto line = [&](int level) { return "\n" + std::string(static_cast<size_t>(indent * level), ' '); };
  std::string result = open;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) result += indent < 0 ? ", " : ",";
    if (indent >= 0) result += line(depth + 1);
    result += parts[i];
  }
  if (indent >= 0) result += line(depth);
  return result + close;
}

bool equal(const Value& a, const Value& b, int depth) {
  check_value_depth(depth);
  if (a.is_number() && b.is_number()) return a.number() == b.number();
  if (a.text() && b.text()) return *a.text() == *b.text();
  if (a.sequence() && b.sequence())
    return a.sequence()->tuple == b.sequence()->tuple &&
           std::ranges::equal(a.sequence()->items, b.sequence()->items,
                              [&](const Value& x, const Value& y) { return equal(x, y, depth + 1); });
  if (a.mapping() && b.mapping()) {
    if (a.mapping()->entries().size() != b.mapping()->entries().size()) return false;
    return std::ranges::all_of(a.mapping()->entries(), [&](const auto& entry) {
      const Value* other = b.mapping()->find(entry.first);
      return other && equal(entry.second, *other, depth + 1);
    });
  }
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

int compare(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return a.number() < b.number() ? -1 : a.number() > b.number();
  if (a.text() && b.text()) return a.text()->compare(*b.text());
  fail<Error>("[chat template] {} and {} have no order", a.kind(), b.kind());
}

}  // namespace luminal::text::jinja
