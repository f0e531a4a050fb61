// Filters, tests, methods and operators, as jinja2 and Python define them.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "base/fail.h"
#include "text/jinja/evaluator.h"
#include "text/unicode.h"

namespace luminal::text::jinja {
namespace {

using Strings = std::vector<std::string>;

[[noreturn]] void no_operation(std::string_view what, const Value& value) {
  fail<Error>("[chat template] {} does not take {}", what, value.kind());
}

const std::string& text_of(std::string_view what, const Value& value) {
  if (!value.text()) no_operation(what, value);
  return *value.text();
}

int64_t whole_of(std::string_view what, const Value& value) {
  int64_t room = 0;
  const int64_t* whole = value.integer(room);
  if (!whole) no_operation(what, value);
  return *whole;
}

Strings characters_of(std::string_view text) {
  Strings result;
  for (size_t at = 0; at < text.size();) {
    const size_t length = character_at(text, at).length;
    result.emplace_back(text.substr(at, length));
    at += length;
  }
  return result;
}

std::string strip(std::string_view text, const Value* set, bool left, bool right) {
  Strings characters = characters_of(text);
  const auto goes = [&](const std::string& character) {
    if (!set || set->is_none()) {
      const char32_t code = character_at(character, 0).code;
      return is_space(code) || (code >= 0x1C && code <= 0x1F);  // as Python's str.isspace
    }
    return text_of("strip", *set).find(character) != std::string::npos;
  };
  size_t begin = 0, end = characters.size();
  while (left && begin < end && goes(characters[begin])) ++begin;
  while (right && end > begin && goes(characters[end - 1])) --end;
  std::string result;
  for (; begin < end; ++begin) result += characters[begin];
  return result;
}

std::string replaced(const std::string& text, const std::string& what, const std::string& with, int64_t count,
                     Budget& budget) {
  std::string result;
  size_t at = 0;
  if (what.empty()) {
    for (const std::string& character : characters_of(text)) result += (count-- != 0 ? with : "") + character;
    return count != 0 ? result + with : result;
  }
  while (count-- != 0) {
    const size_t found = text.find(what, at);
    if (found == std::string::npos) break;
    result.append(text, at, found - at).append(with);
    budget.make_text(result.size());
    at = found + what.size();
  }
  return result.append(text, at);
}

Value split(const std::string& text, const Value* separator, int64_t most, bool from_right) {
  List parts;
  if (!separator || separator->is_none()) {
    std::string word;
    Strings characters = characters_of(text);
    size_t i = 0;
    const auto blank = [&] { return i < characters.size() && is_space(character_at(characters[i], 0).code); };
    while (true) {
      while (blank()) ++i;
      if (i == characters.size()) break;
      word.clear();
      if (most-- == 0) {
        for (; i < characters.size(); ++i) word += characters[i];
        parts.emplace_back(strip(word, nullptr, false, true));
        break;
      }
      for (; i < characters.size() && !blank(); ++i) word += characters[i];
      parts.emplace_back(word);
    }
    return Value::list(std::move(parts));
  }
  const std::string& between = text_of("split", *separator);
  if (between.empty()) fail<Error>("[chat template] split by an empty string");
  std::string_view rest = text;
  while (most-- != 0) {
    const size_t found = from_right ? rest.rfind(between) : rest.find(between);
    if (found == std::string_view::npos) break;
    const std::string_view before = rest.substr(0, found), after = rest.substr(found + between.size());
    parts.emplace_back(std::string(from_right ? after : before));
    rest = from_right ? before : after;
  }
  parts.emplace_back(std::string(rest));
  if (from_right) std::ranges::reverse(parts);
  return Value::list(std::move(parts));
}

std::string capitalized(const std::string& text) {
  if (text.empty()) return text;
  const size_t first = character_at(text, 0).length;
  return upper_case(text.substr(0, first)) + lower_case(text.substr(first));
}

std::string titled(const std::string& text, bool by_letters) {
  std::string result;
  bool inside = false;
  for (const std::string& character : characters_of(text)) {
    const char32_t code = character_at(character, 0).code;
    result += inside ? lower_case(character) : upper_case(character);
    // str.title begins a word after every other character, the filter after blanks, hyphens and brackets.
    inside = by_letters ? lower_case(character) != upper_case(character)
                        : !(is_space(code) || code == '-' || code == '(' || code == '{' || code == '[' ||
                            code == '<');
  }
  return result;
}

Value text_method(const std::string& text, const std::string& name, const Arguments& given, Budget& budget) {
  const auto argument = [&](size_t i, const char* key) -> const Value& {
    const Value* value = given.get(i, key);
    if (!value) fail<Error>("[chat template] string.{} lacks an argument", name);
    return *value;
  };
  const auto limit = [&](size_t i, const char* key) {
    const Value* value = given.get(i, key);
    return value ? whole_of(name, *value) : int64_t{-1};
  };
  const auto affix = [&](bool start) {
    const Value& wanted = argument(0, "prefix");
    const auto has = [&](const Value& one) {
      return start ? text.starts_with(text_of(name, one)) : text.ends_with(text_of(name, one));
    };
    return wanted.sequence() ? std::ranges::any_of(wanted.sequence()->items, has) : has(wanted);
  };
  budget.spend(1 + text.size() / 16);
  if (name == "strip") return strip(text, given.get(0, "chars"), true, true);
  if (name == "lstrip") return strip(text, given.get(0, "chars"), true, false);
  if (name == "rstrip") return strip(text, given.get(0, "chars"), false, true);
  if (name == "upper") return upper_case(text);
  if (name == "lower") return lower_case(text);
  if (name == "capitalize") return capitalized(text);
  if (name == "title") return titled(text, true);
  if (name == "startswith") return affix(true);
  if (name == "endswith") return affix(false);
  if (name == "split" || name == "rsplit")
    return split(text, given.get(0, "sep"), limit(1, "maxsplit"), name == "rsplit");
  if (name == "splitlines") {
    List lines;
    std::string_view rest = text;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      lines.emplace_back(std::string(rest.substr(0, end)));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return Value::list(std::move(lines));
  }
  if (name == "replace")
    return replaced(text, text_of(name, argument(0, "old")), text_of(name, argument(1, "new")),
                    limit(2, "count"), budget);
  if (name == "removeprefix" || name == "removesuffix") {
    const std::string& affix_text = text_of(name, argument(0, "prefix"));
    if (name == "removeprefix" && text.starts_with(affix_text)) return text.substr(affix_text.size());
    if (name == "removesuffix" && text.ends_with(affix_text))
      return text.substr(0, text.size() - affix_text.size());
    return text;
  }
  if (name == "find" || name == "rfind") {
    const std::string& what = text_of(name, argument(0, "sub"));
    const size_t at = name == "find" ? text.find(what) : text.rfind(what);
    return at == std::string::npos
               ? int64_t{-1}
               : static_cast<int64_t>(count_characters(std::string_view(text).substr(0, at)));
  }
  if (name == "count") {
    const std::string& what = text_of(name, argument(0, "sub"));
    int64_t count = 0;
    if (what.empty()) return static_cast<int64_t>(count_characters(text)) + 1;
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) ++count;
    return count;
  }
  if (name == "join") {
    std::string result;
    bool first = true;
    for (const Value& part : items_of(argument(0, "iterable"))) {
      if (!std::exchange(first, false)) result += text;
      result += text_of(name, part);
      budget.make_text(result.size());
    }
    return result;
  }
  const auto every = [&](const auto& holds) {
    return !text.empty() && std::ranges::all_of(text, [&](unsigned char c) { return holds(c) != 0; });
  };
  if (name == "isdigit") return every([](int c) { return std::isdigit(c); });
  if (name == "isalpha") return every([](int c) { return std::isalpha(c); });
  if (name == "isalnum") return every([](int c) { return std::isalnum(c); });
  if (name == "isspace") return every([](int c) { return std::isspace(c); });
  return Value::undefined(name);
}

bool is_text_method(const std::string& name) {
  constexpr std::string_view kNames =
      " strip lstrip rstrip upper lower capitalize title startswith endswith split rsplit splitlines replace "
      "removeprefix removesuffix find rfind count join isdigit isalpha isalnum isspace ";
  return kNames.find(" " + name + " ") != std::string_view::npos;
}

Value dict_method(const Value& value, const std::string& name) {
  const Dict& dict = *value.mapping();
  if (name == "get")
    return Value::function([value](const Arguments& given) {
      if (given.positional.empty()) fail<Error>("[chat template] dict.get takes a key");
      const Value* found = value.mapping()->find(given.positional[0].str());
      const Value* other = given.get(1, "default");
      return found ? *found : other ? *other : Value(None{});
    });
  if (name != "items" && name != "keys" && name != "values") return Value::undefined(name);
  List list;
  for (const auto& [key, entry] : dict.entries())
    list.push_back(name == "keys"     ? Value(key)
                   : name == "values" ? entry
                                      : Value::list({Value(key), entry}, true));
  return Value::function([made = Value::list(std::move(list))](const Arguments&) { return made; });
}

/// What sorting and selecting look at: an attribute by its dotted name, or the value itself.
Value looked_at(const Value& value, const Value* name, Budget& budget) {
  if (!name || name->is_none()) return value;
  if (!name->text()) return item(value, *name, budget);
  Value result = value;
  const std::string& path = *name->text();
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    result = item(result, Value(path.substr(begin, end - begin)), budget);
    begin = end + 1;
  }
  return result;
}

