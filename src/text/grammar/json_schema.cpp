// Which keywords mean what: JSON Schema, draft 2020-12. The choices that it leaves to writers (order of properties,
// nothing beside them) are llama.cpp's, common/json-schema-to-grammar.cpp.
#include "luminal/text/json_schema.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "base/bounded_json.h"
#include "base/fail.h"
#include "text/grammar/integer_range.h"
#include "text/grammar/json_pattern.h"
#include "text/unicode.h"

namespace luminal::text {
namespace {

using Schema = nlohmann::ordered_json;

constexpr std::string_view kSpaceRule = "ws";

/// Rules that others use, with those that they use themselves.
struct SharedRule {
  std::string_view name, body, uses;
};
constexpr std::array kSharedRules{
    SharedRule{"ws", R"(( " " | "\n" [ \t]{0,20} )?)", ""},
    SharedRule{"char", R"([^"\\\x00-\x1F\x7F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}))", ""},
    SharedRule{"string", R"("\"" char* "\"")", "char"},
    SharedRule{"integer", R"("-"? ("0" | [1-9] [0-9]{0,15}))", ""},
    SharedRule{"number", R"(integer ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,3})?)", "integer"},
    SharedRule{"boolean", R"("true" | "false")", ""},
    SharedRule{"null", R"("null")", ""},
    SharedRule{"value", "object | array | string | number | boolean | null",
               "object array string number boolean null"},
    SharedRule{"object", R"("{" ws (string ws ":" ws value ws ("," ws string ws ":" ws value ws)*)? "}")",
               "ws string value"},
    SharedRule{"array", R"("[" ws (value ws ("," ws value ws)*)? "]")", "ws value"},
    SharedRule{"date", R"([0-9]{4} "-" ("0" [1-9] | "1" [0-2]) "-" ("0" [1-9] | [12] [0-9] | "3" [01]))", ""},
    SharedRule{
        "time",
        R"(([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9] ":" [0-5] [0-9] ("." [0-9]{3})? ("Z" | [-+] ([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9]))",
        ""},
    SharedRule{"date-time", R"(date "T" time)", "date time"},
    SharedRule{
        "uuid",
        R"([0-9a-fA-F]{8} "-" [0-9a-fA-F]{4} "-" [0-9a-fA-F]{4} "-" [0-9a-fA-F]{4} "-" [0-9a-fA-F]{12})", ""},
};

/// Keywords that constrain values and that this does not know: a grammar without them would allow what they forbid.
constexpr std::array<const char*, 17> kRefused{"not",
                                               "if",
                                               "then",
                                               "else",
                                               "dependentSchemas",
                                               "dependentRequired",
                                               "patternProperties",
                                               "propertyNames",
                                               "minProperties",
                                               "maxProperties",
                                               "unevaluatedProperties",
                                               "unevaluatedItems",
                                               "contains",
                                               "uniqueItems",
                                               "multipleOf",
                                               "$dynamicRef",
                                               "contentSchema"};

class SchemaGrammar {
 public:
  explicit SchemaGrammar(const Schema& root) : root_(root) {}

  std::string grammar() {
    const std::string body = term(root_, "#");
    std::string text = fmt::format("root ::= {} {}\n", body, shared(kSpaceRule));
    for (const auto& [name, rule] : rules_) text += fmt::format("{} ::= {}\n", name, rule);
    return text;
  }

 private:
  [[noreturn]] static void wrong(const std::string& where, std::string_view what) {
    fail<FormatError>("[json schema] {}: {}", where, what);
  }

  std::string shared(std::string_view name) {
    const auto* rule = std::ranges::find(kSharedRules, name, &SharedRule::name);
    LUMINAL_CHECK(rule != kSharedRules.end(), "no rule '{}'", name);
    if (rules_.emplace(name, rule->body).second)
      for (std::string_view rest = rule->uses; !rest.empty();) {
        const size_t end = std::min(rest.find(' '), rest.size());
        (void)shared(rest.substr(0, end));
        rest.remove_prefix(std::min(end + 1, rest.size()));
      }
    return std::string(name);
  }

  /// A new rule's name, by the place in the schema. Shared rules have no capital letter.
  std::string add_rule(const std::string& where, const std::string& body) {
    std::string name = "S-";
    for (const char c : where)
      if (std::isalnum(static_cast<unsigned char>(c)) != 0)
        name += c;
      else if (name.back() != '-')
        name += '-';
    std::string unique = name;
    for (int i = 2; rules_.contains(unique); ++i) unique = fmt::format("{}-{}", name, i);
    rules_[unique] = body;
    return unique;
  }

