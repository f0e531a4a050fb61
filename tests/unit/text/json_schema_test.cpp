#include "luminal/text/json_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "luminal/error.h"
#include "luminal/text/grammar.h"
#include "support/effort.h"
#include "support/files.h"
#include "text/matcher.h"

namespace luminal::text {
namespace {

using test::error_of;
using testing::HasSubstr;

struct SchemaCase {
  const char* schema;
  std::vector<const char*> valid, invalid;
};

/// Worked by hand from the standard (JSON Schema, draft 2020-12), in the order and spacing that grammars choose.
const std::vector<SchemaCase> kSchemaCases{
    {"{}", {"1", "\"a\"", "[1, {\"a\": null}]", "{\"x\": [true, -1.5e+3]}"}, {"", "01", "{a: 1}", "[1,]"}},
    {"true", {"null"}, {"nul"}},
    {R"({"type": "boolean"})", {"true", "false"}, {"null", "\"true\""}},
    {R"({"type": ["integer", "null"]})", {"3", "-3", "null"}, {"3.5", "\"3\"", "+3", "-"}},
    {R"({"const": {"a": ["b\"c"]}})", {R"({"a":["b\"c"]})"}, {"{}", R"({"a":["b"]})"}},
    {R"({"enum": ["red", 3, null]})", {"\"red\"", "3", "null"}, {"red", "\"green\""}},
    {R"({"type": "string", "minLength": 2, "maxLength": 3})",
     {"\"ab\"", "\"a\xc3\xa9\\n\"", "\"\\u00e9\\u00e9\""},
     {"\"a\"", "\"abcd\"", "\"ab"}},
    {R"({"type": "string"})", {"\"\"", "\"a\\\"b\""}, {"\"a\"b\"", "\"\n\"", "\"\\x\""}},
    {R"({"type": "string", "format": "date"})",
     {"\"2026-02-28\"", "\"1999-12-31\""},
     {"\"2026-13-01\"", "\"2026-1-1\"", "\"2026-00-10\""}},
    {R"({"type": "string", "format": "date-time"})",
     {"\"2026-02-28T23:59:59Z\"", "\"2026-02-28T00:00:00.123+05:30\""},
     {"\"2026-02-28\"", "\"2026-02-28T24:00:00Z\""}},
    {R"({"format": "uuid", "type": "string"})",
     {"\"123e4567-e89b-12d3-a456-426614174000\""},
     {"\"123e4567e89b12d3a456426614174000\""}},
    {R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {"type": "null"}},
         "required": ["b"]})",
     {R"({"b": ""})", R"({"a": 1, "b": ""})", R"({"b":"","c":null})", R"({ "a":1,"b":"x" , "c": null })"},
     {"{}", R"({"a": 1})", R"({"b": "", "d": 1})", R"({"b": "",})", R"({"a": "1", "b": ""})",
      R"({,"b": ""})"}},
    {R"({"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}})",
     {"{}", R"({"a": 1})", R"({"b": 1})", R"({"a": 1, "b": 2})"},
     {R"({"c": 1})", R"({"a": 1 "b": 2})"}},
    {R"({"type": "object", "additionalProperties": {"type": "integer"}})",
     {"{}", R"({"a": 1, "b": 2})"},
     {R"({"a": "1"})"}},
    {R"({"type": "object", "properties": {"ab": {"type": "integer"}, "a\"": {"type": "integer"}},
         "additionalProperties": {"type": "string"}})",
     {"{}", R"({"ab": 1})", R"({"ab": 1, "x": "y", "a": "z"})", R"({"abc": "", "": "", "\\": "", "a\\": ""})",
      R"({"a\"": 1})", R"({"a\"b": ""})"},
     {R"({"ab": "1"})", R"({"x": 1})", R"({"a\"": ""})", R"({"x": "", "ab": 1})", R"({"\u0061b": ""})"}},
    {R"({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3})",
     {"[1, 2]", "[1,2,3]"},
     {"[]", "[1]", "[1,2,3,4]", "[1, \"2\"]", "[1,,2]"}},
    {R"({"type": "array", "items": {"type": "integer"}, "maxItems": 0})", {"[]", "[ ]"}, {"[1]"}},
    {R"({"type": "array", "items": {"type": "integer"}})", {"[]", "[1]", "[1, 2, 3]"}, {"[1", "[true]"}},
    {R"({"type": "array"})", {"[]", "[1, \"a\", {}]"}, {"[,]"}},
    {R"({"prefixItems": [{"type": "integer"}, {"type": "string"}]})",
     {"[1, \"a\"]"},
     {"[1]", "[1, \"a\", 2]"}},
    {R"({"prefixItems": [{"type": "integer"}], "items": {"type": "null"}, "minItems": 2, "maxItems": 3})",
     {"[1, null]", "[1, null, null]"},
     {"[1]", "[1, 2]", "[1, null, null, null]"}},
    {R"({"anyOf": [{"type": "integer"}, {"type": "object", "properties": {"a": {"const": 1}}}], "title": "t"})",
     {"5", R"({"a": 1})"},
     {R"({"a": 2})", "\"5\""}},
    {R"({"allOf": [{"$ref": "#/$defs/base"}, {"properties": {"b": {"const": 2}}, "required": ["b"]}],
         "$defs": {"base": {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}}})",
     {R"({"a":1,"b":2})"},
     {R"({"a":1})", R"({"b":2})"}},
    {R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties":
         {"value": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
         "required": ["value", "next"]}}})",
     {R"({"value": 1, "next": null})", R"({"value": 1, "next": {"value": 2, "next": null}})"},
     {R"({"value": 1})", R"({"value": 1, "next": {}})"}},
    {R"({"type": "array", "items": {"$ref": "#"}})", {"[]", "[[], [[]]]"}, {"[1]"}},
};