bool is_true(const Value* value) { return value && value->truthy(); }

Value sorted(const Value& value, const Arguments& given, Budget& budget, bool dictionary) {
  List list = items_of(dictionary ? (*dict_method(value, "items").callable())({}) : value);
  const Value* by = dictionary ? nullptr : given.get(2, "attribute");
  const bool case_sensitive = is_true(given.get(dictionary ? 0 : 1, "case_sensitive"));
  const bool backwards = is_true(given.get(dictionary ? 2 : 0, "reverse"));
  std::vector<std::pair<Value, Value>> keyed;
  budget.spend(list.size() * 16);
  for (Value& entry : list) {
    Value key = dictionary ? entry.sequence()->items[0] : looked_at(entry, by, budget);
    if (key.text() && !case_sensitive) key = lower_case(*key.text());
    keyed.emplace_back(std::move(key), std::move(entry));
  }
  // Not std::sort: values without an order throw in the midst of it.
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return backwards ? compare(b.first, a.first) < 0 : compare(a.first, b.first) < 0;
  });
  List result;
  for (auto& [key, entry] : keyed) result.push_back(std::move(entry));
  return Value::list(std::move(result));
}

Value selected(const std::string& name, const Value& value, const Arguments& given, Budget& budget) {
  const bool by_attribute = name.ends_with("attr"), rejects = name.starts_with("reject");
  Arguments rest;
  const size_t skip = by_attribute ? 2 : 1;
  for (size_t i = skip; i < given.positional.size(); ++i) rest.positional.push_back(given.positional[i]);
  if (by_attribute && given.positional.empty()) fail<Error>("[chat template] {} takes an attribute", name);
  List result;
  for (const Value& entry : items_of(value)) {
    budget.spend(1);
    const Value seen = by_attribute ? looked_at(entry, given.positional.data(), budget) : entry;
    const bool holds =
        given.positional.size() >= skip ? test(given.positional[skip - 1].str(), seen, rest) : seen.truthy();
    if (holds != rejects) result.push_back(entry);
  }
  return Value::list(std::move(result));
}