  /// What a schema allows, as an expression that may be repeated.
  std::string term(const Schema& schema, const std::string& where) {
    if (schema.is_boolean()) {
      if (!schema.get<bool>()) wrong(where, "nothing is allowed here, so no text would fit");
      return shared("value");
    }
    if (!schema.is_object()) wrong(where, "a schema is an object, true or false");
    for (const char* keyword : kRefused)
      if (schema.contains(keyword) && schema[keyword] != Schema(false))
        wrong(where, fmt::format("'{}' cannot be said in a grammar; leave it out", keyword));
    if (const auto found = schema.find("$ref"); found != schema.end()) {
      refuse_beside(schema, "$ref", where);
      return reference(*found, where);
    }
    if (const auto found = schema.find("const"); found != schema.end()) return gbnf_literal(found->dump());
    if (const auto found = schema.find("enum"); found != schema.end()) return enumeration(*found, where);
    for (const char* keyword : {"anyOf", "oneOf"})
      if (schema.contains(keyword)) return alternatives(schema, keyword, where);
    if (schema.contains("allOf")) return term(merged(schema, where), where);
    return typed(schema, where);
  }

  /// What constrains values beside `keyword`, whose parts are taken as they are.
  static void refuse_beside(const Schema& schema, std::string_view keyword, const std::string& where) {
    constexpr std::array<const char*, 19> kKeywords{"type",
                                                    "properties",
                                                    "required",
                                                    "additionalProperties",
                                                    "items",
                                                    "prefixItems",
                                                    "minItems",
                                                    "maxItems",
                                                    "minLength",
                                                    "maxLength",
                                                    "pattern",
                                                    "format",
                                                    "minimum",
                                                    "maximum",
                                                    "exclusiveMinimum",
                                                    "exclusiveMaximum",
                                                    "anyOf",
                                                    "oneOf",
                                                    "allOf"};
    for (const char* other : kKeywords)
      if (keyword != other && schema.contains(other))
        wrong(where,
              fmt::format("'{}' beside '{}' is not read; put it into what that names", other, keyword));
  }

  std::string reference(const Schema& to, const std::string& where) {
    if (!to.is_string() || !to.get<std::string>().starts_with("#"))
      wrong(where, fmt::format("$ref {} leads out of the schema", to.dump()));
    const auto target = to.get<std::string>();
    if (const auto known = references_.find(target); known != references_.end()) return known->second;
    const std::string name = add_rule(target, "");
    references_[target] = name;
    rules_[name] = term(resolved(target, where), target);
    return name;
  }

  [[nodiscard]] const Schema& resolved(const std::string& target, const std::string& where) const {
    try {
      const Schema& found = root_.at(Schema::json_pointer(target.substr(1)));
      return found;
    } catch (const Schema::exception&) {
      wrong(where, fmt::format("$ref '{}' leads nowhere", target));
    }
  }

  std::string enumeration(const Schema& values, const std::string& where) {
    if (!values.is_array() || values.empty()) wrong(where, "enum is a list of at least one value");
    std::vector<std::string> parts;
    for (const Schema& value : values) parts.push_back(gbnf_literal(value.dump()));
    return fmt::format("({})", fmt::join(parts, " | "));
  }

  std::string alternatives(const Schema& schema, const std::string& keyword, const std::string& where) {
    refuse_beside(schema, keyword, where);
    const Schema& parts = schema.at(keyword);
    if (!parts.is_array() || parts.empty())
      wrong(where, fmt::format("'{}' is a list of at least one schema", keyword));
    std::vector<std::string> terms;
    for (size_t i = 0; i < parts.size(); ++i)
      terms.push_back(term(parts[i], fmt::format("{}/{}/{}", where, keyword, i)));
    return fmt::format("({})", fmt::join(terms, " | "));
  }