TEST(JsonSchema, AllowsWhatTheStandardAllows) {
  for (const SchemaCase& each : kSchemaCases) {
    const std::string gbnf = json_schema_grammar(each.schema);
    const Grammar grammar(gbnf);
    for (const char* text : each.valid)
      EXPECT_TRUE(grammar.matches(text)) << each.schema << "\n" << text << "\n" << gbnf;
    for (const char* text : each.invalid)
      EXPECT_FALSE(grammar.matches(text)) << each.schema << "\n" << text << "\n" << gbnf;
  }
}

TEST(JsonSchema, RangesOfIntegersHoldTheirNumbersAlone) {
  std::mt19937_64 random(effort::seed(11));
  const auto below = [&](int64_t end) { return static_cast<int64_t>(random() % static_cast<uint64_t>(end)); };
  for (int i = 0; i < effort::cases(6, 200); ++i) {
    const int64_t least = below(2400) - 1200, most = least + below(1 + below(2000));
    const bool has_least = below(4) > 0, has_most = below(4) > 0, exclusive = below(2) == 0;
    nlohmann::json schema{{"type", "integer"}};
    if (has_least) schema[exclusive ? "exclusiveMinimum" : "minimum"] = least - (exclusive ? 1 : 0);
    if (has_most) schema[exclusive ? "exclusiveMaximum" : "maximum"] = most + (exclusive ? 1 : 0);
    const Grammar grammar(json_schema_grammar(schema.dump()));
    for (int64_t value = -3500; value <= 3500; ++value)
      ASSERT_EQ(grammar.matches(std::to_string(value)),
                (!has_least || value >= least) && (!has_most || value <= most))
          << schema << " " << value;
    for (const char* text : {"007", "-0", "1.5", "", "-"})
      ASSERT_FALSE(grammar.matches(text) && has_least) << text;
  }
}

/// Random expressions, each with what it may meet: letters, marks that JSON escapes, and characters of two bytes.
std::string random_pattern(std::mt19937_64& random, int depth) {
  const auto choose = [&](size_t end) { return static_cast<size_t>(random() % end); };
  constexpr std::array<const char*, 12> kAtoms{"a",   "b",   "\"",   "\\\\",    "\xc3\xa9", "\\d",
                                               "\\w", "\\s", "[^a]", "[a-c\"]", ".",        "\\n"};
  constexpr std::array<const char*, 8> kTimes{"", "", "*", "+", "?", "{2}", "{0,2}", "{1,}"};
  if (depth == 0 || choose(3) == 0)
    return std::string(kAtoms[choose(kAtoms.size())]) + kTimes[choose(kTimes.size())];
  const std::string left = random_pattern(random, depth - 1), right = random_pattern(random, depth - 1);
  return choose(3) == 0 ? "(?:" + left + "|" + right + ")" + kTimes[choose(kTimes.size())] : left + right;
}