Value mapped(const Value& value, const Arguments& given, Budget& budget) {
  List result;
  const Value* attribute_name = given.get(99, "attribute");
  const Value* otherwise = given.get(99, "default");
  Arguments rest;
  for (size_t i = 1; i < given.positional.size(); ++i) rest.positional.push_back(given.positional[i]);
  if (!attribute_name && given.positional.empty())
    fail<Error>("[chat template] map takes a filter or an attribute");
  for (const Value& entry : items_of(value)) {
    Value made = attribute_name ? looked_at(entry, attribute_name, budget)
                                : filter(given.positional[0].str(), entry, rest, budget);
    if (otherwise && made.is_undefined()) made = *otherwise;
    result.push_back(std::move(made));
  }
  return Value::list(std::move(result));
}

Value as_integer(const Value& value, const Value& otherwise) {
  if (value.is_number()) {
    const double number = value.number();
    int64_t room = 0;
    if (const int64_t* whole = value.integer(room)) return *whole;
    return std::abs(number) < 9e18 ? Value(static_cast<int64_t>(number)) : otherwise;
  }
  if (!value.text()) return otherwise;
  const std::string text = strip(*value.text(), nullptr, true, true);
  int64_t whole = 0;
  double real = 0;
  const char *begin = text.data() + (text.starts_with('+') ? 1 : 0), *end = text.data() + text.size();
  if (auto [at, error] = std::from_chars(begin, end, whole); error == std::errc() && at == end) return whole;
  if (auto [at, error] = std::from_chars(begin, end, real);
      error == std::errc() && at == end && std::abs(real) < 9e18)
    return static_cast<int64_t>(real);
  return otherwise;
}

