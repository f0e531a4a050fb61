#pragma once
#include <string>
#include <string_view>

/// Grammars of the JSON that a schema describes.
///
///   text::Grammar grammar(text::json_schema_grammar(R"({"type": "array", "items": {"enum": ["yes", "no"]}})"));
///   assert(grammar.matches(R"(["yes", "no"])"));
namespace luminal::text {

/// A JSON schema (draft 2020-12) as GBNF: type, enum, const, properties, required, additionalProperties, items,
/// prefixItems, minItems, maxItems, minLength, maxLength, pattern, minimum and maximum of integers, anyOf, oneOf (any of
/// its parts), allOf of objects, $ref within the schema, and format (date, time, date-time, uuid). Values of an object
/// stand in the order of the schema, and what it does not name is not allowed unless `additionalProperties` says so.
/// Errors: FormatError with the place in the schema for what is not JSON, for references that lead nowhere, and for
/// keywords that constrain values and are not among these.
[[nodiscard]] std::string json_schema_grammar(std::string_view schema);

}  // namespace luminal::text