  /// One schema of objects for all parts of allOf, and what stands beside it.
  Schema merged(const Schema& schema, const std::string& where) {
    Schema result = schema;
    result.erase("allOf");
    const Schema& parts = schema.at("allOf");
    if (!parts.is_array() || parts.empty()) wrong(where, "'allOf' is a list of at least one schema");
    std::set<std::string> seen;
    for (Schema part : parts) {
      while (part.is_object() && part.contains("$ref")) {
        const auto target = part["$ref"].get<std::string>();
        if (!seen.insert(target).second) wrong(where, fmt::format("$ref '{}' leads to itself", target));
        part = resolved(target, where);
      }
      if (part.is_object() && part.contains("allOf")) part = merged(part, where);
      if (!part.is_object()) wrong(where, "a part of 'allOf' is no object");
      for (const auto& [key, value] : part.items()) {
        if (key == "properties")
          for (const auto& [name, property] : value.items()) result["properties"][name] = property;
        else if (key == "required")
          for (const Schema& name : value) result["required"].push_back(name);
        else if (!result.contains(key))
          result[key] = value;
        else if (result[key] != value && key != "title" && key != "description")
          wrong(where, fmt::format("parts of 'allOf' differ in '{}', which is not read", key));
      }
    }
    return result;
  }

  std::string typed(const Schema& schema, const std::string& where) {
    const auto found = schema.find("type");
    if (found != schema.end() && found->is_array()) {
      std::vector<std::string> terms;
      for (const Schema& type : *found) {
        Schema one = schema;
        one["type"] = type;
        terms.push_back(typed(one, where));
      }
      if (terms.empty()) wrong(where, "'type' is an empty list");
      return fmt::format("({})", fmt::join(terms, " | "));
    }
    const std::string type =
        found != schema.end() ? found->is_string() ? found->get<std::string>() : "?" : implied(schema);
    if (type.empty()) return shared("value");
    if (type == "null" || type == "boolean") return shared(type);
    if (type == "number") return number(schema, where);
    if (type == "integer") return integer(schema, where);
    if (type == "string") return string(schema, where);
    if (type == "array") return array(schema, where);
    if (type == "object") return object(schema, where);
    wrong(where,
          fmt::format("'type' is {}, and must be null, boolean, number, integer, string, array or object",
                      found->dump()));
  }

  /// The type of a schema that does not state it, by what it says of values.
  static std::string implied(const Schema& schema) {
    const auto has = [&](std::initializer_list<const char*> keys) {
      return std::ranges::any_of(keys, [&](const char* key) { return schema.contains(key); });
    };
    if (has({"properties", "required", "additionalProperties"})) return "object";
    if (has({"items", "prefixItems", "minItems", "maxItems"})) return "array";
    if (has({"pattern", "minLength", "maxLength"})) return "string";
    if (has({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})) return "number";
    return "";
  }