Value as_float(const Value& value, const Value& otherwise) {
  if (value.is_number()) return value.number();
  if (!value.text()) return otherwise;
  const std::string text = strip(*value.text(), nullptr, true, true);
  double real = 0;
  const char *begin = text.data() + (text.starts_with('+') ? 1 : 0), *end = text.data() + text.size();
  const auto [at, error] = std::from_chars(begin, end, real);
  return error == std::errc() && at == end ? Value(real) : otherwise;
}

std::string indented(const std::string& text, const Arguments& given, Budget& budget) {
  const Value* width = given.get(0, "width");
  const int64_t blanks = !width || width->text() ? 4 : whole_of("indent", *width);
  if (blanks < 0 || blanks > 1000) fail<Error>("[chat template] indent by {} blanks", blanks);
  const std::string margin =
      width && width->text() ? *width->text() : std::string(static_cast<size_t>(blanks), ' ');
  const bool first = is_true(given.get(1, "first")), empty_too = is_true(given.get(2, "blank"));
  std::string result = first ? margin : "";
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (begin > 0) result += '\n';
    if (begin > 0 && (end > begin || empty_too)) result += margin;
    result.append(text, begin, end - begin);
    budget.make_text(result.size());
    begin = end + 1;
  }
  return result;
}

int64_t length_of(const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.text()) return static_cast<int64_t>(count_characters(*value.text()));
  if (value.sequence()) return static_cast<int64_t>(value.sequence()->items.size());
  if (value.mapping()) return static_cast<int64_t>(value.mapping()->entries().size());
  no_operation("length", value);
}

std::string html_escaped(const std::string& text) {
  std::string result;
  for (const char c : text)
    result += c == '&'    ? "&amp;"
              : c == '<'  ? "&lt;"
              : c == '>'  ? "&gt;"
              : c == '"'  ? "&#34;"
              : c == '\'' ? "&#39;"
                          : std::string(1, c);
  return result;
}

std::string joined(const Value& value, const Arguments& given, Budget& budget) {
  const Value* between = given.get(0, "d");
  std::string result;
  bool first = true;
  for (const Value& entry : items_of(value)) {
    if (!std::exchange(first, false) && between) result += between->str();
    result += looked_at(entry, given.get(1, "attribute"), budget).str();
    budget.make_text(result.size());
  }
  return result;
}

Value extreme(const std::string& name, const Value& value, const Arguments& given, Budget& budget) {
  const List list = items_of(value);
  if (list.empty()) return Value::undefined(name);
  const Value* by = given.get(1, "attribute");
  const Value* best = list.data();
  for (const Value& entry : list) {
    const int order = compare(looked_at(entry, by, budget), looked_at(*best, by, budget));
    if (name == "min" ? order < 0 : order > 0) best = &entry;
  }
  return *best;
}

}  // namespace

List items_of(const Value& value) {
  if (value.is_undefined()) return {};
  if (value.sequence()) return value.sequence()->items;
  List list;
  if (value.mapping()) {
    for (const auto& entry : value.mapping()->entries()) list.emplace_back(entry.first);
    return list;
  }
  if (!value.text()) no_operation("a loop", value);
  for (std::string& character : characters_of(*value.text())) list.emplace_back(std::move(character));
  return list;
}

bool contains(const Value& container, const Value& wanted) {
  if (container.text()) return container.text()->find(text_of("in a string", wanted)) != std::string::npos;
  if (container.mapping()) return wanted.text() && container.mapping()->find(*wanted.text());
  if (container.is_undefined()) return false;
  if (!container.sequence()) no_operation("in", container);
  return std::ranges::any_of(container.sequence()->items,
                             [&](const Value& value) { return equal(value, wanted); });
}

