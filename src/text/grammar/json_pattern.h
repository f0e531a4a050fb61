#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Texts of JSON strings as GBNF.
namespace luminal::text {

using CharacterRanges = std::vector<std::pair<char32_t, char32_t>>;

/// `text` in GBNF's quotes.
[[nodiscard]] std::string gbnf_literal(std::string_view text);
/// One character of a JSON string, escaped where JSON wants it, in these sorted ranges.
[[nodiscard]] std::string gbnf_json_characters(const CharacterRanges& ranges);
/// The inside of a JSON string that a regular expression (ECMA-262, without look-around and back references) finds
/// something in. Errors: FormatError led by `where`.
[[nodiscard]] std::string gbnf_json_pattern(std::string_view regex, const std::string& where);

}  // namespace luminal::text