  std::string number(const Schema& schema, const std::string& where) {
    for (const char* bound : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
      if (schema.contains(bound))
        wrong(where, fmt::format("'{}' of numbers that are not integers cannot be said in a grammar", bound));
    return shared("number");
  }

  static std::optional<int64_t> bound(const Schema& schema, const char* keyword, bool up,
                                      const std::string& where) {
    const auto found = schema.find(keyword);
    if (found == schema.end()) return std::nullopt;
    if (!found->is_number()) wrong(where, fmt::format("'{}' is no number", keyword));
    const double value = found->get<double>();
    constexpr double kMost = 9e15;  // whole numbers of double
    return static_cast<int64_t>(std::clamp(up ? std::ceil(value) : std::floor(value), -kMost, kMost));
  }

  std::string integer(const Schema& schema, const std::string& where) {
    auto least = bound(schema, "minimum", true, where), most = bound(schema, "maximum", false, where);
    if (const auto above = bound(schema, "exclusiveMinimum", false, where))
      least = std::max(least.value_or(*above + 1), *above + 1);
    if (const auto below = bound(schema, "exclusiveMaximum", true, where))
      most = std::min(most.value_or(*below - 1), *below - 1);
    if (!least && !most) return shared("integer");
    return gbnf_integer_range(least, most, fmt::format("[json schema] {}", where));
  }

  /// "{2,5}" of two keywords; `unbounded` if neither is there.
  static std::string repeated(const Schema& schema, const char* least, const char* most, size_t done,
                              const std::string& where) {
    constexpr size_t kMost = 10'000;
    const auto count = [&](const char* keyword) -> std::optional<size_t> {
      const auto found = schema.find(keyword);
      if (found == schema.end()) return std::nullopt;
      if (!found->is_number_unsigned() || found->get<uint64_t>() > kMost)
        wrong(where,
              fmt::format("'{}' is {}, and must be a whole number up to {}", keyword, found->dump(), kMost));
      return found->get<size_t>();
    };
    const size_t from = count(least).value_or(0);
    const auto to = count(most);
    if (to && *to < std::max(from, done))
      wrong(where, fmt::format("'{}' is {}, less than what must be there", most, *to));
    const size_t left = from > done ? from - done : 0;
    if (!to) return left == 0 ? "*" : fmt::format("{{{},}}", left);
    return fmt::format("{{{},{}}}", left, *to - done);
  }

  std::string string(const Schema& schema, const std::string& where) {
    if (const auto found = schema.find("pattern"); found != schema.end()) {
      if (!found->is_string()) wrong(where, "'pattern' is no text");
      for (const char* other : {"minLength", "maxLength"})
        if (schema.contains(other)) wrong(where, fmt::format("'{}' beside 'pattern' is not read", other));
      return add_rule(
          where, "\"\\\"\" " +
                     gbnf_json_pattern(found->get<std::string>(), fmt::format("[json schema] {}", where)) +
                     " \"\\\"\"");
    }
    if (const auto found = schema.find("format"); found != schema.end() && found->is_string())
      for (const char* known : {"date", "time", "date-time", "uuid"})
        if (*found == known) return fmt::format("(\"\\\"\" {} \"\\\"\")", shared(known));
    if (!schema.contains("minLength") && !schema.contains("maxLength")) return shared("string");
    return fmt::format("(\"\\\"\" {}{} \"\\\"\")", shared("char"),
                       repeated(schema, "minLength", "maxLength", 0, where));
  }

  /// A list of terms with commas between.
  std::string array(const Schema& schema, const std::string& where) {
    const std::string ws = shared(kSpaceRule);
    Schema first = schema.value("prefixItems", Schema::array());
    Schema rest = schema.contains("items") ? schema["items"] : Schema(!schema.contains("prefixItems"));
    if (rest.is_array()) {  // as older drafts had it
      first = rest;
      rest = schema.value("additionalItems", Schema(false));
    }
    if (!first.is_array()) wrong(where, "'prefixItems' is no list");
    std::string items;
    for (size_t i = 0; i < first.size(); ++i)
      items += fmt::format("{}{} {} ", i == 0 ? "" : "\",\" " + ws + " ",
                           term(first[i], fmt::format("{}/prefixItems/{}", where, i)), ws);
    const bool closed = rest.is_boolean() && !rest.get<bool>();
    const std::string count = repeated(schema, "minItems", "maxItems", first.size(), where);
    if (closed) {
      if (schema.value("minItems", Schema(0U)).get<size_t>() > first.size())
        wrong(where, "'minItems' is more than 'prefixItems' has, and others are not allowed");
    } else if (count != "{0,0}") {
      const std::string item = term(rest, where + "/items");
      const std::string next = fmt::format("(\",\" {} {} {})", ws, item, ws);
      items += first.empty() ? beginning(item, next, count, ws) : next + count;
    }
    return add_rule(where, fmt::format("\"[\" {} {} \"]\"", ws, items.empty() ? "\"\"" : items));
  }

  /// `count` ("*", "{2,}", "{0,3}") items, the first of which has no comma before it.
  static std::string beginning(const std::string& item, const std::string& next, const std::string& count,
                               const std::string& ws) {
    if (count == "*") return fmt::format("({} {} {}*)?", item, ws, next);
    const size_t comma = count.find(',');
    const auto least = std::stoul(count.substr(1));
    const std::string most = count.substr(comma + 1, count.size() - comma - 2);
    const std::string left = most.empty() ? "" : std::to_string(std::stoul(most) - 1);
    const std::string some =
        fmt::format("({} {} {}{{{},{}}})", item, ws, next, least == 0 ? 0 : least - 1, left);
    return least == 0 ? some + "?" : some;
  }

  std::string object(const Schema& schema, const std::string& where) {
    const Schema properties = schema.value("properties", Schema::object());
    if (!properties.is_object()) wrong(where, "'properties' is no object");
    std::set<std::string> required;
    for (const Schema& name : schema.value("required", Schema::array())) {
      if (!name.is_string() || !properties.contains(name.get<std::string>()))
        wrong(where, fmt::format("{} is required and not among the properties", name.dump()));
      required.insert(name.get<std::string>());
    }
    const bool open = schema.contains("additionalProperties")
                          ? schema["additionalProperties"] != Schema(false)
                          : properties.empty();
    const std::string ws = shared(kSpaceRule), comma = fmt::format("\",\" {} ", ws);
    std::string extra;
    if (open) {
      const Schema others = schema.value("additionalProperties", Schema(true));
      extra = fmt::format("{} {} \":\" {} {} {}", other_name(properties, where), ws, ws,
                          term(others, where + "/additionalProperties"), ws);
    }
    // From the last property to the first: what may follow where nothing was written yet, and where something was.
    std::string first = open ? fmt::format("({} ({}{})*)?", extra, comma, extra) : "";
    std::string next = open ? fmt::format("({}{})*", comma, extra) : "";
    std::vector<std::pair<std::string, std::string>> pairs;  // name, its rule
    for (const auto& [name, property] : properties.items())
      pairs.emplace_back(
          name, add_rule(where + "/" + name,
                         fmt::format("{} {} \":\" {} {} {}", gbnf_literal(Schema(name).dump()), ws, ws,
                                     term(property, where + "/properties/" + name), ws)));
    for (auto pair = pairs.rbegin(); pair != pairs.rend(); ++pair) {
      const auto& [name, rule] = *pair;
      const std::string behind = next.empty() ? "" : add_rule(where + "/behind-" + name, next);
      if (required.contains(name)) {
        first = fmt::format("{} {}", rule, behind);
        next = fmt::format("{}{} {}", comma, rule, behind);
      } else {
        first = fmt::format("({} {} | {})", rule, behind,
                            first.empty() ? "\"\"" : add_rule(where + "/from-" + name, first));
        next = fmt::format("({}{})? {}", comma, rule, behind);
      }
    }
    return add_rule(where, fmt::format("\"{{\" {} {} \"}}\"", ws, first.empty() ? "\"\"" : first));
  }

  // --- Names that are none of the given ones

  struct NameTree {
    std::map<std::string, NameTree> next;  ///< by character, as JSON writes it
    bool ends = false;
  };

  /// A JSON string that is no property's name. It has no escapes by number, which could write such a name.
  std::string other_name(const Schema& properties, const std::string& where) {
    if (properties.empty()) return shared("string");
    NameTree tree;
    for (const auto& [name, property] : properties.items()) {
      const std::string text = Schema(name).dump();
      NameTree* at = &tree;
      for (size_t i = 1; i + 1 < text.size();) {
        const size_t size = text[i] == '\\' ? (text[i + 1] == 'u' ? 6 : 2) : character_at(text, i).length;
        at = &at->next[text.substr(i, size)];
        i += size;
      }
      at->ends = true;
    }
    return add_rule(where + "/other-name", "\"\\\"\" " + other_text(tree, where) + " \"\\\"\"");
  }

  std::string other_text(const NameTree& tree, const std::string& where) {
    const std::string any = R"(([^"\\\x00-\x1F\x7F] | "\\" ["\\bfnrt]))";
    if (tree.next.empty()) return tree.ends ? any + " " + any + "*" : any + "*";
    std::vector<std::string> parts;
    std::string excluded, escapes = R"("\bfnrt)";
    for (const auto& [character, below] : tree.next) {
      parts.push_back(gbnf_literal(character) + " " +
                      add_rule(where + "/other-name", other_text(below, where)));
      if (character.size() == 2 && character[0] == '\\')
        std::erase(escapes, character[1]);
      else if (character.size() != 6 || character[0] != '\\')
        excluded += fmt::format("\\U{:08X}", static_cast<uint32_t>(character_at(character, 0).code));
    }
    parts.push_back(fmt::format(R"([^"\\\x00-\x1F\x7F{}] {}*)", excluded, any));
    if (!escapes.empty()) {
      std::string letters;
      for (const char c : escapes)
        letters += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
      parts.push_back(fmt::format(R"("\\" [{}] {}*)", letters, any));
    }
    return fmt::format("({}){}", fmt::join(parts, " | "), tree.ends ? "" : "?");
  }

  const Schema& root_;
  std::map<std::string, std::string, std::less<>> rules_;
  std::map<std::string, std::string> references_;
};

}  // namespace

std::string json_schema_grammar(std::string_view schema) {
  Schema parsed;
  try {
    parsed = parse_bounded_json<Schema>(schema, "json schema");
  } catch (const Schema::exception& error) {
    fail<FormatError>("[json schema] it is not JSON: {}", error.what());
  }
  try {
    return SchemaGrammar(parsed).grammar();
  } catch (const Schema::exception& error) {
    fail<FormatError>("[json schema] a keyword has a value of the wrong kind: {}", error.what());
  }
}

}  // namespace luminal::text