Value binary(const std::string& op, const Value& a, const Value& b, Budget& budget) {
  if (op == "~") {
    std::string text = a.str() + b.str();
    budget.make_text(text.size());
    budget.spend(text.size() / 16);
    return text;
  }
  if (op == "+" && a.text() && b.text()) return binary("~", a, b, budget);
  if (op == "+" && a.sequence() && b.sequence()) {
    List list = a.sequence()->items;
    list.insert(list.end(), b.sequence()->items.begin(), b.sequence()->items.end());
    budget.spend(list.size());
    return Value::list(std::move(list), a.sequence()->tuple);
  }
  int64_t room_a = 0, room_b = 0;
  const int64_t *x = a.integer(room_a), *y = b.integer(room_b);
  if (op == "*" && (a.text() || b.text()) && (x || y)) {
    const std::string& text = a.text() ? *a.text() : *b.text();
    const auto count = static_cast<size_t>(std::max<int64_t>(0, x ? *x : *y));
    if (!text.empty()) {
      budget.make_text(count > (size_t{1} << 40) / text.size() ? size_t{1} << 40 : count * text.size());
      budget.spend(count * text.size() / 16);
    }
    std::string result;
    for (size_t i = 0; i < count && !text.empty(); ++i) result += text;
    return result;
  }
  if (!a.is_number() || !b.is_number())
    fail<Error>("[chat template] {} {} {} is not defined", a.kind(), op, b.kind());
  const double u = a.number(), v = b.number();
  if ((op == "/" || op == "//" || op == "%") && v == 0) fail<Error>("[chat template] division by zero");
  if (op == "/") return u / v;
  if (x && y && op != "**") {
    int64_t result = 0;
    bool overflow = false;
    if (op == "+")
      overflow = __builtin_add_overflow(*x, *y, &result);
    else if (op == "-")
      overflow = __builtin_sub_overflow(*x, *y, &result);
    else if (op == "*")
      overflow = __builtin_mul_overflow(*x, *y, &result);
    else if (*y == -1)
      overflow = op == "//" && __builtin_sub_overflow(int64_t{0}, *x, &result);
    else if (op == "//")
      result = *x / *y - ((*x % *y != 0) && ((*x < 0) != (*y < 0)));
    else
      result = *x % *y + ((*x % *y != 0) && ((*x < 0) != (*y < 0)) ? *y : 0);
    if (overflow) fail<Error>("[chat template] {} {} {} is out of range", *x, op, *y);
    return result;
  }
  if (op == "+") return u + v;
  if (op == "-") return u - v;
  if (op == "*") return u * v;
  if (op == "//") return std::floor(u / v);
  if (op == "%") return u - v * std::floor(u / v);
  const double power = std::pow(u, v);
  if (x && y && *y >= 0) {
    if (std::abs(power) > 9e15) fail<Error>("[chat template] {} ** {} is out of range", *x, *y);
    return static_cast<int64_t>(power);
  }
  return power;
}