/// \w as ECMA-262 has it: to tokenizers, letters of all scripts are such.
std::string with_plain_words(std::string pattern) {
  for (size_t at = 0; (at = pattern.find("\\w", at)) != std::string::npos;)
    pattern.replace(at, 2, "[0-9A-Za-z_]");
  return pattern;
}

TEST(JsonSchema, PatternsMatchWhatPcre2Matches) {
  std::mt19937_64 random(effort::seed(5));
  constexpr std::array<const char*, 9> kCharacters{"a", "b", "c", "\"", "\\", "\xc3\xa9", "7", " ", "\n"};
  int matched = 0;
  for (int i = 0; i < effort::cases(60, 1000); ++i) {
    const std::string pattern = random_pattern(random, 2);
    const bool begins = random() % 2 == 0, ends = random() % 2 == 0;
    const std::string anchored = (begins ? "^" : "") + pattern + (ends ? "$" : "");
    const Grammar grammar(
        json_schema_grammar(nlohmann::json{{"type", "string"}, {"pattern", anchored}}.dump()));
    // What the expression finds has a mark in front, so that no match is empty; \z is an end without its exceptions.
    const Matcher matcher({std::string("\\A#") + (begins ? "" : "(?s:.*)") +
                               "(?:" + with_plain_words(pattern) + ")" + (ends ? "\\z" : ""),
                           true});
    for (int k = 0; k < 60; ++k) {
      std::string text;
      for (size_t length = random() % 5; length > 0; --length)
        text += kCharacters[random() % kCharacters.size()];
      const bool expected = !matcher.matches("#" + text).empty();
      matched += static_cast<int>(expected);
      ASSERT_EQ(grammar.matches(nlohmann::json(text).dump()), expected) << anchored << "\n" << text;
    }
  }
  EXPECT_GT(matched, 200);
}

TEST(JsonSchema, WhatItCannotSayIsAnError) {
  const auto error = [](const char* schema) {
    return error_of<FormatError>([&] { (void)json_schema_grammar(schema); });
  };
  EXPECT_THAT(error("{"), HasSubstr("[json schema] it is not JSON"));
  EXPECT_THAT(error("[]"), HasSubstr("[json schema] #: a schema is an object, true or false"));
  EXPECT_THAT(error(R"({"type": "text"})"), HasSubstr("'type' is \"text\", and must be null, boolean"));
  EXPECT_THAT(error(R"({"properties": {"a": {"not": {}}}})"),
              HasSubstr("[json schema] #/properties/a: 'not' cannot be said in a grammar"));
  EXPECT_THAT(error(R"({"type": "number", "minimum": 1})"),
              HasSubstr("'minimum' of numbers that are not integers cannot be said"));
  EXPECT_THAT(error(R"({"type": "integer", "minimum": 3, "maximum": 2})"),
              HasSubstr("no whole number is at least 3"));
  EXPECT_THAT(error(R"({"$ref": "#/$defs/x"})"), HasSubstr("$ref '#/$defs/x' leads nowhere"));
  EXPECT_THAT(error(R"({"$ref": "http://example.org/x"})"), HasSubstr("leads out of the schema"));
  EXPECT_THAT(error(R"({"anyOf": [{}], "properties": {}})"),
              HasSubstr("'properties' beside 'anyOf' is not read"));
  EXPECT_THAT(error(R"({"properties": {"a": {}}, "required": ["b"]})"),
              HasSubstr("\"b\" is required and not among"));
  EXPECT_THAT(error(R"json({"type": "string", "pattern": "a(?=b)"})json"), HasSubstr("has a look-around"));
  EXPECT_THAT(error(R"({"type": "string", "pattern": "(a"})"), HasSubstr("has a group without an end"));
  EXPECT_THAT(error(R"({"type": "array", "minItems": 3, "maxItems": 2})"),
              HasSubstr("'maxItems' is 2, less than what must be there"));
  EXPECT_THAT(error(R"({"required": 3})"), HasSubstr("[json schema]"));
}

}  // namespace
}  // namespace luminal::text