Value slice(const Value& value, const Value& from, const Value& to, const Value& by) {
  if (!value.text() && !value.sequence()) no_operation("a slice", value);
  const List items = items_of(value);
  const auto count = static_cast<int64_t>(items.size());
  const int64_t step = by.is_none() ? 1 : whole_of("a slice", by);
  if (step == 0) fail<Error>("[chat template] the step of a slice is 0");
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? count : count - 1;
  const auto bound = [&](const Value& given, int64_t missing) {
    if (given.is_none()) return missing;
    const int64_t at = whole_of("a slice", given);
    return std::clamp(at < 0 ? std::max(at, -count - 1) + count : at, low, high);
  };
  const int64_t begin = bound(from, step > 0 ? low : high), end = bound(to, step > 0 ? high : low);
  List list;
  for (int64_t i = begin; step > 0 ? i < end : i > end;) {
    list.push_back(items[static_cast<size_t>(i)]);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  if (value.sequence()) return Value::list(std::move(list), value.sequence()->tuple);
  std::string text;
  for (const Value& character : list) text += *character.text();
  return text;
}

Value attribute(const Value& value, const std::string& name, Budget& budget) {
  if (value.is_undefined()) fail<Error>("[chat template] {} has no attribute '{}'", value.kind(), name);
  if (value.name_space()) {
    const Value* found = value.name_space()->values.find(name);
    return found ? *found : Value::undefined(name);
  }
  if (value.text() && is_text_method(name))
    return Value::function([text = *value.text(), name, &budget](const Arguments& given) {
      return text_method(text, name, given, budget);
    });
  if (!value.mapping()) return Value::undefined(name);
  if (Value method = dict_method(value, name); !method.is_undefined()) return method;
  const Value* found = value.mapping()->find(name);
  return found ? *found : Value::undefined(name);
}

Value item(const Value& value, const Value& key, Budget& budget) {
  if (value.is_undefined()) fail<Error>("[chat template] {} has no item {}", value.kind(), key.repr());
  int64_t room = 0;
  const int64_t* index = key.integer(room);
  if (index && (value.sequence() || value.text())) {
    const List items = value.sequence() ? List() : items_of(value);
    const List& list = value.sequence() ? value.sequence()->items : items;
    const auto count = static_cast<int64_t>(list.size());
    const int64_t at = *index < 0 ? *index + count : *index;
    return at >= 0 && at < count ? list[static_cast<size_t>(at)] : Value::undefined(key.repr());
  }
  if (value.mapping())
    if (const Value* found = value.mapping()->find(key.str())) return *found;
  return key.text() ? attribute(value, *key.text(), budget) : Value::undefined(key.repr());
}

Value filter(const std::string& name, const Value& value, const Arguments& given, Budget& budget) {
  budget.spend(1 + (value.text() ? value.text()->size() / 16 : 0));
  if (name == "default" || name == "d") {
    const Value* otherwise = given.get(0, "default_value");
    const bool replace = value.is_undefined() || (is_true(given.get(1, "boolean")) && !value.truthy());
    return replace ? (otherwise ? *otherwise : Value("")) : value;
  }
  if (name == "tojson") {
    if (value.is_undefined()) no_operation("tojson", value);
    const Value* indent = given.get(99, "indent");
    const Value* spaces = indent ? indent : given.get(1, "indent");
    const int64_t width = !spaces || spaces->is_none() ? -1 : whole_of("tojson", *spaces);
    if (width > 100) fail<Error>("[chat template] tojson indents by {} blanks", width);
    std::string text = value.json(width, is_true(given.get(99, "sort_keys")));
    budget.make_text(text.size());
    budget.spend(text.size() / 16);
    return text;
  }
  if (name == "length" || name == "count") return length_of(value);
  if (name == "trim") return strip(value.str(), given.get(0, "chars"), true, true);
  if (name == "upper") return upper_case(value.str());
  if (name == "lower") return lower_case(value.str());
  if (name == "capitalize") return capitalized(value.str());
  if (name == "title") return titled(value.str(), false);
  if (name == "string") return value.str();
  if (name == "safe") return value;
  if (name == "escape" || name == "e") return html_escaped(value.str());
  if (name == "replace") {
    if (given.positional.size() < 2) fail<Error>("[chat template] replace takes two texts");
    const Value* count = given.get(2, "count");
    return replaced(value.str(), given.positional[0].str(), given.positional[1].str(),
                    count && !count->is_none() ? whole_of(name, *count) : -1, budget);
  }
  if (name == "int")
    return as_integer(value, given.get(0, "default") ? *given.get(0, "default") : Value(int64_t{0}));
  if (name == "float")
    return as_float(value, given.get(0, "default") ? *given.get(0, "default") : Value(0.0));
  if (name == "abs")
    return value.is_number() && value.number() < 0 ? binary("-", int64_t{0}, value, budget) : value;
  if (name == "join") return joined(value, given, budget);
  if (name == "indent") return indented(value.str(), given, budget);
  if (name == "items")
    return value.is_undefined() ? Value::list({}) : [&] {
      if (!value.mapping()) no_operation("items", value);
      return (*dict_method(value, "items").callable())({});
    }();
  if (name == "dictsort") {
    if (!value.mapping()) no_operation("dictsort", value);
    return sorted(value, given, budget, true);
  }
  if (name == "sort") return sorted(value, given, budget, false);
  if (name == "map") return mapped(value, given, budget);
  if (name == "select" || name == "reject" || name == "selectattr" || name == "rejectattr")
    return selected(name, value, given, budget);
  if (name == "min" || name == "max") return extreme(name, value, given, budget);
  if (name == "round") {
    const Value* digits = given.get(0, "precision");
    const double scale = std::pow(10.0, digits ? static_cast<double>(whole_of(name, *digits)) : 0.0);
    return std::nearbyint(as_float(value, Value(0.0)).number() * scale) / scale;
  }
  List list;
  if (name == "list" || name == "first" || name == "last" || name == "reverse" || name == "unique" ||
      name == "sum")
    list = items_of(value);
  else
    fail<Error>("[chat template] the filter '{}' is not known", name);
  budget.spend(list.size());
  if (name == "first") return list.empty() ? Value::undefined("first") : list.front();
  if (name == "last") return list.empty() ? Value::undefined("last") : list.back();
  if (name == "reverse") {
    std::ranges::reverse(list);
    if (!value.text()) return Value::list(std::move(list));
    std::string text;
    for (const Value& character : list) text += *character.text();
    return text;
  }
  if (name == "unique") {
    List kept;
    for (Value& entry : list) {
      budget.spend(kept.size());
      const auto same = [&](const Value& other) {
        return entry.text() && other.text() ? lower_case(*entry.text()) == lower_case(*other.text())
                                            : equal(entry, other);
      };
      if (std::ranges::none_of(kept, same)) kept.push_back(std::move(entry));
    }
    return Value::list(std::move(kept));
  }
  if (name == "sum") {
    Value total(int64_t{0});
    for (const Value& entry : list)
      total = binary("+", total, looked_at(entry, given.get(0, "attribute"), budget), budget);
    return total;
  }
  return Value::list(std::move(list));
}

bool test(const std::string& name, const Value& value, const Arguments& given) {
  const auto other = [&]() -> const Value& {
    if (given.positional.empty()) fail<Error>("[chat template] the test '{}' takes an argument", name);
    return given.positional[0];
  };
  if (name == "defined") return !value.is_undefined();
  if (name == "undefined") return value.is_undefined();
  if (name == "none") return value.is_none();
  if (name == "string") return value.text() != nullptr;
  if (name == "boolean") return value.as<bool>() != nullptr;
  if (name == "true" || name == "false") return value.as<bool>() && *value.as<bool>() == (name == "true");
  if (name == "number") return value.is_number();
  if (name == "integer") return value.as<int64_t>() != nullptr;
  if (name == "float") return value.as<double>() != nullptr;
  if (name == "mapping") return value.mapping() != nullptr;
  if (name == "sequence" || name == "iterable")
    return value.text() || value.sequence() || value.mapping() || value.is_undefined();
  if (name == "callable") return value.callable() != nullptr;
  if (name == "odd" || name == "even") return (whole_of(name, value) % 2 != 0) == (name == "odd");
  if (name == "divisibleby") {
    const int64_t divisor = whole_of(name, other());
    if (divisor == 0) fail<Error>("[chat template] division by zero");
    return divisor == -1 || whole_of(name, value) % divisor == 0;
  }
  if (name == "eq" || name == "equalto" || name == "==" || name == "sameas") {
    const bool same_kind = name != "sameas" || value.kind() == other().kind();
    return same_kind && equal(value, other());
  }
  if (name == "ne" || name == "!=") return !equal(value, other());
  if (name == "lt" || name == "lessthan" || name == "<") return compare(value, other()) < 0;
  if (name == "le" || name == "<=") return compare(value, other()) <= 0;
  if (name == "gt" || name == "greaterthan" || name == ">") return compare(value, other()) > 0;
  if (name == "ge" || name == ">=") return compare(value, other()) >= 0;
  if (name == "in") return contains(other(), value);
  if (name == "lower")
    return value.str() == lower_case(value.str()) && value.str() != upper_case(value.str());
  if (name == "upper")
    return value.str() == upper_case(value.str()) && value.str() != lower_case(value.str());
  fail<Error>("[chat template] the test '{}' is not known", name);
}

}  // namespace luminal::text::jinja
